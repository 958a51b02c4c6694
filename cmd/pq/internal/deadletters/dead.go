package deadletters

import (
	"cmp"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/subjects"
)

// Letters are the queues that may hold the dead letters of a queue: its own,
// and the one in its configuration.
func Letters(s *session.Session, c *client.Client, queue string) ([]*client.Queue, error) {
	info, err := c.Queue(queue).Info(s.Context)
	if err != nil && !errors.Is(err, client.ErrNotFound) {
		return nil, err
	}
	own := c.Queue(subjects.DeadLetter(queue))
	if info == nil || info.Config.DeadLetter == "" || info.Config.DeadLetter == own.Name() {
		return []*client.Queue{own}, nil
	}
	return []*client.Queue{c.Queue(info.Config.DeadLetter), own}, nil
}

// Each calls fn for the dead letters of a queue until fn returns false. Several queues
// may share a queue for dead letters.
func Each(s *session.Session, holders []*client.Queue, origin string, o client.ListOptions, fn func(*client.Queue, *client.Listed) (bool, error)) error {
	for _, dead := range holders {
		if more, err := eachIn(s, dead, origin, o, fn); err != nil || !more {
			return err
		}
	}
	return nil
}

func eachIn(s *session.Session, dead *client.Queue, origin string, o client.ListOptions,
	fn func(*client.Queue, *client.Listed) (bool, error)) (more bool, err error) {
	for l, err := range dead.List(s.Context, o) {
		if errors.Is(err, client.ErrNotFound) {
			return true, nil // nothing has died yet
		}
		if err != nil {
			return false, err
		}
		if l.Dead == nil || l.Dead.Origin != origin {
			continue
		}
		if more, err := fn(dead, &l); err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

// Died says how long ago an item died.
func Died(at, now time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return show.Span(max(0, now.Sub(at)).Round(time.Second)) + " ago"
}

// Requeue brings dead letters back to a queue.
type Requeue struct {
	Session *session.Session
	To      *client.Queue
	Done    int64
}

// Find requeues the item with an id, which is in one of several queues.
func (r *Requeue) Find(holders []*client.Queue, id string) (err error) {
	for _, dead := range holders {
		if err = r.bring(dead, id); !errors.Is(err, client.ErrNotFound) {
			break
		}
	}
	return err
}

// Item requeues one of many items, if it is still there.
func (r *Requeue) Item(from *client.Queue, id string) error {
	if err := r.bring(from, id); !errors.Is(err, client.ErrNotFound) {
		return err
	}
	return nil
}

func (r *Requeue) bring(from *client.Queue, id string) error {
	pushed, err := from.Requeue(r.Session.Context, id, r.To.Name())
	if err != nil {
		return err
	}
	r.Done++
	if r.Session.Global.JSON {
		return r.Session.PrintJSON(show.ShownPush(r.To.Name(), *pushed))
	}
	return nil
}

// particular are ids and long numbers, which are not what failures have in common. Short ones, such as
// that of an HTTP status, may be. The console has the same in why.js.
var particular = regexp.MustCompile(`(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9a-f]{8,}\b|\d{4,}`)

// Alike leaves out of a cause what is particular to one item.
func Alike(cause string) string {
	return particular.ReplaceAllStringFunc(cause, func(found string) string {
		if !strings.ContainsAny(found, "0123456789") {
			return found // a word
		}
		return "#"
	})
}

// Group are dead letters that failed alike.
type Group struct {
	Queue string    `json:"queue"` // that they come from
	Cause string    `json:"cause"`
	Items int64     `json:"items"`
	Last  time.Time `json:"last,omitzero"` // died of them
}

// Groups are dead letters by queue and cause.
type Groups map[[2]string]*Group

// Add counts a dead letter.
func (g Groups) Add(l *client.Listed) {
	at := [2]string{l.Dead.Origin, Alike(l.Cause)}
	group := g[at]
	if group == nil {
		group = &Group{Queue: at[0], Cause: at[1]}
		g[at] = group
	}
	group.Items++
	if l.Dead.At.After(group.Last) {
		group.Last = l.Dead.At
	}
}

// Largest are the groups, those with most items first.
func (g Groups) Largest() []*Group {
	all := make([]*Group, 0, len(g))
	for _, group := range g {
		all = append(all, group)
	}
	slices.SortFunc(all, func(a, b *Group) int {
		return cmp.Or(cmp.Compare(b.Items, a.Items), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Cause, b.Cause))
	})
	return all
}
