package fdbpq_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Late acknowledgements, when the item was not popped since, was popped, or was
// acknowledged by another consumer.
func TestLateSettlement(t *testing.T) {
	t.Parallel()
	settle := map[string]func(*fixture, fdbpq.Lease) error{
		"ack": (*fixture).ack,
		"terminate": func(f *fixture, l fdbpq.Lease) error {
			return f.settle(func(tx kv.Tx) (fdbpq.Settled, error) { return f.Queue("q").Terminate(tx, l, "") })
		},
		"nack":       func(f *fixture, l fdbpq.Lease) error { return f.nack(l, 0) },
		"nack later": func(f *fixture, l fdbpq.Lease) error { return f.nack(l, time.Second) },
		"extend": func(f *fixture, l fdbpq.Lease) error {
			return f.settle(func(tx kv.Tx) (fdbpq.Settled, error) { return f.Queue("q").Extend(tx, l, time.Minute) })
		},
		"return": func(f *fixture, l fdbpq.Lease) error {
			return f.settle(func(tx kv.Tx) (fdbpq.Settled, error) { return f.Queue("q").Return(tx, l) })
		},
	}
	remove := func(f *fixture, l fdbpq.Lease) {
		f.remove("q", l.ID())
	}
	purge := func(f *fixture, l fdbpq.Lease) {
		f.update(func(tx kv.Tx) error {
			_, err := f.Queue("q").Purge(tx)
			return err
		})
	}
	for _, c := range []struct {
		what     string
		happened func(*fixture, fdbpq.Lease)
		late     fdbpq.Lost // what acknowledging answers
		inTime   fdbpq.Lost // what the others answer
	}{
		{"nothing", func(*fixture, fdbpq.Lease) {}, "", ""},
		{"ran out, nobody noticed", func(f *fixture, _ fdbpq.Lease) { f.pass(time.Minute) }, "", fdbpq.LostExpired},
		{"ran out", func(f *fixture, _ fdbpq.Lease) { f.pass(time.Minute); f.sweep() }, "", fdbpq.LostExpired},
		{"given back", func(f *fixture, l fdbpq.Lease) { f.nack(l, 0) }, "", fdbpq.LostReturned},
		{"given back for a while", func(f *fixture, l fdbpq.Lease) { f.nack(l, time.Hour) }, "", fdbpq.LostReturned},
		{"received by nobody", func(f *fixture, l fdbpq.Lease) { f.returned(l) }, "", fdbpq.LostReturned},
		{"given back, moved", func(f *fixture, l fdbpq.Lease) {
			f.nack(l, 0)
			f.update(func(tx kv.Tx) error {
				_, err := f.Queue("q").Move(tx, l.ID(), 9)
				return err
			})
		}, "", fdbpq.LostReturned},
		{"leased again", func(f *fixture, _ fdbpq.Lease) { f.pass(time.Minute); f.sweep(); f.leaseOne("q", time.Minute) }, fdbpq.LostTaken, fdbpq.LostTaken},
		{"leased and returned again", func(f *fixture, _ fdbpq.Lease) {
			f.pass(time.Minute)
			f.sweep()
			f.nack(*f.leaseOne("q", time.Minute).Lease, 0)
		}, fdbpq.LostTaken, fdbpq.LostTaken},
		{"taken for good", func(f *fixture, _ fdbpq.Lease) { f.pass(time.Minute); f.sweep(); f.pop("q", fdbpq.Min, 1) }, fdbpq.LostGone, fdbpq.LostGone},
		{"acknowledged", func(f *fixture, l fdbpq.Lease) { f.ack(l) }, fdbpq.LostGone, fdbpq.LostGone},
		{"removed", remove, fdbpq.LostGone, fdbpq.LostGone},
		{"purged", purge, fdbpq.LostGone, fdbpq.LostGone},
		{"deleted and made again", func(f *fixture, l fdbpq.Lease) {
			f.update(func(tx kv.Tx) error {
				_, err := f.Queue("q").Delete(tx)
				return err
			})
			f.pushed("q", 0, "another")
			f.leaseOne("q", time.Minute)
		}, fdbpq.LostGone, fdbpq.LostGone},
	} {
		t.Run(c.what, func(t *testing.T) {
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				f := openFixture(t, open)
				for name, fn := range settle {
					f.pushed("q", 0, name)
					l := *f.leaseOne("q", time.Minute).Lease
					c.happened(f, l)
					before := f.counts("q")
					err := fn(f, l)
					want := c.inTime
					if name == "ack" || name == "terminate" {
						want = c.late
					}
					var lost *fdbpq.LostError
					switch {
					case want == "" && err != nil:
						t.Errorf("%s: %v", name, err)
					case want != "" && (!errors.As(err, &lost) || lost.Reason != want):
						t.Errorf("%s: %v, expected it to be lost: %s", name, err, want)
					case want != "" && f.counts("q") != before:
						t.Errorf("%s answered %v, and did something", name, err)
					}
					purge(f, l)
				}
			})
		})
	}
}

// A delay out of bounds is refused, and the lease goes on.
func TestNackDelayIsBounded(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.pushed("q", 0, "one")
		l := *f.leaseOne("q", time.Hour).Lease
		for _, delay := range []time.Duration{-1, fdbpq.MaxDelay + 1} {
			if err := f.nack(l, delay); err == nil || lost(err) != "" {
				t.Errorf("delay of %v: %v, expected it to be refused", delay, err)
			}
		}
		if err := f.nack(l, fdbpq.MaxDelay); err != nil {
			t.Error(err)
		}
	})
}

// A thousand leases are handed back, reach nobody, or are revoked without counting against the item. Each further one
// that is handed back or reaches nobody is an interruption, and a revocation never is.
func TestReturnsAreBounded(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		id := f.pushed("q", 0, "one")[0]
		end := func(n int) {
			t.Helper()
			lease, err := f.leaseOne("q", time.Hour).Lease, error(nil)
			switch n % 4 {
			case 0:
				_, err = f.returned(*lease)
			case 1:
				err = f.giveBack(*lease, "")
			case 2:
				err = f.giveBack(*lease, "stopped")
			case 3:
				err = f.revoke(id, fdbpq.Revocation{}).Err
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for n := range 1000 {
			end(n)
		}
		if got := f.get("q", id); got.Endings != (fdbpq.Endings{Returns: 750}) || got.Deliveries != 750 {
			t.Fatalf("after 1000 returns: %d deliveries, %+v", got.Deliveries, got.Endings)
		}
		for n := range int64(15) {
			end(int(n % 3))
			end(3)
			if got := f.get("q", id); got.Endings != (fdbpq.Endings{Interruptions: n + 1, Returns: 751 + n}) || got.State != fdbpq.StateReady {
				t.Fatalf("after %d more: %s, %+v", n+1, got.State, got.Endings)
			}
		}
		end(0)
		if dead := f.leaseOne("q-dead", time.Hour).Dead; dead.Reason != fdbpq.DeadInterruptions || dead.Interruptions != 16 || dead.Deliveries != 781 {
			t.Errorf("the dead letter: %+v", dead)
		}
	})
}
