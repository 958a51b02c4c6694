package bridge_test

import (
	"bytes"
	"context"
	"slices"
	"testing"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// tight is a store whose transactions write less than the items of a large pop have.
type tight struct{ kv.DB }

const tightSize = 3_600_000

func (t tight) Update(ctx context.Context, fn func(kv.Tx) error) error {
	return t.DB.Update(ctx, func(tx kv.Tx) error {
		weighed := &weighed{Tx: tx}
		err := fn(weighed)
		if err == nil && weighed.size > tightSize {
			err = kv.ErrTooLarge
		}
		return err
	})
}

// weighed is a transaction with the size of what it writes.
type weighed struct {
	kv.Tx
	size int
}

func (w *weighed) Set(key, value []byte) {
	w.size += len(value)
	w.Tx.Set(key, value)
}

// A pop that is too large for the store runs alone and takes less, also beside pops that
// wait. They still get the next item.
func TestLargePopBesideWaitingOnes(t *testing.T) {
	t.Parallel()
	for name, earlier := range map[string]bool{"a pop has waited before": true, "none has": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testLargePop(t, earlier)
		})
	}
}

func testLargePop(t *testing.T, before bool) {
	c, db := slowly(t, tight{faulty(t)}, bridge.Options{Exclusive: true})
	const size = 30_000 // larger ones have rows of their own, which a lease leaves as they are
	items := slices.Repeat([]fdbpq.NewItem{{Payload: bytes.Repeat([]byte("x"), size), Priority: 5, HasPriority: true}}, 35)
	for range 4 {
		c.pushPast(items...)
	}
	wait := []string{"PQ-Wait", "100s", "PQ-Band", "7..7"}
	var waiting []answers
	if before {
		waiting = append(waiting, c.send("pq.jobs.pop.min", "", wait...))
		c.waiting("jobs", 1)
	}
	first, all := c.together(db,
		func() answers { return c.send("pq.jobs.pop.min", "", wait...) },
		func() answers { return c.send("pq.jobs.pop.min", "1000", "PQ-Lease", "1h") },
	)
	c.next(first)
	if n := len(c.batch(all[1])); n < 1 || n*size > tightSize {
		t.Errorf("the large pop got %d items", n)
	}
	for _, waits := range append(waiting, all[0]) {
		c.push("pq.jobs.push.7", "late")
		if m := c.next(waits); string(m.Data) != "late" {
			t.Errorf("the pop that waited got %q, %v", m.Data, m.Header)
		}
	}
}
