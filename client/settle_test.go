package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

func TestSettlements(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, tc := range []struct {
		name   string
		settle func(*client.Item) error
		after  client.Reason // of the 404 that the next pop gets
		dead   int64
	}{
		{"ack", func(i *client.Item) error { return i.Ack(t.Context()) }, client.ReasonEmpty, 0},
		{"nack with delay", func(i *client.Item) error { return i.NackWithDelay(t.Context(), time.Hour) }, client.ReasonDelayed, 0},
		{"terminate", func(i *client.Item) error { return i.Terminate(t.Context(), "odd"+strings.Repeat(" ", 1<<20)) }, client.ReasonEmpty, 1},
		{"extend", func(i *client.Item) error { return i.Extend(t.Context()) }, client.ReasonLeased, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w.push(t, "x")
			item := w.pop(t, client.Min, client.Lease(time.Hour))
			if !item.Leased() || item.Deliveries != 1 || item.Fence == 0 || time.Until(item.LeaseExpires()) < 50*time.Minute {
				t.Errorf("leased: %+v, until %s", item, item.LeaseExpires())
			}
			if err := tc.settle(item); err != nil {
				t.Fatal(err)
			}
			_, err := w.queue.Pop(t.Context(), client.Min)
			fails(t, err, client.ErrEmpty, 404, tc.after)
			dead, err := w.client.Queue("jobs-dead").Info(t.Context())
			if tc.dead > 0 && (err != nil || dead.Ready != tc.dead) {
				t.Errorf("dead: %+v, %v, expected %d", dead, err, tc.dead)
			}
			if _, err := w.queue.Purge(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
	item := w.client.Queue("jobs-dead")
	dead, err := item.Pop(t.Context(), client.Min)
	if err != nil || dead.Dead == nil || *dead.Dead != (client.Death{Reason: "odd", Origin: "jobs",
		OriginID: dead.Dead.OriginID, At: dead.Dead.At, Deliveries: 1}) || dead.Dead.At.IsZero() {
		t.Errorf("dead: %+v, %v", dead, err)
	}
}

func TestNackBringsBack(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.push(t, "x")
	first := w.pop(t, client.Min, client.Lease(time.Hour))
	if err := first.Nack(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := w.pop(t, client.Min, client.Lease(time.Hour))
	if second.ID != first.ID || second.Deliveries != 2 || second.Fence <= first.Fence {
		t.Errorf("leased again: %+v, before it was %+v", second, first)
	}
}

// What is given back is there at once, and remembered as an attempt if there was a reason.
func TestGiveBack(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.push(t, "x")
	for _, reason := range []string{"", "stopped for a deploy"} {
		item := w.pop(t, client.Min, client.Lease(time.Hour))
		if err := item.GiveBack(t.Context(), reason); err != nil {
			t.Fatal(err)
		}
		if err := item.GiveBack(t.Context(), reason); !errors.Is(err, client.ErrSettled) {
			t.Errorf("given back twice: %v, expected client.ErrSettled", err)
		}
	}
	item, err := w.queue.Get(t.Context(), w.pop(t, client.Min, client.Lease(time.Hour)).ID, client.WithAttempts())
	if err != nil {
		t.Fatal(err)
	}
	if all := item.LastAttempts; len(all) != 1 || all[0].Outcome != protocol.OutcomeBack || all[0].Reason != "stopped for a deploy" {
		t.Errorf("its attempts are %+v", all)
	}
}

func TestSettledOnce(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.push(t, "x")
	plain := w.pop(t, client.Min)
	if err := plain.Ack(t.Context()); !errors.Is(err, client.ErrNotLeased) {
		t.Errorf("ack without a lease: %v", err)
	}
	w.push(t, "x")
	item := w.pop(t, client.Min, client.Lease(time.Hour))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := item.Ack(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("ack with a context that has ended: %v", err)
	}
	if err := item.Ack(t.Context()); err != nil {
		t.Errorf("ack after one that was not sent: %v", err)
	}
	for name, err := range map[string]error{
		"ack": item.Ack(t.Context()), "nack": item.Nack(t.Context()), "extend": item.Extend(t.Context()),
	} {
		if !errors.Is(err, client.ErrSettled) {
			t.Errorf("%s after ack: %v, expected client.ErrSettled", name, err)
		}
	}
}

func TestLeaseLost(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.push(t, "x")
	first := w.pop(t, client.Min, client.Lease(time.Millisecond))
	second := w.pop(t, client.Min, client.Lease(time.Hour), client.Wait(time.Minute))
	fails(t, first.Extend(t.Context()), client.ErrLeaseLost, 410, client.ReasonTaken)
	fails(t, first.Ack(t.Context()), client.ErrLeaseLost, 410, client.ReasonTaken)
	if err := first.Ack(t.Context()); !errors.Is(err, client.ErrSettled) {
		t.Errorf("ack once more: %v, expected client.ErrSettled", err)
	}
	if err := w.queue.Remove(t.Context(), second.ID); err != nil {
		t.Fatal(err)
	}
	fails(t, second.Ack(t.Context()), client.ErrLeaseLost, 410, client.ReasonGone)
}

func TestHold(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.client.ExtendOften(1000)
	w.push(t, "x")
	item := w.pop(t, client.Min, client.Lease(time.Minute))
	first := item.LeaseExpires()
	held, stop := item.Hold(t.Context())
	defer stop()
	testenv.Await(t, "the lease is extended", func() bool { return held.Err() != nil || !item.LeaseExpires().Equal(first) })
	if held.Err() != nil {
		t.Fatal(context.Cause(held))
	}
	if err := item.Ack(t.Context()); err != nil {
		t.Errorf("ack during Hold: %v", err)
	}
	stop()
	if err := context.Cause(held); err != context.Canceled {
		t.Errorf("the context of Hold ended with %v", err)
	}
}

func TestHoldEndsWithTheLease(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.client.ExtendOften(1000)
	w.push(t, "x")
	item := w.pop(t, client.Min, client.Lease(time.Minute))
	held, stop := item.Hold(t.Context())
	defer stop()
	if err := w.queue.Remove(t.Context(), item.ID); err != nil {
		t.Fatal(err)
	}
	<-held.Done()
	fails(t, context.Cause(held), client.ErrLeaseLost, 410, client.ReasonGone)

	plain, stop := (&client.Item{}).Hold(t.Context())
	defer stop()
	if err := context.Cause(plain); !errors.Is(err, client.ErrNotLeased) {
		t.Errorf("hold without a lease: %v", err)
	}
}

// After a failed extension the client tries again while the lease lasts.
func TestHoldGoesOnAfterAFailure(t *testing.T) {
	t.Parallel()
	again := make(chan struct{})
	c := fake(t, func(m *nats.Msg, n int) *nats.Msg {
		switch n {
		case 1:
			return &nats.Msg{Header: nats.Header{"PQ-Id": {"i"}, "PQ-Ack": {"pq.jobs.ack.c.t"}}}
		case 2:
			return failure("500", "")
		case 3:
			close(again)
		}
		return emptyAnswer()
	})
	c.ExtendOften(1_000_000)
	item, err := c.Queue("jobs").Pop(t.Context(), client.Min, client.Lease(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	held, stop := item.Hold(t.Context())
	defer stop()
	select {
	case <-again:
	case <-held.Done():
		t.Errorf("the context of Hold ended with %v", context.Cause(held))
	}
}

// A lease that cannot be extended because no bridge answers counts as lost when it runs
// out.
func TestHoldWithoutBridge(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.push(t, "x")
	item := w.pop(t, client.Min, client.Lease(200*time.Millisecond))
	w.nc.Close()
	held, stop := item.Hold(t.Context())
	defer stop()
	<-held.Done()
	if err := context.Cause(held); !errors.Is(err, client.ErrLeaseLost) {
		t.Errorf("the context of Hold ended with %v", err)
	}
}

func TestAttach(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.push(t, "x")
	item := w.pop(t, client.Min, client.Lease(time.Hour))
	handle, err := w.client.Attach(item.AckSubject())
	if err != nil {
		t.Fatal(err)
	}
	if err := handle.Ack(t.Context()); err != nil || handle.Queue != "jobs" {
		t.Errorf("ack by another handle, on queue %s: %v", handle.Queue, err)
	}
	for _, subject := range []string{"", "pq.jobs.push", "other.jobs.ack.a.b"} {
		if _, err := w.client.Attach(subject); err == nil {
			t.Errorf("attach to %q: expected an error", subject)
		}
	}
}

// An unconfirmed settlement is an error, whatever the answer was, and may be tried again.
func TestUnconfirmedSettlementIsAnError(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"500", "503", "504", "506"} {
		ctx, cancel := context.WithCancel(t.Context())
		c := fake(t, func(_ *nats.Msg, n int) *nats.Msg {
			if n == 2 {
				cancel() // or the client would go on for as long as it may
			}
			return failure(code, "")
		})
		item, err := c.Attach("pq.jobs.ack.c.t")
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := item.Ack(ctx); err == nil || errors.Is(err, client.ErrSettled) {
				t.Errorf("%s: %v, expected an error of its own", code, err)
			}
		}
		if err := item.Extend(ctx); err == nil {
			t.Errorf("%s: the lease is extended, expected an error", code)
		}
		cancel()
	}
}

// A lease is extended three times within the length that was asked for. If the queue has
// chosen the length, the end of the lease tells it, but that is by another clock: extensions
// are neither too frequent nor too rare.
func TestExtendInterval(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, tc := range []struct {
		what        string
		lease       time.Duration // asked for
		seems       time.Duration // from now to the end that the bridge gives
		every, term time.Duration
	}{
		{"asked for, by a clock that is behind", time.Hour, -time.Hour, 20 * time.Minute, time.Hour},
		{"chosen by the queue", 0, 9 * time.Second, 3 * time.Second, 9 * time.Second},
		{"over, it seems", 0, -time.Hour, 300 * time.Millisecond, 900 * time.Millisecond},
		{"long, it seems", 0, time.Hour, 5 * time.Second, time.Hour},
	} {
		c := fake(t, func(*nats.Msg, int) *nats.Msg {
			return &nats.Msg{Header: nats.Header{
				"PQ-Id": {"i"}, "PQ-Ack": {"pq.jobs.ack.c.t"}, "PQ-Lease-Expires": {now.Add(tc.seems).Format(time.RFC3339Nano)},
			}}
		})
		item, err := c.Queue("jobs").Pop(t.Context(), client.Min, client.Lease(tc.lease))
		if err != nil {
			t.Fatal(err)
		}
		if every, term := item.ExtendInterval(now); every != tc.every || term != tc.term {
			t.Errorf("%s: extended every %s and held for %s, expected %s and %s", tc.what, every, term, tc.every, tc.term)
		}
	}
}

// agree has the queue of leases agree to hand-overs to another queue, and returns that.
func (w *world) agree(t *testing.T, to string) *client.Queue {
	t.Helper()
	if _, err := w.queue.Configure(t.Context(), client.ConfigChange{HandOver: &to}); err != nil {
		t.Fatal(err)
	}
	return w.client.Queue(to)
}

// An item that is handed over is gone, and the handle is settled.
func TestHandOver(t *testing.T) {
	t.Parallel()
	w := start(t)
	mails := w.agree(t, "mails")
	w.push(t, "a job")
	item := w.pop(t, client.Min, client.Lease(time.Hour))
	pushed, err := item.HandOver(t.Context(), mails, []byte("a mail"), client.Priority(7))
	if err != nil || pushed.ID == "" || pushed.Priority != 7 || pushed.Duplicate {
		t.Fatalf("%+v, %v", pushed, err)
	}
	if err := item.Ack(t.Context()); !errors.Is(err, client.ErrSettled) {
		t.Errorf("an acknowledgement after it: %v", err)
	}
	if _, err := item.HandOver(t.Context(), mails, nil); !errors.Is(err, client.ErrSettled) {
		t.Errorf("a second hand-over: %v", err)
	}
	_, err = w.queue.Pop(t.Context(), client.Min)
	fails(t, err, client.ErrEmpty, 404, client.ReasonEmpty)
	mail, err := mails.Pop(t.Context(), client.Min)
	if err != nil || string(mail.Payload) != "a mail" || len(mail.Header) > 0 {
		t.Errorf("%+v, %v", mail, err)
	}
	if _, err := mail.HandOver(t.Context(), mails, nil); !errors.Is(err, client.ErrNotLeased) {
		t.Errorf("a hand-over without a lease: %v", err)
	}
}

// After a refusal the item can still be settled, unless its lease is lost.
func TestRefusedHandOver(t *testing.T) {
	t.Parallel()
	w := start(t)
	mails := w.client.Queue("mails")
	w.push(t, "a job")
	item := w.pop(t, client.Min, client.Lease(time.Hour))
	var e *client.Error
	if _, err := item.HandOver(t.Context(), mails, nil); !errors.As(err, &e) || e.Code != 403 {
		t.Errorf("without consent: %v", err)
	}
	w.agree(t, "mails")
	same, err := w.client.Attach(item.AckSubject())
	if err != nil {
		t.Fatal(err)
	}
	if err := item.Ack(t.Context()); err != nil {
		t.Errorf("an acknowledgement after a refusal: %v", err)
	}
	_, err = same.HandOver(t.Context(), mails, nil)
	fails(t, err, client.ErrLeaseLost, 410, client.ReasonGone)
	if _, err := same.HandOver(t.Context(), mails, nil); !errors.Is(err, client.ErrSettled) {
		t.Errorf("after the lease was lost: %v", err)
	}
	_, err = mails.Pop(t.Context(), client.Min)
	fails(t, err, client.ErrEmpty, 404, client.ReasonUnknown)
}

// A hand-over whose answer is lost is repeated, and takes effect once.
func TestLostAnswerToAHandOver(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.agree(t, "mails")
	w.push(t, "a job")
	c, losses := w.lossy(t)
	item, err := c.Queue("jobs").Pop(t.Context(), client.Min, client.Lease(time.Hour), client.Repeatable())
	if err != nil {
		t.Fatal(err)
	}
	pushed, err := item.HandOver(t.Context(), c.Queue("mails"), []byte("a mail"))
	if err != nil || pushed.Duplicate {
		t.Errorf("%+v, %v", pushed, err)
	}
	for _, verb := range []string{"pop", "push"} {
		if got := <-losses; got != verb {
			t.Errorf("the answer to a %s was lost, expected one to a %s", got, verb)
		}
	}
	if info, err := w.client.Queue("mails").Info(t.Context()); err != nil || info.Ready != 1 {
		t.Errorf("%+v, %v, expected one item", info, err)
	}
	_, err = w.queue.Pop(t.Context(), client.Min)
	fails(t, err, client.ErrEmpty, 404, client.ReasonEmpty)
}
