package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// A caller asks what became of its items, and hears why there is no answer.
func TestResult(t *testing.T) {
	t.Parallel()
	w := start(t)
	ctx := t.Context()
	one := w.push(t, "work", client.ResultTTL(time.Hour))
	_, err := w.queue.Result(ctx, one.ID)
	goesOn(t, err, one.ID, 404, client.ReasonPending)
	for _, nothing := range []time.Duration{0, -1} {
		_, err = w.queue.AwaitResult(ctx, one.ID, nothing)
		goesOn(t, err, one.ID, 404, client.ReasonPending)
	}
	item := w.pop(t, client.Min, client.Lease(time.Minute))
	if err := item.AckWith(ctx, []byte("painted\x00\n")); err != nil {
		t.Fatal(err)
	}
	r, err := w.queue.Result(ctx, one.ID)
	if err != nil {
		t.Fatal(err)
	}
	if r.Outcome != protocol.FinishDone || string(r.Body) != "painted\x00\n" || r.Deliveries != 1 || time.Since(r.FinishedAt) > time.Minute || r.Dropped {
		t.Errorf("the result is %+v", r)
	}

	two := w.push(t, "bad", client.ResultTTL(time.Hour))
	item = w.pop(t, client.Min, client.Lease(time.Minute))
	if err := item.Terminate(ctx, "no paint"); err != nil {
		t.Fatal(err)
	}
	if r, err = w.queue.Result(ctx, two.ID); err != nil || r.Outcome != protocol.FinishDead || r.Reason != "no paint" || r.DeadLetter != w.queue.Name()+"-dead" || r.NextID == "" {
		t.Errorf("the result of a dead item is %+v, %v", r, err)
	}

	silent := w.push(t, "silent")
	_, err = w.queue.Result(ctx, silent.ID)
	fails(t, err, err, 409, client.ReasonUnkept)
	if err := w.queue.Remove(ctx, silent.ID); err != nil {
		t.Fatal(err)
	}
	_, err = w.queue.Result(ctx, silent.ID)
	fails(t, err, client.ErrNotFound, 404, client.ReasonUnknown)
	if _, err := w.queue.Result(ctx, "no id"); errors.Is(err, client.ErrNotFound) || err == nil {
		t.Errorf("what is no id: %v", err)
	}
}

// Who pushes and waits hears what became of the item, whatever that is.
func TestPushAndWait(t *testing.T) {
	t.Parallel()
	w := start(t)
	ctx := t.Context()
	ends := map[string]func(*client.Item) error{
		"works": func(i *client.Item) error { return i.AckWith(ctx, []byte("painted")) },
		"plain": func(i *client.Item) error { return i.Ack(ctx) },
		"fails": func(i *client.Item) error { return client.GiveUp(errors.New("no paint")) },
	}
	go func() {
		work := func(_ context.Context, i *client.Item) error { return ends[string(i.Payload)](i) }
		_ = w.queue.Consume(ctx, work, client.ConsumeOptions{OnError: func(*client.Item, error) {}})
	}()
	for payload, want := range map[string]client.Result{
		"works": {Outcome: protocol.FinishDone, Body: []byte("painted")},
		"plain": {Outcome: protocol.FinishDone},
		"fails": {Outcome: protocol.FinishDead, Reason: "no paint"},
	} {
		r, err := w.queue.PushAndWait(ctx, []byte(payload))
		if err != nil {
			t.Fatal(err)
		}
		if r.Outcome != want.Outcome || !bytes.Equal(r.Body, want.Body) || r.Reason != want.Reason {
			t.Errorf("%s: %+v, expected %+v", payload, r, want)
		}
	}
	delayed := w.push(t, "plain", client.Delay(time.Hour), client.ResultTTL(time.Hour))
	_, err := w.queue.AwaitResult(ctx, delayed.ID, time.Millisecond)
	goesOn(t, err, delayed.ID, 408, "")
	if errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a wait that has ended before its context: %v", err)
	}
	_, err = w.queue.PushAndWait(ctx, nil, client.ResultTTL(time.Second*-1))
	fails(t, err, err, 400, "")
	_, err = w.queue.AwaitResult(ctx, w.push(t, "plain", client.Delay(time.Hour)).ID, time.Minute)
	fails(t, err, err, 409, client.ReasonUnkept)
}

// goesOn checks that an error says which item goes on, and not that something is missing.
func goesOn(t *testing.T, err error, id string, code int, reason client.Reason) {
	t.Helper()
	var e *client.Error
	fails(t, err, client.ErrNoResultYet, code, reason)
	if !errors.As(err, &e) || e.ID != id || e.Queue != "jobs" || !strings.Contains(err.Error(), "item "+id+" goes on: ask again with Result") {
		t.Errorf("of item %s: %v", id, err)
	}
	if errors.Is(err, client.ErrEmpty) || errors.Is(err, client.ErrNotFound) {
		t.Errorf("an item that has not ended is found: %v", err)
	}
}

