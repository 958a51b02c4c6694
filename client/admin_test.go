package client_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/client"
)

func TestItemsByID(t *testing.T) {
	t.Parallel()
	w := start(t)
	ctx := t.Context()
	p := w.push(t, "x", client.Priority(5), client.Header(nats.Header{"A": {"b"}}))
	item, err := w.queue.Get(ctx, p.ID)
	if err != nil || item.State != client.Ready || string(item.Payload) != "x" || item.Header.Get("A") != "b" || item.Leased() {
		t.Errorf("got %+v, %v", item, err)
	}
	if err := w.queue.Move(ctx, p.ID, -5); err != nil {
		t.Fatal(err)
	}
	leased := w.pop(t, client.Max, client.Lease(time.Hour))
	if leased.ID != p.ID || leased.Priority != -5 {
		t.Errorf("popped %+v, expected %s with priority -5", leased, p.ID)
	}
	if item, err := w.queue.Get(ctx, p.ID); err != nil || item.State != client.Leased || time.Until(item.Due) < 50*time.Minute {
		t.Errorf("got %+v, %v", item, err)
	}
	if err := w.queue.Remove(ctx, p.ID); err != nil {
		t.Fatal(err)
	}
	_, getErr := w.queue.Get(ctx, p.ID)
	for _, err := range []error{getErr, w.queue.Remove(ctx, p.ID), w.queue.Move(ctx, p.ID, 1)} {
		fails(t, err, client.ErrNotFound, 404, client.ReasonUnknown)
		if errors.Is(err, client.ErrEmpty) {
			t.Errorf("%v is client.ErrEmpty, expected not", err)
		}
	}
	err = w.queue.Remove(ctx, "nonsense")
	fails(t, err, err, 400, "")
}

func TestQueueLife(t *testing.T) {
	t.Parallel()
	w := start(t)
	ctx := t.Context()
	_, err := w.queue.Info(ctx)
	fails(t, err, client.ErrNotFound, 404, client.ReasonUnknown)

	w.push(t, "x")
	w.push(t, "y", client.Delay(time.Hour))
	if err := w.queue.Pause(ctx); err != nil {
		t.Fatal(err)
	}
	_, err = w.queue.Pop(ctx, client.Min)
	fails(t, err, client.ErrEmpty, 404, client.ReasonPaused)
	info, err := w.queue.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := &client.Info{Queue: "jobs", Ready: 1, Delayed: 1, Bytes: info.Bytes, Remembered: 2, Paused: true, Config: info.Config,
		Explain: client.Explain{Cause: client.Cause(client.ReasonPaused), Text: "The queue is paused, so no item is handed out.", Next: "Resume the queue."}}
	if diff := cmp.Diff(want, info, cmpopts.IgnoreFields(client.Info{}, "Oldest", "OldestOfAll", "OldestLease", "Rates")); diff != "" {
		t.Errorf("info: -want +got\n%s", diff)
	}
	if err := w.queue.Resume(ctx); err != nil {
		t.Fatal(err)
	}
	if n, err := w.queue.Purge(ctx); n != 2 || err != nil {
		t.Errorf("purged %d, %v, expected 2", n, err)
	}
	if err := w.queue.Delete(ctx); err != nil {
		t.Fatal(err)
	}
	_, err = w.queue.Info(ctx)
	fails(t, err, client.ErrNotFound, 404, client.ReasonUnknown)
}

