package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/protocol"
)

// asks says for how many items a pop asks.
func asksFor(t *testing.T, m *nats.Msg) int {
	t.Helper()
	var pop struct{ Bundle int }
	if err := json.Unmarshal(m.Data, &pop); err != nil {
		t.Errorf("%s %q: %v", m.Subject, m.Data, err)
	}
	return max(1, pop.Bundle)
}

// gives answers a pop with leased items.
func gives(t *testing.T, pop *nats.Msg, ids ...string) *nats.Msg {
	t.Helper()
	if asksFor(t, pop) == 1 {
		return leasedItem(ids[0], "1", ids[0])
	}
	m := &nats.Msg{Header: nats.Header{"PQ-Bundle": {fmt.Sprint(len(ids))}}}
	for _, id := range ids {
		m.Data = protocol.AppendFrame(m.Data, fmt.Appendf(nil, "PQ-Id: %s\nPQ-Fence: 1\nPQ-Ack: pq.jobs.ack.c.%s\n", id, id), nil)
	}
	return m
}

// consumes runs a Consume at the desk.
func (d *desk) consumes(t *testing.T, handle client.Handler, o client.ConsumeOptions) (c *client.Client, stop func()) {
	t.Helper()
	c = d.client(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Queue("jobs").Consume(ctx, handle, o) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("consume ended with %v", err)
		}
	})
	t.Cleanup(stop)
	return c, stop
}

// asked takes requests until workers have asked for n items.
func (d *desk) asked(t *testing.T, n int) (pops []*nats.Msg) {
	t.Helper()
	for n > 0 {
		m := d.next(t)
		pops = append(pops, m)
		n -= asksFor(t, m)
	}
	if n < 0 {
		t.Errorf("asked for %d items more than there are idle workers", -n)
	}
	return pops
}

// Idle workers ask together, in one room. Those for whom there is no item ask again.
func TestIdleWorkersAskTogether(t *testing.T) {
	t.Parallel()
	const workers = 40
	d := openDesk(t)
	busy := make(chan struct{})
	_, stop := d.consumes(t, func(context.Context, *client.Item) error {
		<-busy
		return nil
	}, client.ConsumeOptions{Workers: workers})
	pops := d.asked(t, workers)
	if len(pops) > 16 {
		t.Errorf("%d workers asked by %d messages", workers, len(pops))
	}
	room, _, _ := strings.Cut(strings.TrimPrefix(pops[0].Reply, "_INBOX."), ".")
	atOnce := 0
	for _, m := range pops {
		if !waitSubject.MatchString(m.Reply) {
			atOnce++
		}
		if !strings.HasPrefix(m.Reply, "_INBOX."+room) {
			t.Errorf("a reply subject is %s", m.Reply)
		}
	}
	if atOnce != 1 {
		t.Errorf("%d pops do not wait, expected the first one alone", atOnce)
	}
	largest := slices.MaxFunc(pops, func(a, b *nats.Msg) int { return asksFor(t, a) - asksFor(t, b) })
	n := asksFor(t, largest)
	d.answer(t, largest, gives(t, largest, "a"))
	if again := d.next(t); asksFor(t, again) != n-1 {
		t.Errorf("one of %d got an item, and %d ask again", n, asksFor(t, again))
	}
	close(busy)
	settlement, next := d.next(t), d.next(t)
	d.answer(t, settlement, emptyAnswer())
	if settlement.Subject != "pq.jobs.ack.c.a" || asksFor(t, next) != 1 {
		t.Errorf("%s and a pop for %d followed", settlement.Subject, asksFor(t, next))
	}
	stop()
}

// One failure of a pop that several workers share is told once.
func TestSharedFailureIsToldOnce(t *testing.T) {
	t.Parallel()
	const workers = 40
	d := openDesk(t)
	var told atomic.Int64
	_, stop := d.consumes(t, nil, client.ConsumeOptions{Workers: workers, OnError: func(*client.Item, error) { told.Add(1) }})
	pops := d.asked(t, workers)
	for _, m := range pops {
		d.answer(t, m, failure("500", ""))
	}
	d.next(t) // after a pause
	stop()
	if n := told.Load(); n < 1 || n > int64(len(pops)) {
		t.Errorf("%d pops failed, and OnError was called %d times", len(pops), n)
	}
}

// The lease of an item that waits for the settlement of the one before is extended.
func TestNextItemIsHeldDuringSettlement(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	handled := make(chan *nats.Msg, 10)
	_, stop := d.consumes(t, func(_ context.Context, item *client.Item) error {
		handled <- &nats.Msg{Data: []byte(item.ID)}
		return nil
	}, client.ConsumeOptions{Lease: 3 * time.Second})
	d.answer(t, d.next(t), leasedItem("a", "1", "a"))
	var settlement *nats.Msg
	for held := false; !held || settlement == nil; {
		switch m := d.next(t); {
		case strings.HasSuffix(m.Subject, ".pop.min"):
			d.answer(t, m, leasedItem("b", "1", "b"))
		case string(m.Data) == protocol.SettleAck:
			settlement = m
		default:
			if string(m.Data) != protocol.SettleProgress {
				t.Fatalf("%s got %q, expected an extension", m.Subject, m.Data)
			}
			held = held || strings.HasSuffix(m.Subject, ".b")
			d.answer(t, m, emptyAnswer())
		}
	}
	if first := <-handled; string(first.Data) != "a" || len(handled) > 0 {
		t.Errorf("%s was handled, and %d others", first.Data, len(handled))
	}
	d.answer(t, settlement, emptyAnswer())
	if next := arrives(t, "the next item", handled); string(next.Data) != "b" {
		t.Errorf("%s was handled next", next.Data)
	}
	for acknowledged := false; !acknowledged; {
		if m := d.next(t); strings.Contains(m.Subject, ".ack.") {
			acknowledged = string(m.Data) == protocol.SettleAck
			d.answer(t, m, emptyAnswer())
		}
	}
	stop()
}

