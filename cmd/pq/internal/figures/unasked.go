package figures

import (
	"fmt"
	"strings"

	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/subjects"
)

// Unasked are the queues of a list that a client of this prefix cannot ask about: a bridge shows its operator those of
// tenants, and a store that somebody else made may have names that no queue may have.
type Unasked struct{ Tenants, Strange []string }

// Note notes which queues of a list are not asked about.
func (u *Unasked) Note(names []string) {
	for _, name := range names {
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
	return lines
}

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
