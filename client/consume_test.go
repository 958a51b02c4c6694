package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/testenv"
)

// consume starts consuming. The returned function stops it and returns its error.
func (w *world) consume(t *testing.T, handle client.Handler, o client.ConsumeOptions) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.queue.Consume(ctx, handle, o) }()
	stop = func() error {
		cancel()
		return <-ended
	}
	return stop
}

// await waits until a condition holds for the queue.
func (w *world) await(t *testing.T, queue string, is func(*client.Info) bool) {
	t.Helper()
	for {
		info, err := w.client.Queue(queue).Info(t.Context())
		if err == nil && is(info) {
			return
		}
		if err != nil && !errors.Is(err, client.ErrNotFound) {
			t.Fatal(err)
		}
	}
}

func isEmpty(i *client.Info) bool { return i.Ready+i.Leased+i.Delayed == 0 }

func TestConsume(t *testing.T) {
	t.Parallel()
	const n = 200
	w := start(t)
	var handled [n]atomic.Int32
	var atOnce, most atomic.Int32
	stop := w.consume(t, func(_ context.Context, item *client.Item) error {
		now := atOnce.Add(1)
		for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
		}
		defer atOnce.Add(-1)
		handled[item.Priority].Add(1)
		return nil
	}, client.ConsumeOptions{Workers: 4})
	for i := range n {
		if _, err := w.queue.PushAsync(t.Context(), nil, client.Priority(int64(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.client.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.await(t, "jobs", isEmpty)
	if err := stop(); err != nil {
		t.Errorf("consume ended with %v", err)
	}
	for i := range handled {
		if times := handled[i].Load(); times != 1 {
			t.Errorf("item %d was handled %d times", i, times)
		}
	}
	if most.Load() > 4 {
		t.Errorf("%d handlers ran at a time, expected at most 4", most.Load())
	}
}

func TestConsumeSettles(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	for _, tc := range []struct {
		name   string
		handle client.Handler
		failed string // the error that OnError gets, if any
		after  func(*client.Info) bool
		dead   bool
	}{
		{"nil acknowledges", func(context.Context, *client.Item) error { return nil }, "", isEmpty, false},
		{"an error brings it back later", func(context.Context, *client.Item) error { return failed },
			"failed", func(i *client.Info) bool { return i.Delayed == 1 }, false},
		{"so does a panic", func(context.Context, *client.Item) error { panic("ouch") },
			"handler panicked: ouch", func(i *client.Info) bool { return i.Delayed == 1 }, false},
		{"an error may say when", func(context.Context, *client.Item) error { return client.RetryAfter(time.Hour, failed) },
			"failed (again in 1h0m0s)", func(i *client.Info) bool { return i.Delayed == 1 }, false},
		{"or never", func(context.Context, *client.Item) error { return fmt.Errorf("read: %w", client.GiveUp(failed)) },
			"read: failed", isEmpty, true},
		{"the handler may settle", func(ctx context.Context, i *client.Item) error { return i.Terminate(ctx, "failed") }, "", isEmpty, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := start(t)
			failed := make(chan string, 10)
			w.push(t, "x")
			for range 3 { // which is no failure
				item, err := w.queue.Pop(t.Context(), client.Min, client.Lease(time.Hour))
				if err == nil {
					err = item.GiveBack(t.Context(), "")
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			stop := w.consume(t, tc.handle, client.ConsumeOptions{
				Backoff: func(failures int) time.Duration {
					if failures != 1 {
						t.Errorf("backoff after %d failures, expected 1", failures)
					}
					return time.Hour
				},
				OnError: func(item *client.Item, err error) { failed <- err.Error() },
			})
			w.await(t, "jobs", tc.after)
			if err := stop(); err != nil {
				t.Errorf("consume ended with %v", err)
			}
			close(failed)
			if text := <-failed; !strings.HasPrefix(text, tc.failed) || tc.failed == "" && text != "" {
				t.Errorf("OnError got %q, expected %q", text, tc.failed)
			}
			if tc.dead {
				item, err := w.client.Queue("jobs-dead").Pop(t.Context(), client.Min)
				if err != nil || item.Dead.Reason != "failed" {
					t.Errorf("dead: %+v, %v", item, err)
				}
			}
		})
	}
}

// When the context ends, handlers finish, and no more items are popped.
func TestConsumeDrains(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.push(t, "a")
	w.push(t, "b")
	started, finish, handled := make(chan struct{}), make(chan struct{}), false
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- w.queue.Consume(ctx, func(ctx context.Context, item *client.Item) error {
			close(started)
			<-finish
			handled = true
			return ctx.Err()
		}, client.ConsumeOptions{})
	}()
	<-started
	cancel()
	close(finish)
	if err := <-ended; err != nil || !handled {
		t.Errorf("consume ended with %v, after the handler: %v", err, handled)
	}
	w.await(t, "jobs", func(i *client.Info) bool { return i.Ready == 1 && i.Leased == 0 })
}

// A handler that exceeds the grace period has its context cancelled, and its item returns
// at once.
func TestConsumeGrace(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.push(t, "a")
	started := make(chan struct{})
	stop := w.consume(t, func(ctx context.Context, item *client.Item) error {
		close(started)
		<-ctx.Done()
		return ctx.Err()
	}, client.ConsumeOptions{Grace: time.Millisecond, Backoff: func(int) time.Duration {
		t.Error("an interrupted handler counts as one that failed")
		return 0
	}})
	<-started
	if err := stop(); err != nil {
		t.Errorf("consume ended with %v", err)
	}
	w.await(t, "jobs", func(i *client.Info) bool { return i.Ready == 1 })
}

// The lease is extended while the handler runs. The context of a handler whose lease is
// lost is cancelled.
func TestConsumeHolds(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.client.ExtendOften(1000)
	p := w.push(t, "a")
	failed := make(chan error, 10)
	started := make(chan *client.Item, 1)
	stop := w.consume(t, func(ctx context.Context, item *client.Item) error {
		started <- item
		<-ctx.Done()
		return context.Cause(ctx)
	}, client.ConsumeOptions{
		Lease:   time.Minute,
		OnError: func(_ *client.Item, err error) { failed <- err },
	})
	item := <-started
	for first := item.LeaseExpires(); item.LeaseExpires().Equal(first); {
		select {
		case err := <-failed:
			t.Fatal(err)
		case <-time.After(time.Millisecond):
		}
	}
	if err := w.queue.Remove(t.Context(), p.ID); err != nil {
		t.Fatal(err)
	}
	fails(t, <-failed, client.ErrLeaseLost, 410, client.ReasonGone)
	if err := stop(); err != nil {
		t.Errorf("consume ended with %v", err)
	}
}

// OnError gets a settlement that failed: others may do the work again.
func TestConsumeReportsFailedSettlements(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.push(t, "a")
	failed := make(chan error, 10)
	err := w.queue.Consume(t.Context(), func(ctx context.Context, item *client.Item) error {
		return w.queue.Remove(ctx, item.ID)
	}, client.ConsumeOptions{Limit: 1, OnError: func(_ *client.Item, err error) { failed <- err }})
	if err != nil {
		t.Fatal(err)
	}
	close(failed)
	fails(t, <-failed, client.ErrLeaseLost, 410, client.ReasonGone)
}

func TestConsumeEndsForGood(t *testing.T) {
	t.Parallel()
	w := start(t)
	err := w.queue.Consume(t.Context(), nil, client.ConsumeOptions{Lease: 1000 * time.Hour})
	fails(t, err, err, 400, "")
	w.nc.Close()
	if err := w.queue.Consume(t.Context(), nil, client.ConsumeOptions{}); err == nil {
		t.Error("consume on a closed connection: expected an error")
	}
}

func TestDefaultBackoff(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		deliveries  int
		least, most time.Duration
	}{
		{1, 500 * time.Millisecond, 1500 * time.Millisecond},
		{3, 2 * time.Second, 6 * time.Second},
		{16, 150 * time.Second, 450 * time.Second},
		{1 << 40, 150 * time.Second, 450 * time.Second},
	} {
		seen := make(map[time.Duration]bool)
		for range 100 {
			d := client.DefaultBackoff(tc.deliveries)
			if d < tc.least || d > tc.most {
				t.Errorf("after %d deliveries: %s, expected %s to %s", tc.deliveries, d, tc.least, tc.most)
			}
			seen[d] = true
		}
		if len(seen) < 10 {
			t.Errorf("after %d deliveries: %d different delays of 100", tc.deliveries, len(seen))
		}
	}
}

func TestConsumeLimits(t *testing.T) {
	t.Parallel()
	w := start(t)
	for range 10 {
		w.push(t, "x")
	}
	var handled atomic.Int32
	handle := func(context.Context, *client.Item) error {
		handled.Add(1)
		return nil
	}
	for _, step := range []struct {
		options client.ConsumeOptions
		handled int32
	}{
		{client.ConsumeOptions{Workers: 4, Limit: 3}, 3},
		{client.ConsumeOptions{Workers: 1, Limit: 2, StopWhenEmpty: true}, 5},
		{client.ConsumeOptions{Workers: 4, StopWhenEmpty: true}, 10},
		{client.ConsumeOptions{Workers: 4, StopWhenEmpty: true}, 10},
	} {
		if err := w.queue.Consume(t.Context(), handle, step.options); err != nil {
			t.Fatal(err)
		}
		if n := handled.Load(); n != step.handled {
			t.Errorf("%d items were handled, expected %d", n, step.handled)
		}
	}
}

// A pop that brings nothing does not count against the limit.
func TestConsumeLimitCountsItems(t *testing.T) {
	t.Parallel()
	c := fake(t, func(m *nats.Msg, n int) *nats.Msg {
		switch {
		case !strings.HasSuffix(m.Subject, ".pop.min"):
			return emptyAnswer() // the settlement
		case n == 1:
			return failure("408", "")
		case n == 2:
			return failure("500", "")
		}
		return &nats.Msg{Header: nats.Header{"PQ-Id": {"i"}, "PQ-Ack": {"pq.jobs.ack.c.t"}}}
	})
	handled := 0
	var failed []error
	err := c.Queue("jobs").Consume(t.Context(), func(context.Context, *client.Item) error {
		handled++
		return nil
	}, client.ConsumeOptions{Limit: 1, OnError: func(_ *client.Item, err error) { failed = append(failed, err) }})
	if err != nil || handled != 1 {
		t.Errorf("%d items were handled, %v: expected 1", handled, err)
	}
	// That no item came in time is no error.
	if len(failed) != 1 || !strings.Contains(failed[0].Error(), "(500)") {
		t.Errorf("OnError got %v, expected the 500", failed)
	}
}

// An item whose handler failed because the lease was lost is left to its next consumer.
func TestConsumeLeavesLostItems(t *testing.T) {
	t.Parallel()
	var settlements []string
	c := fake(t, func(m *nats.Msg, _ int) *nats.Msg {
		if strings.HasSuffix(m.Subject, ".pop.min") {
			return &nats.Msg{Header: nats.Header{"PQ-Id": {"i"}, "PQ-Ack": {"pq.jobs.ack.c.t"}}}
		}
		settlements = append(settlements, string(m.Data))
		return failure("410", "taken")
	})
	c.ExtendOften(1_000_000)
	err := c.Queue("jobs").Consume(t.Context(), func(ctx context.Context, _ *client.Item) error {
		<-ctx.Done()
		return ctx.Err()
	}, client.ConsumeOptions{Limit: 1, Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if len(settlements) != 1 || settlements[0] != "+WPI" {
		t.Errorf("published %q, expected one extension", settlements)
	}
}

// A stop meets an item that is on its way to a worker. Consume ends when that has been given back, so the program may
// close its connection.
func TestConsumeEndsWithItsWaits(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{1, 20} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) { endsWithItsWaits(t, workers) })
	}
}

func endsWithItsWaits(t *testing.T, workers int) {
	w := start(t)
	if _, err := w.queue.Configure(t.Context(), client.ConfigChange{}); err != nil {
		t.Fatal(err)
	}
	proxy := testenv.NewProxy(t, w.NATS.URL())
	nc, err := nats.Connect(proxy.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c, err := client.New(nc, client.Timeout(testenv.Patience()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() {
		err := c.Queue("jobs").Consume(ctx, func(context.Context, *client.Item) error {
			t.Error("a handler began")
			return nil
		}, client.ConsumeOptions{Workers: workers, Lease: time.Hour})
		nc.Close()
		ended <- err
	}()
	w.await(t, "jobs", func(i *client.Info) bool { return i.Waiting > 0 })
	release := proxy.HoldAnswers()
	w.push(t, "x")
	w.await(t, "jobs", func(i *client.Info) bool { return i.Leased == 1 })
	subscriptions := w.NATS.Server().NumSubscriptions()
	stop()
	testenv.Await(t, "the server knows that nobody waits", func() bool { return w.NATS.Server().NumSubscriptions() < subscriptions })
	release()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	w.await(t, "jobs", func(i *client.Info) bool { return i.Ready == 1 && i.Leased == 0 })
}

// Consume says once that its queue does not exist, however many workers it has, and serves the queue when it is made. Of an empty
// queue it says nothing.
func TestConsumeSaysThatAQueueDoesNotExist(t *testing.T) {
	t.Parallel()
	w := start(t)
	told, handled := make(chan error, 9), make(chan string, 9)
	o := client.ConsumeOptions{Workers: 4, OnError: func(item *client.Item, err error) { told <- err }}
	stop := w.consume(t, func(_ context.Context, item *client.Item) error { handled <- string(item.Payload); return nil }, o)
	err := receive(t, told)
	if !errors.Is(err, client.ErrNotFound) || !strings.Contains(err.Error(), "queue "+w.queue.Name()+" does not exist yet") {
		t.Errorf("no queue: %v", err)
	}
	if _, err := w.queue.Push(t.Context(), []byte("first")); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, handled); got != "first" {
		t.Errorf("handled %q", got)
	}
	if err := stop(); err != nil || len(told) > 0 {
		t.Errorf("%v, and %d more errors", err, len(told))
	}
	stop = w.consume(t, func(_ context.Context, item *client.Item) error { handled <- string(item.Payload); return nil }, o)
	if _, err := w.queue.Push(t.Context(), []byte("second")); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, handled); got != "second" {
		t.Errorf("handled %q", got)
	}
	if err := stop(); err != nil || len(told) > 0 {
		t.Errorf("an empty queue: %v, %d errors", err, len(told))
	}
}

// receive returns the next value of a channel.
func receive[T any](t *testing.T, from <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(testenv.Patience()):
		t.Fatalf("nothing came within %s", testenv.Patience())
	}
	return value
}
