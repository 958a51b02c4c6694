package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/testenv"
)

// waiting is a stand-in for a bridge that answers nothing to pops that wait, and tells of them.
type waiting struct {
	*testenv.Server
	nc    *nats.Conn
	waits chan *nats.Msg // pops that wait
	acks  chan *nats.Msg // settlements
}

func awaitWaits(t *testing.T) *waiting {
	t.Helper()
	s := testenv.NATS(t)
	w := &waiting{Server: s, nc: s.Connect(t), waits: make(chan *nats.Msg, 10), acks: make(chan *nats.Msg, 10)}
	for subject, to := range map[string]chan *nats.Msg{"pq.*.pop.*": w.waits, "pq.*.peek.*": w.waits, "pq.*.ack.*.*": w.acks} {
		if _, err := w.nc.Subscribe(subject, func(m *nats.Msg) {
			var request struct{ Expires time.Duration }
			if len(m.Data) > 0 && m.Data[0] == '{' {
				if err := json.Unmarshal(m.Data, &request); err != nil {
					t.Error(err)
				}
			}
			if to == w.waits && request.Expires == 0 {
				_ = m.RespondMsg(failure("404", "empty"))
				return
			}
			to <- m
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return w
}

// arrives returns what comes next.
func arrives[T any](t *testing.T, what string, from <-chan T) (m T) {
	t.Helper()
	select {
	case m = <-from:
		return m
	case <-testenv.Late():
		t.Fatalf("%s did not come", what)
		return m
	}
}

// gone waits until nobody listens on a reply subject.
func (w *waiting) gone(t *testing.T, reply string) {
	t.Helper()
	testenv.Await(t, "nobody listens on "+reply, func() bool {
		_, err := w.nc.Request(reply, nil, time.Millisecond)
		return errors.Is(err, nats.ErrNoResponders)
	})
}

// Those of a Consume share what is not their last token.
var waitSubject = regexp.MustCompile(`^_INBOX\.[^.]+\.(w\.[^.]{26}|w[^.]{26}\.[0-9]+)$`)

// deadline is a context whose time is over when its channel closes. A real one might be over before the request is sent.
type deadline struct{ over <-chan struct{} }

func (d deadline) Deadline() (time.Time, bool) { return time.Now().Add(time.Hour), true }
func (d deadline) Done() <-chan struct{}       { return d.over }
func (d deadline) Value(any) any               { return nil }
func (d deadline) Err() error {
	select {
	case <-d.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// The reply subject of a wait lasts as long as the wait, however that ends.
func TestWaitsHaveSubjectsOfTheirOwn(t *testing.T) {
	t.Parallel()
	leased := []client.PopOption{client.Lease(time.Hour), client.Wait(time.Hour)}
	for _, tc := range []struct {
		name string
		pop  func(context.Context, *client.Queue) error
		end  func(w *waiting, request *nats.Msg, cancel func(), c *client.Client)
		err  error
	}{
		{"an item", popWith(leased...), func(_ *waiting, request *nats.Msg, _ func(), _ *client.Client) {
			_ = request.RespondMsg(leasedItem("i", "1", "mine"))
		}, nil},
		{"an error", popWith(leased...), func(_ *waiting, request *nats.Msg, _ func(), _ *client.Client) {
			_ = request.RespondMsg(failure("506", ""))
		}, client.ErrDamaged},
		{"cancel", popWith(leased...), func(_ *waiting, _ *nats.Msg, cancel func(), _ *client.Client) { cancel() }, context.Canceled},
		{"cancel of a pop with an id", popWith(client.PopID("i"), client.Wait(time.Hour)), func(_ *waiting, _ *nats.Msg, cancel func(), _ *client.Client) { cancel() }, context.Canceled},
		{"timeout", func(ctx context.Context, q *client.Queue) error {
			return popWith(leased...)(deadline{ctx.Done()}, q)
		}, func(_ *waiting, _ *nats.Msg, cancel func(), _ *client.Client) { cancel() }, context.DeadlineExceeded},
		{"peek", func(ctx context.Context, q *client.Queue) error {
			_, err := q.Peek(ctx, client.Min, client.Wait(time.Hour))
			return err
		}, func(_ *waiting, _ *nats.Msg, cancel func(), _ *client.Client) { cancel() }, context.Canceled},
		{"a batch", func(ctx context.Context, q *client.Queue) error {
			_, err := q.PopBatch(ctx, client.Min, 3, leased...)
			return err
		}, func(_ *waiting, _ *nats.Msg, cancel func(), _ *client.Client) { cancel() }, context.Canceled},
		{"consume", func(ctx context.Context, q *client.Queue) error {
			return q.Consume(ctx, nil, client.ConsumeOptions{})
		}, func(_ *waiting, _ *nats.Msg, cancel func(), _ *client.Client) { cancel() }, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := awaitWaits(t)
			c := newClient(t, w.Connect(t))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- tc.pop(ctx, c.Queue("jobs")) }()
			request := arrives(t, "the wait", w.waits)
			if !waitSubject.MatchString(request.Reply) {
				t.Errorf("the reply subject is %s", request.Reply)
			}
			tc.end(w, request, cancel, c)
			if err := <-ended; !errors.Is(err, tc.err) {
				t.Errorf("%v, expected %v", err, tc.err)
			}
			w.gone(t, request.Reply)
			testenv.Await(t, "the mailbox alone is subscribed", func() bool { return c.Conn().NumSubscriptions() == 1 })
		})
	}
}

// On a new connection a wait has another subject, and nobody listens on the one before, which the library
// has restored.
func TestWaitAfterReconnect(t *testing.T) {
	t.Parallel()
	w := awaitWaits(t)
	c := newClient(t, w.Connect(t))
	ended := make(chan error, 1)
	go func() {
		ended <- popWith(client.Lease(time.Hour), client.Wait(time.Hour))(t.Context(), c.Queue("jobs"))
	}()
	before := arrives(t, "the wait", w.waits)
	if err := c.Conn().ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	after := arrives(t, "the wait again", w.waits)
	if after.Reply == before.Reply {
		t.Errorf("both waits have the reply subject %s", after.Reply)
	}
	w.gone(t, before.Reply)
	if err := after.RespondMsg(leasedItem("i", "1", "mine")); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// An item that is on its way when its wait is cancelled is given back.
func TestWaitCancelledAsItsItemArrives(t *testing.T) {
	t.Parallel()
	w := awaitWaits(t)
	network := testenv.NewProxy(t, w.URL())
	nc, err := nats.Connect(network.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- popWith(client.Lease(time.Hour), client.Wait(time.Hour))(ctx, newClient(t, nc).Queue("jobs"))
	}()
	request := arrives(t, "the wait", w.waits)
	arrive := network.HoldAnswers()
	if err := request.RespondMsg(leasedItem("i", "1", "mine")); err != nil {
		t.Fatal(err)
	}
	if err := w.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v, expected that it was cancelled", err)
	}
	arrive()
	if m := arrives(t, "the settlement", w.acks); m.Subject != "pq.jobs.ack.c.mine" || string(m.Data) != "+BACK" {
		t.Errorf("%s: %q, expected that the item was given back", m.Subject, m.Data)
	}
}

// Where the server lets the user receive in its mailbox and no deeper, waits have no subjects of their own.
func TestWaitWithoutDeeperSubjects(t *testing.T) {
	t.Parallel()
	g := guard(t, mayReceive("_INBOX.*.*"))
	q := g.worker(t).Queue("jobs")
	if _, err := g.jobs.Push(t.Context(), []byte("a")); err != nil {
		t.Fatal(err)
	}
	item, err := q.Pop(t.Context(), client.Min, client.Lease(time.Hour), client.Wait(time.Hour))
	if err != nil || string(item.Payload) != "a" {
		t.Fatalf("%+v, %v", item, err)
	}
}

// The shortest wait ends, too.
func TestShortestWait(t *testing.T) {
	t.Parallel()
	w := awaitWaits(t)
	c := newClient(t, w.Connect(t))
	ended := make(chan error, 1)
	go func() {
		_, err := c.Queue("jobs").Pop(context.Background(), client.Min, client.Lease(time.Minute), client.Wait(time.Millisecond))
		ended <- err
	}()
	late := testenv.Late()
	for {
		select {
		case m := <-w.waits:
			if err := m.RespondMsg(failure("408", "empty")); err != nil {
				t.Fatal(err)
			}
		case err := <-ended:
			fails(t, err, client.ErrEmpty, 408, "empty")
			return
		case <-late:
			t.Fatal("the pop goes on")
		}
	}
}
