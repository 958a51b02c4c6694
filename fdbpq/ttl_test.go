package fdbpq_test

import (
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Items past their TTL go wherever they stand, not only at the head.
func TestExpiryBehindTheHead(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.pushed("q", 0, "first")
		f.push("q", fdbpq.NewItem{Payload: []byte("mortal"), TTL: time.Second}, fdbpq.NewItem{Payload: []byte("delayed"), TTL: time.Second, Delay: time.Minute})
		f.pushed("q", 0, "last")
		f.pass(time.Second)
		if events := f.sweep(); len(events) != 2 {
			t.Errorf("two items outlived their TTL, the sweep tells of %v", events)
		}
		if n := f.counts("q"); n.Ready != 2 || n.Delayed != 0 || n.Expiring != 0 {
			t.Errorf("there are %+v", n)
		}
	})
}

// An item whose TTL ends while it is leased stays leased. When the lease ends, in
// whatever way, the item expires at once.
func TestExpiryWhileLeased(t *testing.T) {
	t.Parallel()
	back := map[string]func(f *fixture, l fdbpq.Lease) (fdbpq.Settled, error){
		"nacked":   func(f *fixture, l fdbpq.Lease) (fdbpq.Settled, error) { return f.nacked(l, 0) },
		"delayed":  func(f *fixture, l fdbpq.Lease) (fdbpq.Settled, error) { return f.nacked(l, time.Second) },
		"returned": (*fixture).returned,
	}
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for what, fn := range back {
			f.push("q", fdbpq.NewItem{TTL: 10 * time.Second})
			item := f.leaseOne("q", time.Minute)
			f.pass(20 * time.Second)
			if events := f.sweep(); len(events) > 0 {
				t.Fatalf("while it is leased: %v", events)
			}
			settled, err := fn(f, *item.Lease)
			if err != nil || len(settled.Events) != 1 || settled.Events[0].Type != fdbpq.EventExpired {
				t.Errorf("an item past its TTL that is %s: %v, %v", what, settled.Events, err)
			}
			if n := f.counts("q"); n.Length() != 0 {
				t.Errorf("an item past its TTL that is %s is still there: %+v", what, n)
			}
		}
	})
}

// Before the sweep comes, what is past its TTL is not handed out, and a take
// that finds nothing else says so.
func TestExpiredIsNotHandedOut(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.fill("q", 600, fdbpq.NewItem{TTL: time.Second})
		f.pushed("q", 5, "good")
		f.pass(time.Second)
		f.view(func(r kv.Reader) error {
			found, err := f.Queue("q").Peek(r, fdbpq.Selection{Limit: 1})
			if len(found.Items) != 1 || string(found.Items[0].Payload) != "good" {
				t.Errorf("a peek finds %q", payloads(found.Items))
			}
			return err
		})
		events := 0
		for rounds := 1; ; rounds++ {
			popped := f.pop("q", fdbpq.Min, 1)
			events += len(popped.Events)
			if !popped.More {
				if got := payloads(popped.Items); len(got) != 1 || got[0] != "good" || events != 600 || rounds != 3 {
					t.Errorf("round %d took %q, after %d events", rounds, got, events)
				}
				break
			}
		}
	})
}