// However a wait ends early, its error has the item that was pushed, and its cause.
func TestEarlyEndsOfWaits(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		see   func(d *desk, c *client.Client, m *nats.Msg)
		code  int
		cause error
	}{
		"its caller ends it":  {func(*desk, *client.Client, *nats.Msg) {}, 504, context.Canceled},
		"its connection ends": {func(_ *desk, c *client.Client, _ *nats.Msg) { c.Conn().Close() }, 504, nats.ErrConnectionClosed},
		"its store is away": {func(d *desk, _ *client.Client, m *nats.Msg) {
			d.answer(t, m, failure("503", ""))
			d.next(t)
		}, 503, nil},
		"its bridge is full": {func(d *desk, _ *client.Client, m *nats.Msg) {
			d.answer(t, m, failure("409", ""))
			d.next(t)
		}, 409, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := openDesk(t)
			c := d.client(t)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := c.Queue("jobs").PushAndWait(ctx, []byte("a"))
				ended <- err
			}()
			m := d.next(t)
			d.answer(t, m, adds(t, m, nil))
			tc.see(d, c, d.next(t))
			if tc.cause != nats.ErrConnectionClosed {
				cancel()
			}
			err := <-ended
			cancel()
			goesOn(t, err, "a", tc.code, "")
			if tc.cause != nil && !errors.Is(err, tc.cause) {
				t.Errorf("%v: expected %v in it", err, tc.cause)
			}
		})
	}
}

// The end of the context is the cause of a wait that ends with it, whether a bridge or the client notices first.
func TestWaitUntilItsDeadline(t *testing.T) {
	t.Parallel()
	w := start(t)
	delayed := w.push(t, "work", client.Delay(time.Hour), client.ResultTTL(time.Hour))
	for _, left := range []time.Duration{0, 50 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), left)
		_, err := w.queue.AwaitResult(ctx, delayed.ID, time.Hour)
		cancel()
		var e *client.Error
		if !errors.Is(err, client.ErrNoResultYet) || !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &e) || e.ID != delayed.ID {
			t.Errorf("after %s: %v", left, err)
		}
	}
}

// finished is the answer to a request for a result.
func finished() *nats.Msg {
	return &nats.Msg{Data: []byte("painted"), Header: nats.Header{
		protocol.HeaderOutcome: {"done"}, protocol.HeaderFinishedAt: {"2030-01-02T03:04:05Z"}, protocol.HeaderDeliveries: {"2"},
	}}
}

// awaits begins to wait for a result, at a stand-in for a bridge.
func awaits(ctx context.Context, c *client.Client) <-chan error {
	ended := make(chan error, 1)
	go func() {
		r, err := c.Queue("jobs").AwaitResult(ctx, "a", time.Hour)
		if err == nil && string(r.Body) != "painted" {
			err = fmt.Errorf("the result is %+v", r)
		}
		ended <- err
	}()
	return ended
}

// A wait is made of requests that wait. Each has a subject of its own, by which the bridge sees that somebody waits still.
func TestAwaitResult(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	c := d.client(t)
	gone := (&waiting{Server: d.Server, nc: d.nc}).gone

	ended := awaits(t.Context(), c)
	first := d.next(t)
	if first.Subject != "pq.jobs.result.a" || first.Header.Get("PQ-Wait") != "10s" || !waitSubject.MatchString(first.Reply) {
		t.Errorf("on %s: %v, with the reply subject %s", first.Subject, first.Header, first.Reply)
	}
	d.answer(t, first, failure("408", "the time is up"))
	second := d.next(t)
	gone(t, first.Reply)
	d.answer(t, second, failure("503", "no store"))
	d.answer(t, d.next(t), finished())
	if err := <-ended; err != nil {
		t.Error(err)
	}
	gone(t, second.Reply)

	ctx, cancel := context.WithCancel(t.Context())
	ended = awaits(ctx, c)
	m := d.next(t)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("a wait that its caller ends: %v", err)
	}
	gone(t, m.Reply)

	ctx, cancel = context.WithTimeout(t.Context(), 9*time.Second)
	ended = awaits(ctx, c)
	m = d.next(t)
	wait, err := time.ParseDuration(m.Header.Get("PQ-Wait"))
	if err != nil || wait > 8900*time.Millisecond || wait < time.Millisecond {
		t.Errorf("the request waits for %s, %v: expected less than its caller does", wait, err)
	}
	cancel()
	<-ended

	c.AskAgainAfter(time.Nanosecond)
	again := make(chan error, 1)
	go func() {
		_, err := c.Queue("jobs").AwaitResult(t.Context(), "a", 20*time.Millisecond)
		again <- err
	}()
	m = d.next(t) // to which no answer comes
	for {
		select {
		case later := <-d.requests:
			if later.Reply == m.Reply {
				t.Errorf("two requests wait on %s", m.Reply)
			}
			d.answer(t, later, finished())
		case err := <-again:
			if err != nil {
				t.Error(err)
			}
			return
		case <-testenv.Late():
			t.Fatal("the wait goes on")
		}
	}
}

