package fdbpq_test

import (
	"context"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// A pop that clears a row which leads to nothing does not clear the one that an item writes
// which comes back to the same place, also where no leases are counted.
func TestStaleRowBesideItemThatReturns(t *testing.T) {
	t.Parallel()
	for _, config := range []string{`{}`, `{"key_rate":"100/1s"}`, `{"fair":"priority"}`, `{"key_limit":3}`} {
		eachEngine(t, func(t *testing.T, open func() kv.DB) {
			f := openFixture(t, open)
			other := f.another(0)
			f.configure("q", config)
			f.setKey("q", "z", `{"weight":2}`)
			f.keyed("q", "a", 5, 1)
			var leased fdbpq.Item
			f.beside(func() { leased = other.leaseOne("q", time.Hour) })
			f.setKey("q", "a", `{"weight":3}`) // leaves a row of the item that is leased
			f.beside(func() {
				if err := other.nack(*leased.Lease, 0); err != nil {
					t.Error(err)
				}
			})
			if taken := f.lease("q", fdbpq.Min, 1, time.Hour); len(taken.Items) == 0 {
				f.takes("q", 1, "a0")
			}
			f.sound()
		})
	}
}

// A process whose time is ahead does not clear the row of a key that waits for a token, while
// one whose time is behind writes it again.
func TestKeyWaitsBesideSlowClock(t *testing.T) {
	t.Parallel()
	for _, config := range []string{`{"key_rate":"1/10s"}`, `{"key_rate":"1/10s","fair":"priority"}`} {
		eachEngine(t, func(t *testing.T, open func() kv.DB) {
			f := openFixture(t, open)
			lag := time.Duration(0)
			options := f.clock.options(0)
			elapsed := options.Elapsed
			options.Elapsed = func() time.Duration { return elapsed() - lag }
			options.Wait = func(ctx context.Context, d time.Duration) error {
				f.clock.advance(d)
				return f.heartbeat.Beat(ctx)
			}
			other := f.opened(options)
			lag = 500 * time.Millisecond
			f.configure("q", config)
			ids := f.keyed("q", "a", 5, 2)
			leased := f.leaseOne("q", time.Hour)
			f.lease("q", fdbpq.Min, 1, time.Hour) // its next item waits for a token
			f.remove("q", ids[1])
			lag = 0
			f.pass(9700 * time.Millisecond)
			lag = 500 * time.Millisecond
			differ := false
			for range 100 {
				f.clock.advance(30 * time.Millisecond)
				if differ = f.key("q", "a").Tokens != other.key("q", "a").Tokens; differ {
					break
				}
			}
			if !differ {
				t.Fatal("both processes see the same tokens")
			}
			f.beside(func() {
				if err := other.nack(*leased.Lease, 0); err != nil {
					t.Error(err)
				}
				other.lease("q", fdbpq.Min, 1, time.Hour)
			})
			taken := f.lease("q", fdbpq.Min, 1, time.Hour).Items
			f.pass(time.Minute)
			if len(taken) == 0 {
				f.takes("q", 1, "a0")
			}
			f.sound()
		})
	}
}

// A push, and a pop that finds the key without room, run beside whoever gives the key room.
// The next pop finds the item that was pushed.
func TestPushAndPopBesideRoomForAKey(t *testing.T) {
	t.Parallel()
	ack := func(f *fixture, lease fdbpq.Lease) error { return f.ack(lease) }
	for name, c := range map[string]struct {
		config, key string
		room        func(*fixture, fdbpq.Lease) error
	}{
		"acknowledged, key_order":    {`{"key_order":true}`, "", ack},
		"acknowledged, key_limit":    {`{"key_limit":1}`, "", ack},
		"acknowledged, fair":         {`{"key_limit":1,"fair":"priority"}`, "", ack},
		"acknowledged, limit of key": {`{}`, `{"limit":1}`, ack},
		"removed": {`{"key_limit":1}`, "", func(f *fixture, lease fdbpq.Lease) error {
			f.remove("q", lease.ID())
			return nil
		}},
		"delayed": {`{"key_limit":1}`, "", func(f *fixture, lease fdbpq.Lease) error { return f.nack(lease, time.Hour) }},
		"higher key_limit": {`{"key_limit":1}`, "", func(f *fixture, _ fdbpq.Lease) error {
			f.configure("q", `{"key_limit":2}`)
			return nil
		}},
		"higher limit of the key": {`{}`, `{"limit":1}`, func(f *fixture, _ fdbpq.Lease) error {
			f.setKey("q", "a", `{"limit":2}`)
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				f := openFixture(t, open)
				other := f.another(0)
				f.configure("q", c.config)
				if c.key != "" {
					f.setKey("q", "a", c.key)
				}
				f.keyed("q", "a", 5, 1)
				leased := f.leaseOne("q", 2*time.Hour)
				f.beside(func() {
					other.push("q", fdbpq.NewItem{Payload: []byte("b0"), Key: "a", Priority: 3, HasPriority: true})
					other.blocked("q")
				})
				if err := c.room(f, *leased.Lease); err != nil {
					t.Fatal(err)
				}
				f.sweep()
				f.takes("q", 1, "b0")
				f.sound()
			})
		})
	}
}

// The same where a pause of the key ends.
func TestPushAndPopBesideEndOfPause(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		other := f.another(0)
		f.setKey("q", "z", `{"limit":2}`)
		f.setKey("q", "a", `{"paused":true}`)
		f.remove("q", f.keyed("q", "z", 9, 1)[0]) // the first item with a key changes the queue
		f.beside(func() {
			other.keyed("q", "a", 5, 1)
			other.lease("q", fdbpq.Min, 1, time.Hour)
		})
		f.setKey("q", "a", `{"paused":null}`)
		f.takes("q", 1, "a0")
		f.sound()
	})
}

// A key whose item is popped and acknowledged in one transaction has its next item found.
func TestPoppedAndAcknowledgedTogether(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"key_limit":1}`)
		f.keyed("q", "a", 5, 2)
		f.together(func(tx kv.Tx, w *fdbpq.Work) error {
			popped, err := w.Queue("q").Lease(tx, fdbpq.Selection{End: fdbpq.Min, Limit: 1}, time.Hour)
			if err == nil {
				_, err = w.Queue("q").Ack(tx, *popped.Items[0].Lease)
			}
			return err
		})
		f.takes("q", 1, "a1")
		f.sound()
	})
}
