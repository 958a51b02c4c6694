package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

func (w *world) cancel(t *testing.T, id string, o client.CancelOptions) *client.Cancelled {
	t.Helper()
	done, err := w.queue.Cancel(t.Context(), id, o)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func TestCancel(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.push(t, "a", client.Priority(3), client.ResultTTL(time.Minute)).ID
	if done := w.cancel(t, id, client.CancelOptions{Reason: "not wanted"}); *done != (client.Cancelled{Outcome: "cancelled", Priority: 3}) {
		t.Errorf("cancelled: %+v", done)
	}
	r, err := w.queue.Result(t.Context(), id)
	if err != nil || r.Outcome != protocol.FinishCancelled || r.Reason != "not wanted" || r.Cause != "" {
		t.Errorf("the result is %+v, %v", r, err)
	}
	if again := w.cancel(t, id, client.CancelOptions{Reason: "still not"}); again.Outcome != "cancelled" || again.FinishedAt.IsZero() {
		t.Errorf("once more: %+v", again)
	}
	w.push(t, "b", client.ResultTTL(time.Minute))
	item := w.pop(t, client.Min, client.Lease(time.Hour))
	_, err = w.queue.Cancel(t.Context(), item.ID, client.CancelOptions{SpareLeased: true})
	fails(t, err, client.ErrLeased, 409, client.ReasonLeased)
	if err := item.AckWith(t.Context(), []byte("12")); err != nil {
		t.Error(err)
	}
	if late := w.cancel(t, item.ID, client.CancelOptions{}); late.Outcome != protocol.FinishDone || late.FinishedAt.IsZero() || late.Deliveries != 1 {
		t.Errorf("of a done item: %+v", late)
	}
	w.push(t, "c", client.ResultTTL(time.Minute))
	item = w.pop(t, client.Min, client.Lease(time.Hour))
	w.cancel(t, item.ID, client.CancelOptions{Reason: strings.Repeat("é", 1000)})
	for _, err := range []error{item.Extend(t.Context()), item.Report(t.Context(), "1/2"), item.Ack(t.Context())} {
		if fails(t, err, client.ErrCancelled, 410, client.ReasonCancelled); !errors.Is(err, client.ErrLeaseLost) {
			t.Errorf("%v is no lost lease", err)
		}
	}
	_, err = w.queue.Cancel(t.Context(), w.push(t, "d").ID, client.CancelOptions{})
	if err != nil {
		t.Error(err)
	}
	_, err = w.queue.Cancel(t.Context(), "FBUBAX_Af0DSUlItAA", client.CancelOptions{})
	fails(t, err, client.ErrNotFound, 404, client.ReasonUnknown)
	_, err = w.client.Queue("none").Cancel(t.Context(), id, client.CancelOptions{})
	fails(t, err, client.ErrNotFound, 404, client.ReasonUnknown)
}

// worker is a Consume with leases that are extended in hours only, so what it hears at once it hears from bells.
type worker struct {
	begun  chan *client.Item
	ended  chan error // causes of the contexts of its handlers
	failed chan error // what OnError has got
}

// listens starts a worker. Its handlers wait for the end of their contexts.
func listens(t *testing.T, q *client.Queue, returns func(context.Context) error) *worker {
	t.Helper()
	k := &worker{make(chan *client.Item, 10), make(chan error, 10), make(chan error, 10)}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		over <- q.Consume(ctx, func(ctx context.Context, item *client.Item) error {
			k.begun <- item
			<-ctx.Done()
			k.ended <- context.Cause(ctx)
			return returns(ctx)
		}, client.ConsumeOptions{Workers: 3, Lease: 12 * time.Hour, Holder: "vm-7 \u2764", Grace: time.Nanosecond, OnError: func(item *client.Item, err error) {
			if item != nil { // otherwise the queue does not exist yet
				k.failed <- err
			}
		}})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-over; err != nil {
			t.Errorf("consume ended with %v", err)
		}
	})
	return k
}

