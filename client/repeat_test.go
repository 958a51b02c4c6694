package client_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
)

// requests are all requests of the client, each with a bridge's answer.
var requests = []struct {
	name       string
	repeatable bool // doing it twice is like doing it once
	answer     func() *nats.Msg
	do         func(context.Context, *client.Client, *client.Queue) error
}{
	{"push", true, pushAnswer, func(ctx context.Context, _ *client.Client, q *client.Queue) error {
		_, err := q.Push(ctx, nil)
		return err
	}},
	{"push without an id", false, pushAnswer, func(ctx context.Context, _ *client.Client, q *client.Queue) error {
		_, err := q.Push(ctx, nil, client.WithoutMsgID())
		return err
	}},
	{"import", true, pushAnswer, func(ctx context.Context, _ *client.Client, q *client.Queue) error {
		f, err := q.ImportAsync(ctx, &client.Import{ID: "i"})
		if err == nil {
			_, err = f.Result()
		}
		return err
	}},
	{"pop", false, itemAnswer, func(ctx context.Context, _ *client.Client, q *client.Queue) error {
		_, err := q.Pop(ctx, client.Min)
		return err
	}},
	{"repeatable pop", true, itemAnswer, func(ctx context.Context, _ *client.Client, q *client.Queue) error {
		_, err := q.Pop(ctx, client.Min, client.Repeatable())
		return err
	}},
	{"peek", true, itemAnswer, func(ctx context.Context, _ *client.Client, q *client.Queue) error {
		_, err := q.Peek(ctx, client.Min)
		return err
	}},
	{"ack", true, emptyAnswer, func(ctx context.Context, c *client.Client, q *client.Queue) error {
		item, err := c.Attach("pq." + q.Name() + ".ack.c.t")
		if err == nil {
			err = item.Ack(ctx)
		}
		return err
	}},
	{"info", true, emptyAnswer, func(ctx context.Context, _ *client.Client, q *client.Queue) error {
		_, err := q.Info(ctx)
		return err
	}},
	{"list", true, emptyAnswer, func(ctx context.Context, _ *client.Client, q *client.Queue) error {
		for _, err := range q.List(ctx, client.ListOptions{}) {
			return err
		}
		return nil
	}},
	{"get", true, itemAnswer, func(ctx context.Context, _ *client.Client, q *client.Queue) error {
		_, err := q.Get(ctx, "i")
		return err
	}},
	{"remove", false, emptyAnswer, func(ctx context.Context, _ *client.Client, q *client.Queue) error { return q.Remove(ctx, "i") }},
	{"requeue", false, emptyAnswer, func(ctx context.Context, _ *client.Client, q *client.Queue) error {
		_, err := q.Requeue(ctx, "i", "jobs")
		return err
	}},
	{"bulk", true, emptyAnswer, func(ctx context.Context, _ *client.Client, q *client.Queue) error {
		_, err := q.Bulk(ctx, client.Bulk{Verb: client.BulkRemove, All: true})
		return err
	}},
	{"move", true, emptyAnswer, func(ctx context.Context, _ *client.Client, q *client.Queue) error { return q.Move(ctx, "i", 1) }},
	{"config", true, emptyAnswer, func(ctx context.Context, _ *client.Client, q *client.Queue) error {
		_, err := q.Config(ctx)
		return err
	}},
	{"configure", true, emptyAnswer, func(ctx context.Context, _ *client.Client, q *client.Queue) error {
		_, err := q.Configure(ctx, client.ConfigChange{})
		return err
	}},
	{"purge", false, emptyAnswer, func(ctx context.Context, _ *client.Client, q *client.Queue) error {
		_, err := q.Purge(ctx)
		return err
	}},
	{"pause", true, emptyAnswer, func(ctx context.Context, _ *client.Client, q *client.Queue) error { return q.Pause(ctx) }},
	{"resume", true, emptyAnswer, func(ctx context.Context, _ *client.Client, q *client.Queue) error { return q.Resume(ctx) }},
	{"delete", false, emptyAnswer, func(ctx context.Context, _ *client.Client, q *client.Queue) error { return q.Delete(ctx) }},
	{"queues", true, emptyAnswer, func(ctx context.Context, c *client.Client, _ *client.Queue) error {
		for _, err := range c.Queues(ctx) {
			return err
		}
		return nil
	}},
	{"system", true, emptyAnswer, func(ctx context.Context, c *client.Client, _ *client.Queue) error {
		_, err := c.System(ctx)
		return err
	}},
}

