package fdbpq_test

import (
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/testkit/fault"
)

// Unknown results of each kind, in each operation, do it once.
func TestUnknownResults(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		other := f.another(0)
		for _, kind := range []fault.Kind{fault.UnknownNever, fault.UnknownDone, fault.UnknownLate} {
			queue := kind.String()
			fail := func() { f.db.FailNext(kind) }
			after := func(what string, ready, leased int64) {
				t.Helper()
				f.db.Release()
				if n := other.counts(queue); n.Ready != ready || n.Leased != leased {
					t.Errorf("%v in a %s: %d items ready and %d leased, expected %d and %d", kind, what, n.Ready, n.Leased, ready, leased)
				}
			}
			fail()
			f.pushed(queue, 0, "one")
			after("push", 1, 0)
			f.pushed(queue, 0, "two", "three")
			fail()
			if got := payloads(f.pop(queue, fdbpq.Min, 1).Items); len(got) != 1 || got[0] != "one" {
				t.Errorf("took %q", got)
			}
			after("pop", 2, 0)
			fail()
			item := f.leaseOne(queue, time.Minute)
			after("lease", 1, 1)
			if item.Deliveries != 1 || item.Lease.Fence != 1 {
				t.Errorf("%v in a lease: delivery %d, fence %d", kind, item.Deliveries, item.Lease.Fence)
			}
			fail()
			var extended fdbpq.Settled
			f.update(func(tx kv.Tx) (err error) {
				extended, err = f.Queue(queue).Extend(tx, *item.Lease, time.Hour)
				return err
			})
			after("extension", 1, 1)
			fail()
			if err := f.ack(*extended.Lease); err != nil {
				t.Errorf("%v in an acknowledgement: %v", kind, err)
			}
			after("acknowledgement", 1, 0)
			fail()
			item = f.leaseOne(queue, time.Minute)
			if err := f.nack(*item.Lease, 0); err != nil {
				t.Errorf("%v in a nack: %v", kind, err)
			}
			after("nack", 1, 0)
		}
	})
}