// Whoever ends the lease of a handler ends its context, whose cause says what has happened. OnError hears that in place of the error that
// the handler returns since its context has ended.
func TestHandlerHearsOfTheEndOfItsLease(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(w *world, id string) error
		text string
		is   error
	}{
		"cancel": {func(w *world, id string) error {
			_, err := w.queue.Cancel(context.Background(), id, client.CancelOptions{Reason: "not wanted: 1"})
			return err
		}, "cancelled: not wanted: 1", client.ErrCancelled},
		"cancel without a reason": {func(w *world, id string) error {
			_, err := w.queue.Cancel(context.Background(), id, client.CancelOptions{})
			return err
		}, "cancelled", client.ErrCancelled},
		"remove": {func(w *world, id string) error { return w.queue.Remove(context.Background(), id) }, "lease lost: removed", client.ErrLeaseLost},
		"revoke": {func(w *world, id string) error {
			return w.queue.Revoke(context.Background(), id, client.RevokeOptions{Reason: "it hangs", Delay: new(time.Hour)})
		}, "lease lost: revoked: it hangs", client.ErrLeaseLost},
		"bulk": {func(w *world, id string) error {
			_, err := w.queue.Bulk(context.Background(), client.Bulk{Verb: client.BulkRemove, Where: client.BulkWhere{State: protocol.StateLeased}})
			return err
		}, "lease lost: removed", client.ErrLeaseLost},
		"purge":  {func(w *world, id string) error { _, err := w.queue.Purge(context.Background()); return err }, "(410)", client.ErrLeaseLost},
		"delete": {func(w *world, id string) error { return w.queue.Delete(context.Background()) }, "(410)", client.ErrLeaseLost},
	} {
		for how, returns := range map[string]func(context.Context) error{
			"":                     context.Context.Err,
			" in a query":          func(ctx context.Context) error { return fmt.Errorf("query: %w", ctx.Err()) },
			" with the cause":      context.Cause,
			" with something else": func(context.Context) error { return errors.New("no ink") },
		} {
			t.Run(name+how, func(t *testing.T) {
				t.Parallel()
				w := start(t)
				k := listens(t, w.queue, returns)
				w.push(t, "x", client.ResultTTL(time.Hour))
				item := <-k.begun
				if err := c.end(w, item.ID); err != nil {
					t.Fatal(err)
				}
				cause := <-k.ended
				if !errors.Is(cause, client.ErrLeaseLost) || !errors.Is(cause, c.is) || errors.Is(cause, client.ErrCancelled) != (c.is == client.ErrCancelled) ||
					!strings.HasSuffix(cause.Error(), c.text) {
					t.Errorf("the context ended with %v, expected %s", cause, c.text)
				}
				want := cause.Error()
				switch how {
				case " in a query":
					want += ": query: context canceled"
				case " with something else":
					want = "no ink"
				}
				if failed := <-k.failed; failed.Error() != want {
					t.Errorf("OnError got %q, expected %q", failed, want)
				}
			})
		}
	}
}

// settlements hears what is said of leases from now on, and returns a function that returns it.
func (w *world) settlements(t *testing.T) func() []string {
	t.Helper()
	sub, err := w.NATS.Connect(t).SubscribeSync("pq.jobs.ack.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		t.Fatal(err)
	}
	return func() (said []string) {
		for n, _, err := sub.Pending(); n > 0 && err == nil; n-- {
			m, err := sub.NextMsg(testenv.Patience())
			if err != nil {
				t.Fatal(err)
			}
			said = append(said, string(m.Data))
		}
		return said
	}
}

