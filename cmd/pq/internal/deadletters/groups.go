package deadletters

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/client"
)

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
