package fdbpq_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/testkit/patience"
)

// corrections are the settlements that say what a delivery has cost, of an item that costs 10.
var corrections = map[string]func(f *fixture, l fdbpq.Lease) error{
	"acknowledged": (*fixture).ack,
	"failed":       func(f *fixture, l fdbpq.Lease) error { return f.nack(l, 0) },
	"failed, for later": func(f *fixture, l fdbpq.Lease) error {
		return f.nack(l, time.Hour)
	},
	"given up":    (*fixture).terminate,
	"stopped":     func(f *fixture, l fdbpq.Lease) error { return f.giveBack(l, "stopped") },
	"handed over": func(f *fixture, l fdbpq.Lease) error { return f.handOver("next", l, fdbpq.NewItem{}).Err },
	"expired, and acknowledged": func(f *fixture, l fdbpq.Lease) error {
		f.expire(l)
		return f.ack(l)
	},
	"expired, and given up": func(f *fixture, l fdbpq.Lease) error {
		f.expire(l)
		return f.terminate(l)
	},
	"failed, and acknowledged": func(f *fixture, l fdbpq.Lease) error {
		if err := f.nack(l, 0); err != nil {
			return err
		}
		return f.ack(l)
	},
	"failed, and acknowledged with another cost": func(f *fixture, l fdbpq.Lease) error {
		if err := f.nack(spent(&l, 33), 0); err != nil {
			return err
		}
		return f.ack(l)
	},
	"given back, and acknowledged": func(f *fixture, l fdbpq.Lease) error {
		if err := f.giveBack(l, ""); err != nil {
			return err
		}
		f.expectCosts(l.Queue, 100)
		return f.ack(l)
	},
	"unreceived, and acknowledged": func(f *fixture, l fdbpq.Lease) error {
		if _, err := f.returned(l); err != nil {
			return err
		}
		f.expectCosts(l.Queue, 100)
		return f.ack(l)
	},
}

// expire has a lease run out. The rate is slow, so nothing to speak of comes meanwhile.
func (f *fixture) expire(fdbpq.Lease) {
	f.pass(2 * time.Second)
	f.sweep()
}

func TestSettlementsCorrectTheCost(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		n := 0
		for name, settle := range corrections {
			for _, said := range []int64{-1, 0, 4, 10, 25, fdbpq.MaxCost} {
				n++
				queue := fmt.Sprint("q", n)
				f.configure(queue, `{"cost_rate":"100/24h","key_cost_rate":"100/24h","hand_over":"*","max_deliveries":0}`)
				f.costing(queue, "a", 10)
				l, want := *f.leaseOne(queue, time.Second).Lease, int64(100-10)
				f.expectCosts(queue, want)
				if said >= 0 {
					l, want = spent(&l, said), max(100-said, -100)
				}
				if name == "failed, and acknowledged with another cost" && said < 0 {
					want = 100 - 33
				}
				if err := settle(f, l); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if ofQueue, ofKey := f.costs(queue, "a"); ofQueue != want || ofKey != want {
					t.Errorf("an item that was %s, spent %d: the queue has %d tokens, the key %d, expected %d", name, said, ofQueue, ofKey, want)
				}
			}
		}
		f.sound()
	})
}

// A lease that goes on reserves more, and never less: a cost that is sent back from before a raise says nothing.
func TestRaisedCost(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"cost_rate":"100/24h","key_cost_rate":"100/24h"}`)
		f.costing("q", "a", 10, 10)
		l := f.leaseOne("q", time.Hour).Lease
		extend := func(cost int64) (settled fdbpq.Settled) {
			f.must(f.settle(func(tx kv.Tx) (_ fdbpq.Settled, err error) {
				settled, err = f.Queue("q").Extend(tx, spent(l, cost), time.Hour)
				return settled, err
			}))
			return settled
		}
		for _, step := range [...]struct{ said, reserved, left int64 }{{4, 10, 90}, {10, 10, 90}, {25, 10, 75}, {10, 25, 75}, {0, 25, 75}, {150, 25, -50}} {
			if got := extend(step.said).Reserved; got != step.reserved {
				t.Errorf("an extension with %d says that %d were reserved, expected %d", step.said, got, step.reserved)
			}
			f.expectCosts("q", step.left)
		}
		f.must(f.ack(spent(l, 5)))
		f.expectCosts("q", 95)
		l = f.leaseOne("q", time.Hour).Lease
		f.must(f.report13(l))
		f.expectCosts("q", 82)
		f.must(f.ack(*l))
		f.expectCosts("q", 82)
		for _, wrong := range []int64{-1, fdbpq.MaxCost + 1} {
			err := f.fails(func(tx kv.Tx) error {
				_, err := f.Queue("q").Ack(tx, spent(l, wrong))
				return err
			})
			if !errors.Is(err, fdbpq.ErrCost) {
				t.Errorf("a settlement with a cost of %d: %v", wrong, err)
			}
			f.costing("q", "a", 1)
			if p := f.handOver("next", spent(f.leaseOne("q", time.Hour).Lease, wrong), fdbpq.NewItem{}); !errors.Is(p.Err, fdbpq.ErrCost) {
				t.Errorf("a hand-over with a cost of %d: %v", wrong, p.Err)
			}
		}
	})
}

// A refund wakes pops that wait for a token, also where it does not come at once, but sooner than they know.
func TestRefundWakes(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for config, reason := range map[string]fdbpq.Reason{`{"cost_rate":"10/100s"}`: fdbpq.ReasonRate, `{"key_cost_rate":"10/100s"}`: fdbpq.ReasonBlocked} {
			for said, retry := range map[int64]time.Duration{0: 0, 9: 0, 10: 10 * time.Second, 29: 200 * time.Second} {
				queue := fmt.Sprint("q", reason, said)
				f.configure(queue, config)
				f.costing(queue, "a", 30, 1)
				l := f.leaseOne(queue, time.Hour).Lease
				f.limited(queue, reason, 210*time.Second)
				var arrivals *kv.Watch
				f.update(func(tx kv.Tx) error {
					arrivals = f.Queue(queue).Arrivals(tx)
					return nil
				})
				f.must(f.ack(spent(l, said)))
				select {
				case <-arrivals.Done():
				case <-patience.Late():
					t.Errorf("%s, spent %d: no pop that waits was woken", config, said)
				}
				if reason == fdbpq.ReasonBlocked && len(f.rows("kw")) == 0 {
					t.Error("the key does not wait for its old token any more")
				}
				if retry > 0 {
					f.limited(queue, reason, retry)
					f.pass(retry - 1)
					f.limited(queue, reason, 1)
					f.pass(1)
				}
				f.takesNow(queue, 9, "1")
			}
		}
		f.pass(time.Hour)
		f.sweep()
		f.sound()
	})
}
