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
		Long: `Pushes dead letters to the queue they come from, with their priority, key and
headers, and removes them from the dead-letter queue. They are new items there: their
deliveries count from 0, and they stand behind the others of their priority.

After an interruption run it again: an item that was pushed in the last 2 minutes
is not pushed twice.`,
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
				err = s.eachDead(holders, queue, func(dead *client.Queue, i *client.Item) (bool, error) { return true, r.item(dead, i) })
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

// requeue moves items from one queue to another.
type requeue struct {
	session *session
	to      *client.Queue
	done    int64
}

// find requeues the item with an id, which is in one of several queues.
func (r *requeue) find(holders []*client.Queue, id string) (err error) {
	for _, dead := range holders {
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
	options := []client.PushOption{client.Priority(i.Priority), client.Header(i.Header), client.MsgID("requeue-" + i.ID)}
	if i.Key != "" {
		options = append(options, client.Key(i.Key))
	}
	a, err := r.to.Push(ctx, i.Payload, options...)
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
