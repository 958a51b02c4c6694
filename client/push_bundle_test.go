package client_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/testenv"
)

// through makes a client whose requests a function sees, and answers itself or passes on to
// the bridge.
func (w *world) through(t *testing.T, see func(*nats.Msg) *nats.Msg, opts ...client.Option) *client.Client {
	t.Helper()
	_, err := w.nc.Subscribe("through.>", func(m *nats.Msg) {
		var err error
		if answer := see(m); answer != nil {
			err = m.RespondMsg(answer)
		} else {
			err = w.nc.PublishMsg(&nats.Msg{Subject: strings.Replace(m.Subject, "through.", "pq.", 1), Reply: m.Reply, Header: m.Header, Data: m.Data})
		}
		if err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			t.Errorf("%s: %v", m.Subject, err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, w.nc, append([]client.Option{client.Prefix("through"), client.BridgePrefix("pq"), client.Timeout(testenv.Most)}, opts...)...)
	c.AskAgainAfter(testenv.Patience()) // tests count the requests
	return c
}

// asksForBundle says whether a request is about a bundle.
func asksForBundle(m *nats.Msg) bool {
	return m.Header.Get("PQ-Bundle") != "" || bytes.Contains(m.Data, []byte(`"bundle"`))
}

// Items are popped and acknowledged together, in few messages.
func TestBundles(t *testing.T) {
	t.Parallel()
	w := start(t)
	var bundles, pops, acks atomic.Int32
	c := w.through(t, func(m *nats.Msg) *nats.Msg {
		switch {
		case asksForBundle(m):
			bundles.Add(1)
		case strings.Contains(m.Subject, ".pop."):
			pops.Add(1)
		case strings.Contains(m.Subject, ".ack."):
			acks.Add(1)
		}
		return nil
	})
	for i := range 5 {
		w.push(t, fmt.Sprint(i), client.Header(nats.Header{"X": {"a", "b"}}))
	}
	q := c.Queue("jobs")
	for range 2 {
		if peeked, err := q.PeekBatch(t.Context(), client.Min, 3); err != nil || len(peeked) != 3 || string(peeked[2].Payload) != "2" {
			t.Fatalf("peeked %v, %v", peeked, err)
		}
	}
	items, err := q.PopBatch(t.Context(), client.Min, 10, client.Lease(time.Hour), client.Repeatable())
	if err != nil || len(items) != 5 {
		t.Fatalf("popped %v, %v", items, err)
	}
	for i, item := range items {
		if string(item.Payload) != fmt.Sprint(i) || fmt.Sprint(item.Header) != "map[X:[a b]]" || item.Deliveries != 1 || !item.Leased() {
			t.Errorf("item %d: %+v", i, item)
		}
	}
	if err := items[1].Nack(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.queue.Remove(t.Context(), items[2].ID); err != nil {
		t.Fatal(err)
	}
	errs := q.AckMany(t.Context(), items...)
	for i, err := range errs {
		if want := map[int]error{1: client.ErrSettled, 2: client.ErrLeaseLost}[i]; !errors.Is(err, want) {
			t.Errorf("item %d: %v, expected %v", i, err, want)
		}
	}
	if again := q.AckMany(t.Context(), items[0]); len(again) != 1 || !errors.Is(again[0], client.ErrSettled) {
		t.Errorf("acknowledged again: %v", again)
	}
	if info, err := w.queue.Info(t.Context()); err != nil || info.Ready != 1 || info.Leased != 0 {
		t.Errorf("%+v, %v", info, err)
	}
	want := [3]int32{4, 0, 1} // the peeks, the pop and the acknowledgements; -NAK
	if got := [3]int32{bundles.Load(), pops.Load(), acks.Load()}; got != want {
		t.Errorf("bundles, pops and acknowledgements: %v, expected %v", got, want)
	}
}

// await waits until something is so.
func await(t *testing.T, so func() bool) {
	t.Helper()
	for deadline := testenv.BeginWait(); !so(); runtime.Gosched() {
		if deadline.Over() {
			t.Error("it did not happen")
			return
		}
	}
}
