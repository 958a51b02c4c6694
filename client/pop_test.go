package client_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/internal/testkit/patience"
)

func TestPopEnds(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, p := range []struct {
		payload  string
		priority int64
	}{{"5", 5}, {"1", 1}, {"9", 9}, {"-3", -3}} {
		w.push(t, p.payload, client.Priority(p.priority))
	}
	first, last := w.pop(t, client.Min), w.pop(t, client.Max)
	if first.Priority != -3 || last.Priority != 9 {
		t.Errorf("popped %d and %d, expected -3 and 9", first.Priority, last.Priority)
	}
	if first.Pending != 3 || last.Pending != 2 {
		t.Errorf("pending are %d and %d, expected 3 and 2", first.Pending, last.Pending)
	}
	peeked, err := w.queue.Peek(t.Context(), client.Max)
	if err != nil || peeked.Priority != 5 || peeked.Leased() {
		t.Errorf("peeked at %+v, %v, expected priority 5", peeked, err)
	}
	items, err := w.queue.PeekBatch(t.Context(), client.Min, 10)
	if err != nil || payloads(items) != "1 5" {
		t.Errorf("peeked at %s, %v, expected 1 5", payloads(items), err)
	}
}

func TestPopBatch(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, payload := range []string{"a", "b", "c", "d", "e"} {
		w.push(t, payload, client.Priority(int64(payload[0])))
	}
	_, err := w.queue.PopBatch(t.Context(), client.Min, 3, client.Band('f', math.MaxInt64))
	fails(t, err, client.ErrEmpty, 404, client.ReasonBand)
	for _, tc := range []struct {
		end  client.End
		n    int
		opts []client.PopOption
		want string
	}{
		{client.Min, 2, nil, "a b"},
		{client.Max, 1, nil, "e"},
		{client.Min, 9, []client.PopOption{client.Band('d', math.MaxInt64)}, "d"},
		{client.Min, 9, []client.PopOption{client.MaxBytes(1)}, "c"},
	} {
		items, err := w.queue.PopBatch(t.Context(), tc.end, tc.n, tc.opts...)
		if err != nil || payloads(items) != tc.want {
			t.Errorf("pop %d from %s: %s, %v, expected %s", tc.n, tc.end, payloads(items), err, tc.want)
		}
	}
	_, err = w.queue.PopBatch(t.Context(), client.Min, 3)
	fails(t, err, client.ErrEmpty, 404, client.ReasonEmpty)
	if _, err := w.queue.PopBatch(t.Context(), client.Min, 0); err == nil || errors.Is(err, client.ErrEmpty) {
		t.Error("a batch of 0: expected an error")
	}
	if _, err := w.queue.Pop(t.Context(), client.End(7)); err == nil {
		t.Error("end 7: expected an error")
	}
}

func TestPopNothing(t *testing.T) {
	t.Parallel()
	w := start(t)
	_, err := w.queue.Pop(t.Context(), client.Min)
	fails(t, err, client.ErrEmpty, 404, client.ReasonUnknown)
	fails(t, err, client.ErrNotFound, 404, client.ReasonUnknown)

	w.push(t, "x")
	w.pop(t, client.Min, client.Lease(time.Hour))
	_, err = w.queue.Pop(t.Context(), client.Min)
	fails(t, err, client.ErrEmpty, 404, client.ReasonLeased)
	_, err = w.queue.Pop(t.Context(), client.Min, client.Wait(10*time.Millisecond))
	fails(t, err, client.ErrEmpty, 408, "")
	if errors.Is(err, client.ErrNotFound) {
		t.Errorf("%v is client.ErrNotFound, expected not", err)
	}
}

func TestPopWaits(t *testing.T) {
	t.Parallel()
	w := start(t)
	popped := make(chan string, 1)
	go func() {
		item, err := w.queue.Pop(t.Context(), client.Min, client.Wait(time.Minute))
		if err != nil {
			popped <- err.Error()
			return
		}
		popped <- string(item.Payload)
	}()
	w.awaitWaiting(t, 1)
	w.push(t, "x")
	if got := <-popped; got != "x" {
		t.Errorf("popped %s, expected x", got)
	}
}

// awaitWaiting waits until this many pops wait at the queue. It creates the queue first.
func (w *world) awaitWaiting(t *testing.T, n int) {
	t.Helper()
	if _, err := w.queue.Configure(t.Context(), client.ConfigChange{}); err != nil {
		t.Fatal(err)
	}
	for {
		info, err := w.queue.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if info.Waiting == n {
			return
		}
	}
}

// A wait longer than the context ends early enough for the answer to arrive.
func TestPopWaitsWithinContext(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.client.LeaveMargin(time.Hour) // half of the time, that is
	ctx, cancel := context.WithTimeout(t.Context(), patience.Times(6*time.Second))
	defer cancel()
	_, err := w.queue.Pop(ctx, client.Min, client.Wait(math.MaxInt64))
	fails(t, err, client.ErrEmpty, 408, "")
}

// A waiting pop that was cancelled pops nothing.
func TestPopGivenUp(t *testing.T) {
	t.Parallel()
	w := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := w.queue.Pop(ctx, client.Min, client.Wait(time.Minute), client.Lease(time.Hour))
		ended <- err
	}()
	w.awaitWaiting(t, 1)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v: expected context.Canceled", err)
	}
	w.push(t, "x")
	if item := w.pop(t, client.Min, client.Wait(time.Minute)); string(item.Payload) != "x" {
		t.Errorf("popped %s, expected x", item.Payload)
	}
}

func TestPopByID(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.push(t, "a")
	w.push(t, "b")
	first := w.pop(t, client.Min, client.PopID("id"))
	again := w.pop(t, client.Min, client.PopID("id"))
	if first.ID != again.ID {
		t.Errorf("popped %s, then %s: expected the same", first.Payload, again.Payload)
	}
	if other := w.pop(t, client.Min, client.PopID("other")); string(other.Payload) != "b" {
		t.Errorf("popped %s, expected b", other.Payload)
	}
}