func emptyAnswer() *nats.Msg { return &nats.Msg{Data: []byte(`{}`)} }

func itemAnswer() *nats.Msg { return &nats.Msg{Header: nats.Header{"PQ-Id": {"i"}}} }

func pushAnswer() *nats.Msg {
	return &nats.Msg{Data: []byte(`{"type":"io.pq.v1.push_response","stream":"jobs","seq":1,"id":"i","priority":0}`)}
}

// The client repeats a request with an unknown result or without an answer only if doing
// it twice is like doing it once.
func TestRepeatedRequests(t *testing.T) {
	t.Parallel()
	for _, r := range requests {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			var asked, clock atomic.Int32
			var silent atomic.Bool
			arrived := make(chan struct{}, 100)
			c := fake(t, func(m *nats.Msg, _ int) *nats.Msg {
				if m.Subject == "pq.clock.info" {
					if clock.Add(1) < 12 {
						return nil
					}
					return emptyAnswer()
				}
				select {
				case arrived <- struct{}{}:
				default:
				}
				n := asked.Add(1)
				switch {
				case silent.Load() && n < 3:
					return nil
				case !silent.Load() && n == 1:
					return failure("504", "")
				}
				return r.answer()
			})
			q := c.Queue("jobs")
			err := r.do(t.Context(), c, q)
			switch {
			case !r.repeatable:
				fails(t, err, client.ErrUnknownResult, 504, "")
			case err != nil:
				t.Errorf("when the result was unknown once: %v", err)
			}

			c.AskAgainAfter(time.Microsecond)
			<-arrived
			asked.Store(0)
			silent.Store(true)
			if r.repeatable {
				if err := r.do(t.Context(), c, q); err != nil {
					t.Errorf("when it was not answered twice: %v", err)
				}
				return
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- r.do(ctx, c, q) }()
			<-arrived
			// Meanwhile repeatable requests are repeated a dozen times.
			if _, err := c.Queue("clock").Info(t.Context()); err != nil {
				t.Error(err)
			}
			cancel()
			fails(t, <-ended, client.ErrUnknownResult, 504, "")
			if n := asked.Load(); n != 1 {
				t.Errorf("sent %d times, expected once", n)
			}
		})
	}
}

// An unanswered waiting pop without an id is not repeated: the second one could pop
// another item.
func TestWaitingPopIsSentOnce(t *testing.T) {
	t.Parallel()
	c := forgetful(t, func(_ *nats.Msg, n int) *nats.Msg {
		if n == 1 {
			return nil
		}
		return itemAnswer()
	})
	_, err := c.Queue("jobs").Pop(t.Context(), client.Min, client.Wait(time.Millisecond))
	fails(t, err, client.ErrUnknownResult, 504, "")
}

// A refusal says that nothing was done, so an item that is gone after it was gone before, or
// is somebody else's work. But it does not say that of an attempt without an answer.
func TestAckAfterRefusal(t *testing.T) {
	t.Parallel()
	refused, unknown, gone := failure("503", ""), failure("504", ""), failure("410", "gone")
	for name, c := range map[string]struct {
		answers []*nats.Msg
		lost    bool
	}{
		"refused":                 {[]*nats.Msg{refused, gone}, true},
		"unknown":                 {[]*nats.Msg{unknown, gone}, false},
		"no answer, then refused": {[]*nats.Msg{nil, refused, gone}, false},
	} {
		serve := fake
		if slices.Contains(c.answers, nil) {
			serve = forgetful
		}
		fake := serve(t, func(_ *nats.Msg, n int) *nats.Msg { return c.answers[min(n, len(c.answers))-1] })
		item, err := fake.Attach("pq.jobs.ack.c.t")
		if err != nil {
			t.Fatal(err)
		}
		if err := item.Ack(t.Context()); errors.Is(err, client.ErrLeaseLost) != c.lost || err != nil && !c.lost {
			t.Errorf("%s, and then the item is gone: %v", name, err)
		}
	}
}

// A repeated acknowledgement that finds the item with another consumer did not take
// effect.
func TestLostAckOfAnItemPoppedAgain(t *testing.T) {
	t.Parallel()
	c := forgetful(t, func(_ *nats.Msg, n int) *nats.Msg {
		if n == 1 {
			return nil
		}
		return failure("410", "taken")
	})
	item, err := c.Attach("pq.jobs.ack.c.t")
	if err != nil {
		t.Fatal(err)
	}
	fails(t, item.Ack(t.Context()), client.ErrLeaseLost, 410, client.ReasonTaken)
}