func TestConfigure(t *testing.T) {
	t.Parallel()
	w := start(t)
	minute := client.Duration(time.Minute)
	before, err := w.queue.Configure(t.Context(), client.ConfigChange{Lease: &minute, Priority: new(int64(5))})
	if err != nil {
		t.Fatal(err)
	}
	after, err := w.queue.Configure(t.Context(), client.ConfigChange{Priority: new(int64(0)), Ties: new("oldest")})
	if err != nil {
		t.Fatal(err)
	}
	want := before
	want.Priority, want.Ties = 0, "oldest"
	if before.Lease != minute || before.Priority != 5 || before.MaxDeliveries != 16 {
		t.Errorf("configured: %+v", before)
	}
	if diff := cmp.Diff(want, after); diff != "" {
		t.Errorf("changed: -want +got\n%s", diff)
	}
	if read, err := w.queue.Config(t.Context()); err != nil || read != after {
		t.Errorf("read %+v, %v, expected %+v", read, err, after)
	}
	_, err = w.queue.Configure(t.Context(), client.ConfigChange{Ties: new("middle")})
	var e *client.Error
	if !errors.As(err, &e) || e.Code != 400 || !strings.Contains(e.Description, "newest") {
		t.Errorf("ties middle: %v, expected 400 and what is allowed", err)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	w := start(t)
	const n = 450 // pages and a bit
	for i := range n {
		if _, err := w.queue.PushAsync(t.Context(), fmt.Append(nil, i), client.Priority(int64(-i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.client.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for item, err := range w.queue.List(t.Context(), client.ListOptions{Preview: 1}) {
		if err != nil || len(item.Preview) != 1 || item.Body != nil {
			t.Fatalf("listed %+v, %v, expected the first byte of the payload", item, err)
		}
	}
	if h, err := w.queue.History(t.Context()); err != nil || len(h.Push) != 60 || len(h.Ready) != 60 || h.Bridge == "" {
		t.Errorf("%+v, %v", h, err)
	}
	if h, err := w.client.History(t.Context()); err != nil || len(h.Push) != 60 || len(h.Failed) != 60 {
		t.Errorf("%+v, %v", h, err)
	}
	next := n
	for item, err := range w.queue.List(t.Context(), client.ListOptions{Bodies: true}) {
		next--
		if err != nil {
			t.Fatal(err)
		}
		if item.Priority != int64(-next) || string(item.Body) != fmt.Sprint(next) || item.State != client.Ready {
			t.Fatalf("listed %+v, expected %d", item, next)
		}
	}
	if next != 0 {
		t.Errorf("%d items are missing", next)
	}
	w.pop(t, client.Max, client.Lease(time.Hour))
	for item, err := range w.queue.List(t.Context(), client.ListOptions{State: client.Leased}) {
		if err != nil || item.Priority != 0 || item.Body != nil || item.Deliveries != 1 || item.Due.IsZero() {
			t.Errorf("listed %+v, %v", item, err)
		}
		break
	}
	for _, err := range w.client.Queue("none").List(t.Context(), client.ListOptions{}) {
		fails(t, err, client.ErrNotFound, 404, client.ReasonUnknown)
	}
}

func TestQueuesAndSystem(t *testing.T) {
	t.Parallel()
	w := start(t)
	var want []string
	for i := range 230 {
		name := fmt.Sprintf("q%03d", i)
		want = append(want, name)
		if _, err := w.client.Queue(name).PushAsync(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.client.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for name, err := range w.client.Queues(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	s, err := w.client.System(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.Prefix != bridge.DefaultPrefix || s.StoreID != w.Store.ID() || s.Version == "" || s.Limits.Batch == 0 || s.Limits.Wait == 0 {
		t.Errorf("system: %+v", s)
	}
}

func TestQueuesPage(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, name := range []string{"a", "b1", "b2", "b3", "c"} {
		if _, err := w.client.Queue(name).Push(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, one := range []struct {
		options client.QueuesOptions
		names   string
		next    string
	}{
		{client.QueuesOptions{}, "a b1 b2 b3 c", ""},
		{client.QueuesOptions{Limit: 2}, "a b1", "b1"},
		{client.QueuesOptions{Limit: 2, After: "b1"}, "b2 b3", "b3"},
		{client.QueuesOptions{Prefix: "b"}, "b1 b2 b3", ""},
		{client.QueuesOptions{Prefix: "b", After: "b2", Limit: 1}, "b3", ""},
		{client.QueuesOptions{Prefix: "x"}, "", ""},
	} {
		page, err := w.client.QueuesPage(t.Context(), one.options)
		if err != nil {
			t.Fatal(err)
		}
		if names := strings.Join(page.Queues, " "); names != one.names || page.Next != one.next {
			t.Errorf("%+v: %s, next %q; expected %s, next %q", one.options, names, page.Next, one.names, one.next)
		}
	}
}
