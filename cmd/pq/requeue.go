package main

import (
	"errors"

	"github.com/pqbridge/pqbridge/client"
)

func deadRequeueCommand() *command {
	var all bool
	return &command{
		name: "dead requeue", args: "<queue> [<id>...]", min: 1, max: anyNumber,
		short: "push dead letters to their queue again",
		long: `Pushes dead letters to the queue they come from, with their priority and headers,
and removes them from the dead-letter queue. They are new items there: their
deliveries count from 0, and they queue behind those of their priority.

When it is interrupted, run it again: what was pushed in the last 2 minutes is
not pushed twice.`,
		examples: []example{
			{"one of those that \"pq dead list\" has", "pq dead requeue jobs FBUBAX_Af0DSUlItAA"},
			{"all, after the mistake is mended", "pq dead requeue jobs --all"},
		},
		flags: func(f *flags) { f.yes(&all, "all,a", "all dead letters of the queue") },
		run: func(s *session, args []string) error {
			queue, ids := args[0], args[1:]
			if all == (len(ids) > 0) {
				return usagef("expected ids, or --all")
			}
			c, err := s.connect()
			if err != nil {
				return err
			}
			graves, err := s.deadLetters(c, queue)
			if err != nil {
				return err
			}
			r := &requeue{session: s, to: c.Queue(queue)}
			if all {
				err = s.eachDead(graves, queue, func(dead *client.Queue, i *client.Item) (bool, error) { return true, r.item(dead, i) })
			}
			for _, id := range ids {
				if err = r.find(graves, id); err != nil {
					break
				}
			}
			s.say("requeued %s", many(r.done, "item"))
			if err == nil && r.done == 0 {
				err = exitError(exitNothing)
			}
			return err
		},
	}
}

// requeue moves items from one queue to another.
type requeue struct {
	session *session
	to      *client.Queue
	done    int64
}

// find requeues the item with an id, which is in one of several queues.
func (r *requeue) find(graves []*client.Queue, id string) (err error) {
	for _, dead := range graves {
		var i *client.Item
		if i, err = dead.Get(r.session.ctx, id); err == nil {
			return r.item(dead, i)
		}
		if !errors.Is(err, client.ErrNotFound) {
			return err
		}
	}
	return err
}

func (r *requeue) item(from *client.Queue, i *client.Item) error {
	ctx := r.session.ctx
	a, err := r.to.Push(ctx, i.Payload,
		client.Priority(i.Priority), client.Header(i.Header), client.MsgID("requeue-"+i.ID))
	if err != nil {
		return err
	}
	if err := from.Remove(ctx, i.ID); err != nil && !errors.Is(err, client.ErrNotFound) {
		return err
	}
	r.done++
	if r.session.global.json {
		return r.session.printJSON(shownPush(r.to.Name(), a))
	}
	return nil
}
