package figures

import (
	"fmt"
	"strings"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/internal/screen"
	"github.com/pqbridge/pqbridge/subjects"
)

// Unasked are the queues of a list that a client of this prefix cannot ask about: a bridge shows its operator those of
// tenants, a store that somebody else made may have names that no queue may have, pops wait for queues that do not exist, and a
// queue may be damaged, or one that only a later version of the bridge serves.
type Unasked struct {
	Tenants, Strange []string
	Absent           []client.AbsentQueue

	Unread []string // the bridge cannot read them
	Why    error    // it cannot read the first of them
}

// Note notes which queues of a page are not asked about.
func (u *Unasked) Note(page *client.QueuesPage) {
	u.Absent = append(u.Absent, page.Absent...)
	for _, name := range page.Queues {
		switch {
		case subjects.CheckQueue(name) == nil:
		case subjects.CheckStored(name) == nil:
			u.Tenants = append(u.Tenants, name)
		default:
			u.Strange = append(u.Strange, name)
		}
	}
}

// Lines are sentences about them for people.
func (u *Unasked) Lines() (lines []string) {
	if n := len(u.Tenants); n > 0 {
		lines = append(lines, fmt.Sprintf("left out %s of tenants: a tenant has its own prefix, such as pq.%s", show.Many(int64(n), "queue"), subjects.Tenant(u.Tenants[0])))
	}
	if n := len(u.Strange); n > 0 {
		lines = append(lines, fmt.Sprintf("left out %s with names that no queue may have: %s (\"pqd check\" looks for more)", show.Many(int64(n), "queue"), quoted(u.Strange)))
	}
	if n := len(u.Unread); n > 0 {
		lines = append(lines, fmt.Sprintf("left out %s that the bridge cannot read: %s: %v", show.Many(int64(n), "queue"), quoted(u.Unread), u.Why))
	}
	for i, q := range u.Absent {
		if i == mostAbsent {
			lines = append(lines, fmt.Sprintf("and pops wait for %s that do not exist", show.Many(int64(len(u.Absent)-i), "more queue")))
			break
		}
		waits := "1 pop waits"
		if q.Waiting != 1 {
			waits = fmt.Sprintf("%d pops wait", q.Waiting)
		}
		lines = append(lines, fmt.Sprintf("queue %s does not exist yet, and %s for its first push: is the name of the worker's queue right?", screen.Visible(q.Queue), waits))
	}
	return lines
}

// mostAbsent is how many absent queues are named.
const mostAbsent = 10

// quoted are the first names of a list.
func quoted(names []string) string {
	const most = 3
	var all []string
	for _, name := range names[:min(most, len(names))] {
		all = append(all, fmt.Sprintf("%.100q", name))
	}
	if len(names) > most {
		all = append(all, "...")
	}
	return strings.Join(all, ", ")
}
