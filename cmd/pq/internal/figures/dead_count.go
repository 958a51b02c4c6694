package figures

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/subjects"
)

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
