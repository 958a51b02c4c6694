package figures

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
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
