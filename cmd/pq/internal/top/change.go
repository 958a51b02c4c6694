package top

import (
	"context"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/deadletters"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
)

// action is what a change does.
type action int

const (
	pauseQueue action = iota
	resumeQueue
	requeueOne
	requeueAll
)

// change is what a user wants done to a queue.
type change struct {
	action action
	queue  string
	id     string // of a dead letter
	most   int64  // how many dead letters the user has seen
}

func (c change) String() string {
	return []string{"pause ", "resume ", "requeue to ", "requeue to "}[c.action] + c.queue
}

// run does it, and returns what was done. Between two dead letters it ends with ctx.
func (c change) run(ctx context.Context, s *session.Session, cl *client.Client, progress func(int64)) (string, error) {
	q := cl.Queue(c.queue)
	switch c.action {
	case pauseQueue:
		return "paused " + c.queue, q.Pause(s.Context)
	case resumeQueue:
		return "resumed " + c.queue, q.Resume(s.Context)
	}
	r := &deadletters.Requeue{Session: s, To: q}
	holders, err := deadletters.Letters(s, cl, c.queue)
	switch {
	case err != nil:
	case c.action == requeueOne:
		err = r.Find(holders, c.id)
	default:
		// What dies again meanwhile stays where it is.
		err = deadletters.Each(s, holders, c.queue, client.ListOptions{}, func(dead *client.Queue, i *client.Listed) (bool, error) {
			err := r.Item(dead, i.ID)
			if r.Done%100 == 0 {
				progress(r.Done)
			}
			return r.Done < c.most && ctx.Err() == nil, err
		})
	}
	return "requeued " + show.Many(r.Done, "item") + " to " + c.queue, err
}
