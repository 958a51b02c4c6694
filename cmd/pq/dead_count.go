package main

import (
	"cmp"
	"strings"

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

// figuresOf adds the dead letters to what is known about all queues.
func figuresOf(infos []*client.Info) []*figures {
	named := make(map[string]*client.Info, len(infos))
	for _, i := range infos {
		named[i.Queue] = i
	}
	all := make([]*figures, 0, len(infos))
	for _, i := range infos {
		f := &figures{Info: i, dead: none, age: i.Oldest}
		if in := holder(i); in != "" {
			f.dead = items(named[in])
		}
		all = append(all, f)
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
