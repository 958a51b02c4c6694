package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/subjects"
)

// deadLetters is the dead-letter queue of a queue.
func (s *session) deadLetters(c *client.Client, queue string) (*client.Queue, error) {
	config, err := c.Queue(queue).Config(s.ctx)
	if err != nil && !errors.Is(err, client.ErrNotFound) {
		return nil, err
	}
	name := config.DeadLetter
	if name == "" {
		name = subjects.DeadLetter(queue)
	}
	return c.Queue(name), nil
}

func deadListCommand() *command {
	count := 20
	return &command{
		name: "dead list", args: "<queue>", min: 1, max: 1,
		short: "list the dead letters of a queue",
		long: `Lists what a queue has given up: items that failed too often, were terminated,
or outlived their TTL if the queue keeps those. Without any the exit code is 3.`,
		examples: []example{{"what went wrong", "pq dead list jobs"}},
		flags:    func(f *flags) { f.number(&count, "count,n", "list at most this `number`, 0 for all") },
		run: func(s *session, args []string) error {
			if count < 0 {
				return usagef("--count %d: expected 0 or more", count)
			}
			c, err := s.connect()
			if err != nil {
				return err
			}
			dead, err := s.deadLetters(c, args[0])
			if err != nil {
				return err
			}
			return s.listDead(dead, args[0], count)
		},
	}
}

// eachDead calls fn for the items of a dead-letter queue that come from a queue,
// until fn says no. A queue for dead letters may be shared.
func (s *session) eachDead(dead *client.Queue, origin string, fn func(*client.Item) (bool, error)) error {
	for l, err := range dead.List(s.ctx, client.ListOptions{}) {
		if errors.Is(err, client.ErrNotFound) {
			return nil // nothing has died yet
		}
		if err != nil {
			return err
		}
		i, err := dead.Get(s.ctx, l.ID) // a list does not say why
		if errors.Is(err, client.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if i.Dead == nil || i.Dead.Origin != origin {
			continue
		}
		if more, err := fn(i); err != nil || !more {
			return err
		}
	}
	return nil
}

func (s *session) listDead(dead *client.Queue, origin string, most int) error {
	rows := [][]string{{"ID", "PRIORITY", "DIED", "SIZE", "REASON"}}
	n := 0
	err := s.eachDead(dead, origin, func(i *client.Item) (bool, error) {
		n++
		if s.global.json {
			return n != most, s.printJSON(shown(i))
		}
		rows = append(rows, []string{
			i.ID, fmt.Sprint(i.Priority), span(time.Since(i.Pushed).Round(time.Second)) + " ago", size(int64(len(i.Payload))), i.Dead.Reason,
		})
		return n != most, nil
	})
	switch {
	case err != nil || s.global.json && n > 0:
		return err
	case n == 0:
		s.say("%s has no dead letters", origin)
		return exitError(exitNothing)
	}
	return table(s.stdout, rows)
}

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
			dead, err := s.deadLetters(c, queue)
			if err != nil {
				return err
			}
			r := &requeue{session: s, to: c.Queue(queue), from: dead}
			if all {
				err = s.eachDead(dead, queue, func(i *client.Item) (bool, error) { return true, r.item(i) })
			}
			for _, id := range ids {
				var i *client.Item
				if i, err = dead.Get(s.ctx, id); err == nil {
					err = r.item(i)
				}
				if err != nil {
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
	session  *session
	from, to *client.Queue
	done     int64
}

func (r *requeue) item(i *client.Item) error {
	ctx := r.session.ctx
	a, err := r.to.Push(ctx, i.Payload,
		client.Priority(i.Priority), client.Header(i.Header), client.MsgID("requeue-"+i.ID))
	if err != nil {
		return err
	}
	if err := r.from.Remove(ctx, i.ID); err != nil && !errors.Is(err, client.ErrNotFound) {
		return err
	}
	r.done++
	if r.session.global.json {
		return r.session.printJSON(shownPush(r.to.Name(), a))
	}
	return nil
}
