package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/client"
)

// queues looks for queues that need attention.
func (d *doctor) queues() {
	var infos []*client.Info
	permitted, err := d.try(func(ctx context.Context) (err error) {
		if d.queue == "" {
			infos, err = allQueues(ctx, d.client)
			return err
		}
		info, err := d.client.Queue(d.queue).Info(ctx)
		infos = append(infos, info)
		return err
	})
	switch {
	case !permitted:
		d.note(fine, "queues", "not known: this user may not see them")
		return
	case errors.Is(err, client.ErrNotFound):
		d.note(warn, "queues", "there is no queue %s yet: the first push makes it", d.queue)
		return
	case err != nil:
		d.note(bad, "queues", "%v", err)
		return
	}
	remarks := 0
	remark := func(format string, args ...any) {
		remarks++
		d.note(warn, "queues", format, args...)
	}
	for _, i := range infos {
		examineQueue(i, remark)
	}
	if remarks == 0 {
		d.note(fine, "queues", "%s, nothing to remark", many(int64(len(infos)), "queue"))
	}
}

// unattended is the age of an unpopped item from which doctor warns.
const unattended = time.Hour

func examineQueue(i *client.Info, remark func(format string, args ...any)) {
	if origin, is := strings.CutSuffix(i.Queue, "-dead"); is && i.Ready > 0 {
		remark(`%s holds %s: "pq dead list %s" says why, "pq dead requeue %s --all" tries them again`,
			i.Queue, many(i.Ready, "dead letter"), origin, origin)
		return
	}
	if i.Paused {
		remark(`%s is paused: "pq resume %s" ends that`, i.Queue, i.Queue)
	}
	if most := i.Config.MaxLength; most > 0 && i.Ready+i.Leased+i.Delayed >= most {
		remark("%s is full (max_length %s): consume faster, or raise it with \"pq config\"", i.Queue, thousands(most))
	}
	if age := seconds(i.Oldest); !i.Paused && i.Ready > 0 && age > unattended && i.Rates.Pop < 0.1 {
		remark("%s has %s, the next of them waiting for %s, and nobody takes them: start a worker", i.Queue, many(i.Ready, "item"), span(age))
	} else if age := seconds(i.OldestOfAll); !i.Paused && age > unattended && seconds(i.Oldest) < age/2 {
		remark("%s has an item that has waited for %s behind more urgent ones: make deadlines its priorities, or start more workers", i.Queue, oldestOf(i.Ready, i.OldestOfAll, i.OldestAtLeast))
	}
}
