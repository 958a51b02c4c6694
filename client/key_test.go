package client_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/client"
)

// The key of an item goes with its push and comes with the item, and the client tells a
// pop that the configuration refuses from a pop that finds nothing.
func TestKey(t *testing.T) {
	t.Parallel()
	w := start(t)
	order := true
	if _, err := w.queue.Configure(t.Context(), client.ConfigChange{KeyOrder: &order}); err != nil {
		t.Fatal(err)
	}
	w.push(t, "first", client.Key("ann"))
	second := w.push(t, "second", client.Key("ann"))
	first := w.pop(t, client.Min, client.Lease(time.Hour))
	if first.Key != "ann" || first.KeyFence == 0 {
		t.Errorf("%+v", first)
	}
	for listed, err := range w.queue.List(t.Context(), client.ListOptions{State: client.Leased}) {
		if err != nil || listed.KeyFence != first.KeyFence {
			t.Errorf("%+v, %v: expected the fence %d of the key", listed, err, first.KeyFence)
		}
	}
	third := w.push(t, "third", client.Key("ann"))
	if got, err := w.queue.Get(t.Context(), third.ID); err != nil || got.KeyAhead != 1 {
		t.Errorf("%+v, %v: expected one item of its key before it", got, err)
	}
	if err := w.queue.Remove(t.Context(), third.ID); err != nil {
		t.Fatal(err)
	}
	got, err := w.queue.Get(t.Context(), second.ID)
	if err != nil || got.Key != "ann" || got.WaitsFor != "key_order" {
		t.Errorf("%+v, %v", got, err)
	}
	for listed, err := range w.queue.List(t.Context(), client.ListOptions{}) {
		if err != nil || listed.Key != "ann" {
			t.Errorf("%+v, %v", listed, err)
		}
	}
	_, err = w.queue.Pop(t.Context(), client.Min, client.Lease(time.Hour))
	fails(t, err, client.ErrEmpty, 404, client.ReasonBlocked)
	for _, c := range []struct {
		end    client.End
		opts   []client.PopOption
		reason client.Reason
	}{
		{client.Min, nil, client.ReasonLeaseRequired},
		{client.Max, []client.PopOption{client.Lease(time.Hour)}, client.ReasonOnlyMin},
	} {
		_, err := w.queue.Pop(t.Context(), c.end, c.opts...)
		var e *client.Error
		if !errors.As(err, &e) || e.Code != 409 || e.Reason != c.reason || errors.Is(err, client.ErrBusy) {
			t.Errorf("%v (%+v), expected 409 with the reason %s, and not to try again", err, e, c.reason)
		}
	}
	other := w.client.Queue("other")
	f, err := other.ImportAsync(t.Context(), &client.Import{ID: second.ID, Key: "ann", KeyFence: first.KeyFence})
	if err == nil {
		_, err = f.Result()
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, err := other.Get(t.Context(), second.ID); err != nil || got.Key != "ann" || got.KeyFence != first.KeyFence {
		t.Errorf("imported: %+v, %v", got, err)
	}
}
