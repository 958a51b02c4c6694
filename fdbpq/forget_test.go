package fdbpq_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// A key that waits for a token is looked at when it has one, also if nobody pops meanwhile.
// After a purge nothing is left of it.
func TestWaitsEndWithoutPops(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for _, purged := range []bool{false, true} {
			f.configure("q", `{"key_rate":"1/1h"}`)
			f.keyed("q", "a", 0, 3)
			f.popped("q", 1)
			if popped := f.pop("q", fdbpq.Min, 1); popped.Reason != fdbpq.ReasonBlocked || len(f.rows("kw")) != 1 {
				t.Fatalf("%s, %d keys wait", popped.Reason, len(f.rows("kw")))
			}
			if purged {
				f.purge("q")
				f.configure("q", `{"key_rate":""}`)
			}
			for range 2 {
				f.pass(2 * time.Hour)
				f.sweep()
			}
			if n := len(f.rows("kw")) + len(f.rows("kt")); n > 0 {
				t.Errorf("purged %t: %d rows of a key are left that waits for nothing", purged, n)
			}
			f.sound()
			if !purged {
				f.takesNow("q", 1, "a1")
			}
			f.delete("q")
			f.collectGarbage()
		}
	})
}

// A key that is given its token back does not wait for the next one, although nobody pops.
func TestReturnedTokenEndsWait(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"key_rate":"1/1h"}`)
		f.keyed("q", "a", 0, 2)
		held := *f.leaseOne("q", time.Hour).Lease
		if popped := f.pop("q", fdbpq.Min, 1); popped.Reason != fdbpq.ReasonBlocked || len(f.rows("kw")) != 1 {
			t.Fatalf("%s, %d keys wait", popped.Reason, len(f.rows("kw")))
		}
		f.update(func(tx kv.Tx) error {
			_, err := f.Queue("q").Return(tx, held)
			return err
		})
		f.pass(3 * time.Minute)
		f.sweep()
		if n := len(f.rows("kw")) + len(f.rows("kt")); n > 0 {
			t.Errorf("%d rows of a key are left that waits for nothing", n)
		}
		f.sound()
		f.takesNow("q", 1, "a0")
	})
}

// A sweep that forgets what it has seen of a key forgets nothing that came meanwhile.
func TestForgetBesideLease(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		other := f.another(0)
		f.configure("q", `{"key_order":true}`)
		f.keyed("q", "a", 0, 3)
		s := fences{f: f, key: "a"}
		s.done(f)
		together(time.Minute, f, other)
		before := s.last
		f.beside(func() {
			f.clock.advance(time.Hour) // which nobody has written
			s.done(other)
		})
		f.sweep()
		if s.last == before {
			t.Fatal("the sweep did nothing")
		}
		f.sound()
		s.done(f.next(-time.Hour))
	})
}

// However many buckets are not full, a timer looks at a bounded number, and those that are
// full are forgotten in the end.
func TestManyBucketsAreForgotten(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"key_rate":"2/10h"}`)
		const keys = 600
		for i := range keys {
			name := fmt.Sprintf("key %03d", i)
			f.push("q", fdbpq.NewItem{Key: name}, fdbpq.NewItem{Key: name})
			if i >= keys-50 {
				f.setKey("q", name, `{"rate":"2/1s"}`)
			}
		}
		for n := 0; n < 2*keys; {
			n += len(f.pop("q", fdbpq.Min, 200).Items)
		}
		if n := len(f.rows("kt")); n < keys {
			t.Fatalf("%d keys owe tokens", n)
		}
		sweeps := 0
		for range 10 { // minutes: 256 buckets in each
			f.pass(time.Minute)
			for {
				swept, err := f.Sweep(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if swept.Timers == 0 {
					break
				}
				sweeps++
			}
		}
		if n := len(f.rows("kt")); n > keys-50+1 || sweeps > 12 {
			t.Errorf("%d keys owe tokens after %d sweeps, expected those whose buckets are not full", n, sweeps)
		}
		f.pass(20 * time.Hour)
		for range 5 {
			f.sweep()
			f.pass(2 * time.Minute)
		}
		if n := len(f.rows("kt")); n > 0 {
			t.Errorf("%d full buckets are kept", n)
		}
		f.sound()
	})
}
