package main

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/subjects"
)

// holder is the queue that gets the dead letters of a queue, "" if that is one for dead
// letters itself: a dead letter that dies is dropped.
func holder(i *client.Info) string {
	if i.Config.DeadLetter == "" && strings.HasSuffix(i.Queue, subjects.DeadLetter("")) {
		return ""
	}
	return cmp.Or(i.Config.DeadLetter, subjects.DeadLetter(i.Queue))
}

// items is how many items a queue has.
func items(i *client.Info) int64 {
	if i == nil {
		return 0
	}
	return i.Ready + i.Leased + i.Delayed
}

// byName are queues by their names.
func byName(infos []*client.Info) map[string]*client.Info {
	named := make(map[string]*client.Info, len(infos))
	for _, i := range infos {
		named[i.Queue] = i
	}
	return named
}

// withHolders are queues by their names, and besides them those with their dead letters.
func withHolders(ctx context.Context, c *client.Client, infos []*client.Info) (map[string]*client.Info, error) {
	named := byName(infos)
	var missing []string
	for _, i := range infos {
		if in := holder(i); in != "" && named[in] == nil && i.Config.DeadLetter != "" && !slices.Contains(missing, in) {
			missing = append(missing, in)
		}
	}
	others, err := infosOf(ctx, c, missing)
	for _, i := range others {
		named[i.Queue] = i
	}
	return named, err
}

// figuresOf are what is known about queues, with the dead letters in others of which something
// is known.
func figuresOf(infos []*client.Info, named map[string]*client.Info, at time.Time) []*figures {
	all := make([]*figures, len(infos))
	for n, i := range infos {
		all[n] = newFigures(i, at)
		if in := holder(i); in != "" {
			all[n].dead = items(named[in])
		}
	}
	return all
}

// deadLettersOf writes a number of dead letters.
func deadLettersOf(n int64) string {
	if n == none {
		return "-"
	}
	return thousands(n)
}
