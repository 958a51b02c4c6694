package fdbpq_test

import (
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/fdbpq/kv/tuple"
)

// An item that cannot be read any more does not keep the leases of all others
// from running out.
func TestSweepIgnoresDamagedTimers(t *testing.T) {
	t.Parallel()
	db, err := local.Open(t.TempDir(), local.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	clock := newTestClock()
	s, err := fdbpq.Open(t.Context(), db, clock.options(0))
	if err != nil {
		t.Fatal(err)
	}
	for _, queue := range []string{"damaged", "sound"} {
		push(t, s, queue, "a")
		update(t, s, func(tx kv.Tx) error {
			_, err := s.Queue(queue).Lease(tx, fdbpq.Selection{Limit: 1}, time.Minute)
			return err
		})
		clock.advance(time.Second)
	}
	update(t, s, func(tx kv.Tx) error {
		begin, end := tuple.Range(tuple.AppendString(tuple.AppendString(nil, "l"), "damaged"))
		rows, err := tx.Range(begin, end, kv.RangeOptions{Limit: 1})
		if err != nil || len(rows) != 1 {
			t.Fatalf("the leased item's row: %v, %v", rows, err)
		}
		tx.Set(rows[0].Key, []byte("rubbish"))
		return nil
	})
	clock.advance(time.Hour)
	if _, err := s.Sweep(t.Context()); err == nil {
		t.Error("the damage is not reported")
	}
	swept, err := s.Sweep(t.Context())
	if err != nil || swept.Timers != 1 {
		t.Fatalf("sweeping on: %+v, %v; want the other timer handled", swept, err)
	}
	if e := swept.Events; len(e) != 1 || e[0].Type != fdbpq.EventLeaseLost || e[0].Queue != "sound" {
		t.Errorf("events are %+v, want that the lease in queue sound was lost", e)
	}
}