// No handler begins with an item whose lease was lost meanwhile.
func TestLeaseLostDuringSettlement(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.push(t, "x")
	item, err := w.queue.Pop(t.Context(), client.Min, client.Lease(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	var told error
	item.BeginWithoutLease(func(context.Context, *client.Item) error {
		t.Error("the handler began")
		return nil
	}, func(_ *client.Item, err error) { told = err })
	if !errors.Is(told, client.ErrLeaseLost) {
		t.Errorf("OnError got %v", told)
	}
}

// The request for the next item overtakes the settlement of the one before, which keeps its key. That nothing is
// there then is not the end.
func TestStopWhenEmptyOneKeyInOrder(t *testing.T) {
	t.Parallel()
	t.Run("the pop overtakes", func(t *testing.T) {
		t.Parallel()
		d := openDesk(t)
		var handled []string
		c := d.client(t)
		ended := make(chan error, 1)
		go func() {
			ended <- c.Queue("jobs").Consume(t.Context(), func(_ context.Context, item *client.Item) error {
				handled = append(handled, item.ID)
				return nil
			}, client.ConsumeOptions{StopWhenEmpty: true})
		}()
		for _, id := range []string{"a", "b"} {
			d.answer(t, d.next(t), leasedItem(id, "1", id))
			settlement, pop := d.next(t), d.next(t)
			if !strings.Contains(settlement.Subject, ".ack.") || !strings.HasSuffix(pop.Subject, ".pop.min") {
				t.Fatalf("after an item came %s and %s", settlement.Subject, pop.Subject)
			}
			d.answer(t, pop, failure("404", "blocked"))
			d.answer(t, settlement, emptyAnswer())
		}
		d.answer(t, d.next(t), failure("404", "empty"))
		if err := <-ended; err != nil || !slices.Equal(handled, []string{"a", "b"}) {
			t.Errorf("%v; handled %q", err, handled)
		}
	})
	t.Run("many workers", func(t *testing.T) {
		t.Parallel()
		const n = 20
		w := start(t)
		if _, err := w.queue.Configure(t.Context(), client.ConfigChange{KeyOrder: new(true)}); err != nil {
			t.Fatal(err)
		}
		var want, handled []string
		for i := range n {
			want = append(want, fmt.Sprint(i))
			w.push(t, want[i], client.Key("k"))
		}
		err := w.queue.Consume(t.Context(), func(_ context.Context, item *client.Item) error {
			handled = append(handled, string(item.Payload)) // one at a time
			return nil
		}, client.ConsumeOptions{Workers: 4, StopWhenEmpty: true})
		if err != nil || !slices.Equal(handled, want) {
			t.Errorf("%v; handled %q", err, handled)
		}
	})
}

func TestConsumeEndsWithAsksUnderWay(t *testing.T) {
	t.Parallel()
	t.Run("nobody listens any more", func(t *testing.T) {
		t.Parallel()
		const workers = 40
		d := openDesk(t)
		_, stop := d.consumes(t, func(context.Context, *client.Item) error {
			t.Error("a handler began")
			return nil
		}, client.ConsumeOptions{Workers: workers})
		pops := d.asked(t, workers)
		largest := slices.MaxFunc(pops, func(a, b *nats.Msg) int { return asksFor(t, a) - asksFor(t, b) })
		w := waiting{nc: d.nc}
		if n := asksFor(t, largest); n < 2 {
			t.Fatalf("no two workers asked together")
		}
		stop()
		w.gone(t, largest.Reply)
	})
	t.Run("the limit holds", func(t *testing.T) {
		t.Parallel()
		w := start(t)
		for range 30 {
			w.push(t, "x")
		}
		var handled atomic.Int64
		err := w.queue.Consume(t.Context(), func(context.Context, *client.Item) error {
			handled.Add(1)
			return nil
		}, client.ConsumeOptions{Workers: 8, Limit: 13})
		if err != nil || handled.Load() != 13 {
			t.Errorf("%v; %d were handled", err, handled.Load())
		}
		if info, err := w.queue.Info(t.Context()); err != nil || info.Ready != 17 || info.Leased != 0 {
			t.Errorf("%+v, %v", info, err)
		}
	})
	t.Run("none for a busy worker", func(t *testing.T) {
		t.Parallel()
		const workers = 8
		w := start(t)
		for range 30 {
			w.push(t, "x")
		}
		var began sync.WaitGroup
		began.Add(workers)
		busy := make(chan struct{})
		var once sync.Once
		stop := w.consume(t, func(context.Context, *client.Item) error {
			select {
			case <-busy:
			default:
				began.Done()
				<-busy
			}
			return nil
		}, client.ConsumeOptions{Workers: workers, Lease: time.Hour})
		defer once.Do(func() { close(busy) })
		began.Wait()
		if info, err := w.queue.Info(t.Context()); err != nil || info.Leased != workers {
			t.Errorf("%+v, %v: expected %d leases", info, err, workers)
		}
		once.Do(func() { close(busy) })
		w.await(t, "jobs", isEmpty)
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