// What a handler returns after its item was cancelled is not acknowledged: OnError hears why.
func TestNothingIsAcknowledgedAfterACancellation(t *testing.T) {
	t.Parallel()
	w := start(t)
	k := listens(t, w.queue, func(context.Context) error { return nil })
	acks := w.settlements(t)
	w.push(t, "x")
	w.cancel(t, (<-k.begun).ID, client.CancelOptions{Reason: "too late"})
	if failed := <-k.failed; failed.Error() != "cancelled: too late" || !errors.Is(failed, client.ErrCancelled) {
		t.Errorf("OnError got %v", failed)
	}
	for _, said := range acks() {
		if said != protocol.SettleProgress {
			t.Errorf("the client sent %q", said)
		}
	}
}

// ring forges a bell.
func (w *world) ring(t *testing.T, item *client.Item, fence int64) {
	t.Helper()
	body, err := json.Marshal(protocol.LostEvent{Type: "io.pq.v1.event.lost", Queue: "jobs", ID: item.ID, Fence: fence, Cause: "cancelled", Reason: "forged"})
	if err == nil {
		err = w.nc.Publish("pq.jobs.event."+protocol.BellOf("vm-7 \u2764"), body)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A bell is no proof. A forged one has the client ask, once a second at most; one that is about another lease, or cannot be read, does
// nothing. The lease is lost when the bridge says so.
func TestForgedBells(t *testing.T) {
	t.Parallel()
	w := start(t)
	k := listens(t, w.queue, context.Cause)
	acks := w.settlements(t)
	w.push(t, "x")
	item := <-k.begun
	begun := time.Now()
	for range 100 {
		w.ring(t, item, 2)
		w.ring(t, &client.Item{ID: "FBUBAX_Af0DSUlItAA"}, 1)
		if err := w.nc.Publish("pq.jobs.event."+protocol.BellOf("vm-7 \u2764"), []byte("{")); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		w.ring(t, item, 1)
	}
	if err := w.nc.Publish("pq.jobs.event.purged", nil); err != nil {
		t.Fatal(err)
	}
	first := item.LeaseExpires()
	testenv.Await(t, "a bell extends the lease", func() bool { return item.LeaseExpires() != first })
	w.cancel(t, item.ID, client.CancelOptions{Reason: "in earnest"})
	if cause := <-k.ended; cause.Error() != "cancelled: in earnest" {
		t.Errorf("the context ended with %v", cause)
	}
	most := 2 + int(time.Since(begun)/time.Second)
	if n := len(acks()); n < 2 || n > most {
		t.Errorf("the client has asked %d times, expected 2 to %d", n, most)
	}
}

// A forged bell tells nothing of a lease that somebody ends later.
func TestForgedBellIsForgotten(t *testing.T) {
	t.Parallel()
	w := start(t)
	k := listens(t, w.queue, context.Cause)
	w.push(t, "x")
	item := <-k.begun
	first := item.LeaseExpires()
	w.ring(t, item, 1)
	testenv.Await(t, "the bell extends the lease", func() bool { return item.LeaseExpires() != first })
	if _, err := w.queue.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if cause := <-k.ended; errors.Is(cause, client.ErrCancelled) || !errors.Is(cause, client.ErrLeaseLost) {
		t.Errorf("the context ended with %v", cause)
	}
}

// The bell of a lease may ring before the answer of the pop that has granted it.
func TestBellBeforeTheItem(t *testing.T) {
	t.Parallel()
	nc := testenv.NATS(t).Connect(t)
	pops := 0
	if _, err := nc.Subscribe("pq.>", func(m *nats.Msg) {
		var answer *nats.Msg
		switch {
		case strings.Contains(m.Subject, ".event."):
			return
		case strings.Contains(m.Subject, ".pop."):
			if pops++; pops > 1 {
				return // the next one waits
			}
			for id := range 100 { // those of others among them
				_ = nc.Publish("pq.jobs.event."+protocol.BellOf("vm-7 \u2764"), fmt.Appendf(nil, `{"id":"%d","fence":5,"cause":"cancelled","reason":"early"}`, id))
			}
			answer = &nats.Msg{Header: nats.Header{"PQ-Id": {"70"}, "PQ-Fence": {"5"}, "PQ-Ack": {"pq.jobs.ack.c.t"}}}
		default:
			answer = failure("410", "gone")
		}
		if err := m.RespondMsg(answer); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	k := listens(t, newClient(t, nc).Queue("jobs"), context.Cause)
	select {
	case cause := <-k.ended:
		if cause.Error() != "cancelled: early" {
			t.Errorf("the context ended with %v", cause)
		}
	case failed := <-k.failed: // before the handler began
		if failed.Error() != "cancelled: early" {
			t.Errorf("OnError got %v", failed)
		}
	}
}

// A user who may not hear the events of its queue works as ever: the error handler of its connection hears of other errors alone, also
// after a reconnect.
func TestConsumerWithoutTheRightToEvents(t *testing.T) {
	t.Parallel()
	g := guard(t, mayReceive("_INBOX.>"))
	denied := make(chan error, 10)
	back := make(chan struct{}, 10)
	c := g.worker(t, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err }),
		nats.ReconnectHandler(func(*nats.Conn) { back <- struct{}{} }))
	handled := make(chan string)
	over := make(chan error)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		over <- c.Queue("jobs").Consume(ctx, func(_ context.Context, item *client.Item) error { handled <- string(item.Payload); return nil }, client.ConsumeOptions{})
	}()
	for _, payload := range []string{"a", "b"} {
		if _, err := g.jobs.Push(t.Context(), []byte(payload)); err != nil {
			t.Fatal(err)
		}
		if got := <-handled; got != payload {
			t.Errorf("handled %q, expected %q", got, payload)
		}
		if err := c.Conn().ForceReconnect(); err != nil {
			t.Fatal(err)
		}
		<-back
	}
	stop()
	if err := <-over; err != nil {
		t.Errorf("consume ended with %v", err)
	}
	if _, err := c.Conn().SubscribeSync("secret"); err != nil {
		t.Fatal(err)
	}
	if err := <-denied; !strings.Contains(err.Error(), `"secret"`) {
		t.Errorf("the error handler got %v", err)
	}
}

// The server may refuse one subscription before the client has the other one, which ends with it all the same.
func TestSubscriptionBehindARefusal(t *testing.T) {
	t.Parallel()
	nc := testenv.NATS(t).Connect(t)
	sub, err := nc.SubscribeSync("events")
	if err != nil {
		t.Fatal(err)
	}
	if newClient(t, nc).StoppedBells()(sub); sub.IsValid() {
		t.Error("the subscription stays")
	}
}

// A caller that does not wait any longer cancels its item, and the handler that works on it hears that. The result of an item that ends
// just then counts.
func TestCancelOnHangUp(t *testing.T) {
	t.Parallel()
	w := start(t)
	k := listens(t, w.queue, context.Cause)
	for how, call := range map[string]func(context.Context) error{
		"PushAndWait": func(ctx context.Context) error {
			_, err := w.queue.PushAndWait(ctx, []byte("x"), client.CancelOnHangUp())
			return err
		},
		"Call": func(ctx context.Context) error {
			_, err := client.Call[string](ctx, w.queue, "x", client.CancelOnHangUp())
			return err
		},
	} {
		ctx, hangUp := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- call(ctx) }()
		item := <-k.begun
		hangUp()
		err := <-ended
		if !errors.Is(err, client.ErrCancelled) || !errors.Is(err, context.Canceled) || errors.Is(err, client.ErrNoResultYet) ||
			!strings.Contains(err.Error(), item.ID) {
			t.Errorf("%s ended with %v", how, err)
		}
		if cause := <-k.ended; cause.Error() != "cancelled: the caller has hung up: its context was cancelled" {
			t.Errorf("%s: the handler heard %v", how, cause)
		}
	}
	brief, over := context.WithTimeout(t.Context(), time.Second)
	defer over()
	_, err := w.queue.PushAndWait(brief, []byte("x"), client.CancelOnHangUp())
	if !errors.Is(err, client.ErrCancelled) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("behind its deadline it ended with %v", err)
	}
	<-k.begun
	if cause := <-k.ended; cause.Error() != "cancelled: the caller has hung up: its time is up" {
		t.Errorf("behind the deadline the handler heard %v", cause)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := w.NATS.Connect(t).Subscribe("pq.jobs.result.*", func(*nats.Msg) { cancel() }); err != nil {
		t.Fatal(err)
	}
	if _, err := w.queue.PushAndWait(ctx, []byte("x")); !errors.Is(err, client.ErrNoResultYet) {
		t.Errorf("without the option: %v", err)
	}
}