// Settlements go in frames if one of them has a result, and otherwise in lines. A large result goes alone.
func TestResultsGoTogether(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	c := d.client(t)
	with := func(i *client.Item) error { return i.AckWith(context.Background(), []byte("two\nlines\x00")) }
	giveUp := func(i *client.Item) error { return i.Terminate(context.Background(), "no\npaint") }
	m, ended := settlesTogether(t, d, c, ack, with, giveUp, with)
	var sent []string
	for _, f := range frames(t, m) {
		sent = append(sent, fmt.Sprint(f.header, f.payload))
	}
	want := []string{
		"map[PQ-Ack:[pq.jobs.ack.c.a]]+ACK", "map[PQ-Ack:[pq.jobs.ack.c.b]]+ACK two\nlines\x00", "map[PQ-Ack:[pq.jobs.ack.c.c]]+TERM no\npaint",
		"map[PQ-Ack:[pq.jobs.ack.c.d]]+ACK two\nlines\x00",
	}
	if m.Subject != "pq.jobs.ack.bundle.settle" || m.Header.Get("PQ-Bundle") != "4" || m.Header.Get("PQ-Frames") != "true" || !slices.Equal(sent, want) {
		t.Fatalf("on %s: %v %q", m.Subject, m.Header, m.Data)
	}
	large := bytes.Repeat([]byte("b"), 16<<10)
	ended = append(ended, settles(t, c, "y", ack))
	await(t, func() bool { return c.Queue("jobs").Waiting() == 1 })
	ended = append(ended, settles(t, c, "z", func(i *client.Item) error { return i.AckWith(context.Background(), large) }))
	await(t, func() bool { return c.Queue("jobs").Waiting() == 2 || len(d.requests) > 0 })
	d.answer(t, m, &nats.Msg{Data: []byte("+OK\n+OK kept\n-ERR 410 taken lost\n-ERR 413 - a result has 17 bytes\n")})
	for _, want := range []string{"+ACK", "+ACK " + string(large)} {
		alone := d.next(t)
		if string(alone.Data) != want || len(alone.Header) > 0 {
			t.Fatalf("%d bytes were sent with %v, expected %d bytes alone", len(alone.Data), alone.Header, len(want))
		}
		d.answer(t, alone, emptyAnswer())
	}
	for i, want := range []error{nil, nil, client.ErrLeaseLost, client.ErrTooLarge, nil, nil} {
		if err := <-ended[i]; !errors.Is(err, want) {
			t.Errorf("settlement %d: %v, expected %v", i, err, want)
		}
	}
}

// Results that go together arrive as they were, each at its item.
func TestManyResults(t *testing.T) {
	t.Parallel()
	w := start(t)
	items := make(map[string]*client.Item)
	for range 100 {
		w.push(t, "work", client.ResultTTL(time.Hour))
		item := w.pop(t, client.Min, client.Lease(time.Minute))
		items[item.ID] = item
	}
	ended := make(chan error, len(items))
	for id, item := range items {
		go func() { ended <- item.AckWith(t.Context(), []byte(id+"\x00\n"+id)) }()
	}
	for range items {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	for id := range items {
		if r, err := w.queue.Result(t.Context(), id); err != nil || string(r.Body) != id+"\x00\n"+id {
			t.Errorf("the result of item %s is %+v, %v", id, r, err)
		}
	}
}

// A refused result fails by name, and nothing else is sent: its caller decides whether to acknowledge without it.
func TestRefusedResult(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	c := d.client(t)
	for _, code := range []int{400, 413} {
		ended := settles(t, c, "a", func(i *client.Item) error { return i.AckWith(context.Background(), []byte("painted")) })
		d.answer(t, d.next(t), failure(fmt.Sprint(code), ""))
		err := <-ended
		fails(t, err, err, code, "")
		if errors.Is(err, client.ErrTooLarge) != (code == 413) {
			t.Errorf("%d: %v", code, err)
		}
		d.quiet(t, c)
	}
}
