package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/client"
)

func deadRequeueCommand(s *session) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "requeue <queue> [<id>...]", Args: arguments(1, anyNumber),
		Short: "push dead letters to their queue again",
		Long: `Takes dead letters out of the dead-letter queue and pushes them to the queue they
come from, with their priority, key and headers. They are new items there: their
deliveries count from 0, and they stand behind the others of their priority.

Each goes in one transaction, so after an interruption run it again. Where the queue
is full, what has no room stays a dead letter.`,
		Example: `  # one that "pq dead list" shows
  pq dead requeue jobs FBUBAX_Af0DSUlItAA

  # all, after the cause was removed
  pq dead requeue jobs --all`,
		RunE: func(_ *cobra.Command, args []string) error {
			queue, ids := args[0], args[1:]
			if all == (len(ids) > 0) {
				return usagef("expected ids, or --all")
			}
			c, err := s.connect()
			if err != nil {
				return err
			}
			holders, err := s.deadLetters(c, queue)
			if err != nil {
				return err
			}
			r := &requeue{session: s, to: c.Queue(queue)}
			if all {
				err = s.eachDead(holders, queue, client.ListOptions{}, func(dead *client.Queue, i *client.Listed) (bool, error) { return true, r.item(dead, i.ID) })
			}
			for _, id := range ids {
				if err = r.find(holders, id); err != nil {
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
	c.Flags().BoolVarP(&all, "all", "a", all, "all dead letters of the queue")
	return c
}

// requeue brings dead letters back to a queue.
type requeue struct {
	session *session
	to      *client.Queue
	done    int64
}

// find requeues the item with an id, which is in one of several queues.
func (r *requeue) find(holders []*client.Queue, id string) (err error) {
	for _, dead := range holders {
		if err = r.bring(dead, id); !errors.Is(err, client.ErrNotFound) {
			break
		}
	}
	return err
}

// item requeues one of many items, if it is still there.
func (r *requeue) item(from *client.Queue, id string) error {
	if err := r.bring(from, id); !errors.Is(err, client.ErrNotFound) {
		return err
	}
	return nil
}

func (r *requeue) bring(from *client.Queue, id string) error {
	pushed, err := from.Requeue(r.session.ctx, id, r.to.Name())
	if err != nil {
		return err
	}
	r.done++
	if r.session.global.json {
		return r.session.printJSON(shownPush(r.to.Name(), *pushed))
	}
	return nil
}