// A caller may hang up before it knows the id of its item, which is cancelled all the same.
func TestHangUpBeforeTheAnswerOfThePush(t *testing.T) {
	t.Parallel()
	ctx, hangUp := context.WithCancel(t.Context())
	c := fake(t, func(m *nats.Msg, _ int) *nats.Msg {
		switch parts := strings.Split(m.Subject, "."); {
		case parts[2] == "push":
			hangUp()
			return &nats.Msg{Data: []byte(`{"type":"io.pq.v1.push_response","stream":"jobs","seq":1,"id":"i"}`)}
		case parts[2] == "cancel" && parts[3] == "i":
			return &nats.Msg{Data: []byte(`{"id":"i","outcome":"cancelled","deliveries":0}`)}
		}
		return nil
	})
	if _, err := c.Queue("jobs").PushAndWait(ctx, nil, client.CancelOnHangUp()); !errors.Is(err, client.ErrCancelled) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := c.Queue("jobs").PushAndWait(ctx, nil, client.CancelOnHangUp()); errors.Is(err, client.ErrCancelled) || !errors.Is(err, context.Canceled) {
		t.Errorf("hung up before: %v", err)
	}
	nc := testenv.NATS(t).Connect(t)
	unanswered, leave := context.WithTimeout(t.Context(), time.Hour)
	defer leave()
	if _, err := nc.Subscribe("pq.jobs.push", func(*nats.Msg) { leave() }); err != nil {
		t.Fatal(err)
	}
	impatient := newClient(t, nc, client.Timeout(time.Millisecond))
	_, err := impatient.Queue("jobs").PushAndWait(unanswered, nil, client.CancelOnHangUp())
	if !errors.Is(err, context.Canceled) || !errors.Is(err, client.ErrUnknownResult) {
		t.Errorf("without an answer: %v", err)
	}
}

func TestResultBesideHangUp(t *testing.T) {
	t.Parallel()
	ctx, hangUp := context.WithCancel(t.Context())
	c := fake(t, func(m *nats.Msg, _ int) *nats.Msg {
		switch verb := strings.Split(m.Subject, ".")[2]; {
		case verb == "push":
			return &nats.Msg{Data: []byte(`{"type":"io.pq.v1.push_response","stream":"jobs","seq":1,"id":"i"}`)}
		case verb == "cancel":
			return &nats.Msg{Data: []byte(`{"id":"i","outcome":"done","finished_at":"2026-01-01T00:00:00Z","deliveries":1}`)}
		case verb == "result" && m.Header.Get("PQ-Wait") != "":
			hangUp()
			return nil
		case verb == "result":
			return &nats.Msg{Header: nats.Header{"PQ-Outcome": {"done"}, "PQ-Finished-At": {"2026-01-01T00:00:00Z"}, "PQ-Deliveries": {"1"}}, Data: []byte("12")}
		}
		return nil
	})
	r, err := c.Queue("jobs").PushAndWait(ctx, nil, client.CancelOnHangUp())
	if err != nil || string(r.Body) != "12" {
		t.Errorf("%+v, %v", r, err)
	}
}
