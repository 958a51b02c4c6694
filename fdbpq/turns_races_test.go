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
