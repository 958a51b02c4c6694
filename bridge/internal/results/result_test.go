package results_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/reads"
	"github.com/pqbridge/pqbridge/bridge/internal/results"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/subjects"
)

// A result that no answer can carry is an error, and stays where it is.
func TestUnshowableResult(t *testing.T) {
	t.Parallel()
	db, err := local.Open(t.TempDir(), local.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	store, err := fdbpq.Open(t.Context(), db, fdbpq.Options{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	w, err := codec.New("pq", nil, func() int64 { return 64 << 10 })
	if err != nil {
		t.Fatal(err)
	}
	w.Limit.Refresh()
	lane := &reads.Lane{Lane: &desk.Lane{Wire: w, Store: store}}
	lane.Begin("jobs")
	for size, code := range map[int]int{1 << 10: 0, 64 << 10: 413} {
		q := results.Result(subjects.Result).(reads.Query)
		if err := db.Update(t.Context(), func(tx kv.Tx) error {
			pushed, err := lane.Queue.Push(tx, fdbpq.NewItem{ResultTTL: time.Hour})
			if err != nil {
				return err
			}
			taken, err := lane.Queue.Lease(tx, fdbpq.Selection{Limit: 1}, time.Hour)
			if err != nil {
				return err
			}
			if _, err := lane.Queue.AckWith(tx, *taken.Items[0].Lease, make([]byte, size)); err != nil {
				return err
			}
			q.Head().Prepare(q, verb, subjects.Subject{Queue: "jobs", Verb: subjects.Result, ID: pushed[0].ID.String()}, new(nats.Msg))
			if f := q.Read(w); f != nil {
				t.Fatal(f)
			}
			return q.Find(&reads.View{Lane: lane, Reader: tx})
		}); err != nil {
			t.Fatal(err)
		}
		f := q.Head().Failure
		if (f != nil) != (code != 0) || f != nil && (f.Code != code || q.Bytes() != 0) || f == nil && q.Bytes() != int64(size) {
			t.Errorf("a result of %d bytes: %v, with %d bytes; expected %d", size, f, q.Bytes(), code)
		}
	}
}
