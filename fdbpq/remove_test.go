package fdbpq_test

import (
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Remove says the last priority of an item: of a leased one the one that it was moved to.
func TestRemoveSaysLastPriority(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		ids := f.pushed("q", 3, "leased", "ready")
		f.leaseOne("q", time.Minute)
		for _, id := range ids {
			f.update(func(tx kv.Tx) error {
				q := f.Queue("q")
				if _, err := q.Move(tx, id, 7); err != nil {
					return err
				}
				removed, err := q.Remove(tx, id)
				if err == nil && (!removed.Found || removed.Priority != 7) {
					t.Errorf("removed %+v; expected one of priority 7", removed)
				}
				return err
			})
		}
	})
}
