package figures

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/internal/screen"
	"github.com/pqbridge/pqbridge/subjects"
)

// OldestOf is the age of the oldest of n things, or a lower bound of it.
func OldestOf(n int64, age float64, atLeast bool) string {
	if n == 0 {
		return "-"
	}
	text := show.Span(show.Seconds(age).Round(time.Second))
	if atLeast {
		return text + " or more"
	}
	return text
}

// Oldest writes the age of the next item, or, where none is handed out, of the oldest one that is ready.
func Oldest(i *client.Info) string {
	if i.Ready == 0 {
		return "-"
	}
	return show.Span(show.Seconds(cmp.Or(i.Oldest, i.OldestOfAll)).Round(time.Second))
}

// Queue are what is known about a queue.
type Queue struct {
	*client.Info
	Dead int64   // items of its dead-letter queue; none if it is one itself
	age  float64 // of the oldest ready item, in seconds
	At   time.Time
}

// None stands for the dead letters of a queue that has none of its own.
const None = -1

// Orders compare queues, the one with more first.
var Orders = map[string]func(a, b *Queue) int{
	"rate":    by(func(f *Queue) float64 { return f.Rates.Push + f.Rates.Pop + f.Rates.Settle }),
	"ready":   by(func(f *Queue) int64 { return f.Ready }),
	"leased":  by(func(f *Queue) int64 { return f.Leased }),
	"delayed": by(func(f *Queue) int64 { return f.Delayed }),
	"dead":    by(func(f *Queue) int64 { return f.Dead }),
	"oldest":  by(func(f *Queue) float64 { return f.age }),
	"waiting": by(func(f *Queue) int { return f.Waiting }),
	"push":    by(func(f *Queue) float64 { return f.Rates.Push }),
	"pop":     by(func(f *Queue) float64 { return f.Rates.Pop }),
	"settle":  by(func(f *Queue) float64 { return f.Rates.Settle }),
	"name":    func(a, b *Queue) int { return strings.Compare(a.Queue, b.Queue) },
}

func by[V cmp.Ordered](value func(*Queue) V) func(a, b *Queue) int {
	return func(a, b *Queue) int { return cmp.Compare(value(b), value(a)) }
}

// Sort sorts queues, those that are equal by name.
func Sort(all []*Queue, order string, reversed bool) {
	compare := Orders[order]
	slices.SortFunc(all, func(a, b *Queue) int {
		first := compare(a, b)
		if reversed {
			first = -first
		}
		return cmp.Or(first, strings.Compare(a.Queue, b.Queue))
	})
}

// New are those of a queue, dead letters aside.
func New(i *client.Info, at time.Time) *Queue {
	return &Queue{Info: i, Dead: None, age: i.OldestOfAll, At: at}
}

// AsksAtOnce bounds how many requests are sent without an answer.
const AsksAtOnce = 16

// NamesPage is how many names are asked for at a time.
const NamesPage = 200

// PagesOf returns the names of the queues that begin with a prefix, a page at a time.
func PagesOf(ctx context.Context, c *client.Client, prefix string) iter.Seq2[*client.QueuesPage, error] {
	return func(yield func(*client.QueuesPage, error) bool) {
		for after := ""; ; {
			page, err := c.QueuesPage(ctx, client.QueuesOptions{Prefix: prefix, After: after, Limit: NamesPage})
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(page, nil) || page.Next == "" {
				return
			}
			after = page.Next
		}
	}
}

// QueuesOf asks about the queues that begin with a prefix. One that is deleted meanwhile is left
// out.
func QueuesOf(ctx context.Context, c *client.Client, prefix string) (infos []*client.Info, left Unasked, err error) {
	for page, err := range PagesOf(ctx, c, prefix) {
		if err != nil {
			return nil, left, err
		}
		left.Note(page)
		there, err := InfosOf(ctx, c, page.Queues, &left)
		if err != nil {
			return nil, left, err
		}
		infos = append(infos, there...)
	}
	return infos, left, nil
}

// InfosOf asks about queues. Those that do not exist, and those that nobody can ask about, are left out. So are those that the bridge
// cannot read, unless it can read none: left notes them. After an error it asks no more.
func InfosOf(ctx context.Context, c *client.Client, names []string, left *Unasked) ([]*client.Info, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	infos, failed := make([]*client.Info, len(names)), make([]error, len(names))
	var read, unread atomic.Int64
	turns := make(chan struct{}, AsksAtOnce)
	var asking sync.WaitGroup
	for i, name := range names {
		if subjects.CheckQueue(name) != nil {
			continue // see Unasked
		}
		turns <- struct{}{}
		asking.Go(func() {
			defer func() { <-turns }()
			if ctx.Err() != nil {
				return
			}
			info, err := c.Queue(name).Info(ctx)
			switch {
			case err == nil:
				infos[i] = info
				read.Add(1)
			case errors.Is(err, client.ErrNotFound):
			case isUnread(err) && (unread.Add(1) < AsksAtOnce || read.Load() > 0):
				failed[i] = err
			default:
				cancel(err)
			}
		})
	}
	asking.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if unread.Load() > 0 && read.Load() == 0 {
		return nil, errors.Join(failed...)
	}
	there := infos[:0]
	for i, info := range infos {
		if failed[i] != nil {
			left.Unread = append(left.Unread, names[i])
			left.Why = cmp.Or(left.Why, failed[i])
		}
		if info != nil {
			there = append(there, info)
		}
	}
	return there, nil
}

// isUnread reports whether the bridge was asked, and could not read the queue.
func isUnread(err error) bool {
	var refused *client.Error
	return errors.As(err, &refused) && refused.Code == 500
}

// Holder is the queue that gets the dead letters of a queue, "" if that is one for dead
// letters itself: a dead letter that dies is dropped.
func Holder(i *client.Info) string {
	if i.Config.DeadLetter == "" && strings.HasSuffix(i.Queue, subjects.DeadLetter("")) {
		return ""
	}
	return cmp.Or(i.Config.DeadLetter, subjects.DeadLetter(i.Queue))
}

// Items is how many items a queue has.
func Items(i *client.Info) int64 {
	if i == nil {
		return 0
	}
	return i.Ready + i.Leased + i.Delayed
}

// ByName are queues by their names.
func ByName(infos []*client.Info) map[string]*client.Info {
	named := make(map[string]*client.Info, len(infos))
	for _, i := range infos {
		named[i.Queue] = i
	}
	return named
}

// WithHolders are queues by their names, and besides them those with their dead letters.
func WithHolders(ctx context.Context, c *client.Client, infos []*client.Info) (map[string]*client.Info, error) {
	named := ByName(infos)
	var missing []string
	for _, i := range infos {
		if in := Holder(i); in != "" && named[in] == nil && i.Config.DeadLetter != "" && !slices.Contains(missing, in) {
			missing = append(missing, in)
		}
	}
	others, err := InfosOf(ctx, c, missing, new(Unasked))
	for _, i := range others {
		named[i.Queue] = i
	}
	return named, err
}

// Of are what is known about queues, with the dead letters in others of which something
// is known.
func Of(infos []*client.Info, named map[string]*client.Info, at time.Time) []*Queue {
	all := make([]*Queue, len(infos))
	for n, i := range infos {
		all[n] = New(i, at)
		if in := Holder(i); in != "" {
			all[n].Dead = Items(named[in])
		}
	}
	return all
}

// DeadLettersOf writes a number of dead letters.
func DeadLettersOf(n int64) string {
	if n == None {
		return "-"
	}
	return show.Thousands(n)
}

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
