package schedule_test

import (
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// opened is a store with schedules of two queues, whose clocks show what a test lets pass.
func opened(t *testing.T) (*fdbpq.Store, kv.DB, *atomic.Int64) {
	t.Helper()
	passed := new(atomic.Int64)
	elapsed := func() time.Duration { return time.Duration(passed.Load()) }
	db, err := local.Open(filepath.Join(t.TempDir(), "data"), local.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	store, err := fdbpq.Open(t.Context(), db, fdbpq.Options{
		Exclusive: true, Elapsed: elapsed, Wall: func() time.Time { return time.Unix(1_800_000_000, 0).Add(elapsed()) },
	})
	if err != nil {
		t.Fatal(err)
	}
	change(t, db, func(tx kv.Tx) error {
		for _, name := range []string{"jobs/daily", "jobs/often", "mails/daily"} {
			queue, own, _ := strings.Cut(name, "/")
			if _, err := schedule.New(store).Set(tx, store.Queue(queue), own, []byte(`{"spec":"@every 1h"}`), &schedule.Item{Payload: []byte("a")}); err != nil {
				return err
			}
		}
		return nil
	})
	return store, db, passed
}

func change(t *testing.T, db kv.DB, fn func(kv.Tx) error) {
	t.Helper()
	if err := db.Update(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

// Each kind of damage is a problem that says what is wrong, and a sound store has none.
func TestCheck(t *testing.T) {
	t.Parallel()
	key := func(tx kv.Tx, space, queue, name string) []byte {
		begin, end := tuple.Range(layout.QueueRow(space, queue))
		rows, err := tx.Range(begin, end, kv.RangeOptions{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			if strings.HasSuffix(string(row.Key), string(tuple.AppendString(nil, name))) {
				return row.Key
			}
		}
		t.Fatalf("%s/%s has no row in %q", queue, name, space)
		return nil
	}
	index := func(tx kv.Tx) []byte {
		rows, err := tx.Range(layout.Row(layout.SpaceDue), append(layout.Row(layout.SpaceDue), 0xff), kv.RangeOptions{Limit: 1})
		if err != nil || len(rows) == 0 {
			t.Fatalf("%d index rows, %v", len(rows), err)
		}
		return rows[0].Key
	}
	counts := func(tx kv.Tx) []byte {
		begin, end := tuple.Range(layout.QueueRow(layout.SpaceSchedules, "jobs"))
		rows, err := tx.Range(begin, end, kv.RangeOptions{Limit: 1})
		if err != nil || len(rows) == 0 {
			t.Fatalf("%d counts, %v", len(rows), err)
		}
		return rows[0].Key
	}
	// elsewhere copies a row to a queue that does not exist.
	elsewhere := func(tx kv.Tx, space string, key []byte) {
		value, err := tx.Get(key)
		if err != nil {
			t.Fatal(err)
		}
		tx.Set(append(layout.QueueRow(space, "other"), key[len(layout.QueueRow(space, "mails")):]...), value)
	}
	for says, damage := range map[string]func(tx kv.Tx){
		"":              func(kv.Tx) {},
		"damaged index": func(tx kv.Tx) { tx.Set(append(layout.Row(layout.SpaceDue), 0x15, 0x01), nil) },
		"is missing":    func(tx kv.Tx) { tx.Clear(index(tx)) },
		"at another time": func(tx kv.Tx) {
			tx.Clear(key(tx, layout.SpaceSchedule, "jobs", "often"))
			tx.Clear(key(tx, layout.SpaceProgress, "jobs", "often"))
		},
		"has no progress":         func(tx kv.Tx) { tx.Clear(key(tx, layout.SpaceProgress, "jobs", "often")) },
		"progress of no schedule": func(tx kv.Tx) { tx.Clear(key(tx, layout.SpaceSchedule, "jobs", "often")) },
		"counts of schedules are": func(tx kv.Tx) { tx.Clear(counts(tx)) },
		"there are none": func(tx kv.Tx) {
			tx.Clear(key(tx, layout.SpaceSchedule, "mails", "daily"))
			tx.Clear(key(tx, layout.SpaceProgress, "mails", "daily"))
		},
		"of no queue": func(tx kv.Tx) { elsewhere(tx, layout.SpaceSchedule, key(tx, layout.SpaceSchedule, "mails", "daily")) },
		"this program reads": func(tx kv.Tx) {
			tx.Set(key(tx, layout.SpaceProgress, "jobs", "often"), tuple.AppendInt(tuple.AppendInt(nil, 9), 0))
		},
	} {
		t.Run(says, func(t *testing.T) {
			store, db, _ := opened(t)
			change(t, db, func(tx kv.Tx) error { damage(tx); return nil })
			problems, err := schedule.New(store).Check(t.Context())
			if err != nil || (len(problems) > 0) != (says != "") || !strings.Contains(strings.Join(problems, "\n"), says) {
				t.Errorf("got %q, %v; expected %q", problems, err, says)
			}
		})
	}
}
