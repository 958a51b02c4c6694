package link_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/fdbpq/link"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// began is when the link "hub" made its batch.
var began = time.Unix(1_800_000_000, 0)

// opened is a store in which the link "hub" of the queue "orders" holds two of four items, and a program holds one. An earlier
// batch of the link "old" was purged.
func opened(t *testing.T) (*fdbpq.Store, kv.DB) {
	t.Helper()
	db, err := local.Open(filepath.Join(t.TempDir(), "data"), local.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	wall := began.Add(-2 * time.Second)
	store, err := fdbpq.Open(t.Context(), db, fdbpq.Options{Exclusive: true, Wall: func() time.Time { return wall }})
	if err != nil {
		t.Fatal(err)
	}
	links := link.New(store)
	gives := func(queue, name string, limit int) {
		wall = wall.Add(time.Second)
		change(t, db, func(tx kv.Tx) error {
			q := store.Queue(queue)
			if _, err := links.Set(tx, q, name, []byte(`{"to":"elsewhere"}`)); err != nil {
				return err
			}
			if _, err := q.Push(tx, make([]fdbpq.NewItem, 4)...); err != nil {
				return err
			}
			given, err := links.Give(tx, q, name, link.Ask{Taker: "elsewhere", Batch: "none", Items: fdbpq.Selection{Limit: limit}})
			if err == nil && given.Total != limit {
				t.Fatalf("given: %+v", given)
			}
			return err
		})
	}
	gives("purged", "old", 3)
	change(t, db, func(tx kv.Tx) error { _, err := store.Queue("purged").Purge(tx); return err })
	gives("orders", "hub", 2)
	change(t, db, func(tx kv.Tx) error {
		popped, _, err := store.Queue("orders").Hold(tx, fdbpq.Selection{Limit: 1}, "a program")
		if err == nil && len(popped.Items) != 1 {
			t.Fatalf("held: %+v", popped)
		}
		return err
	})
	wall = wall.Add(time.Second)
	return store, db
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
	rows := func(tx kv.Tx, space, queue string) []kv.Pair {
		begin, end := tuple.Range(layout.QueueRow(space, queue))
		found, err := tx.Range(begin, end, kv.RangeOptions{Limit: 10})
		if err != nil || len(found) == 0 {
			t.Fatalf("%d rows of %q in %q, %v", len(found), queue, space, err)
		}
		return found
	}
	// elsewhere copies a row to a queue that does not exist.
	elsewhere := func(tx kv.Tx, space string) {
		row := rows(tx, space, "orders")[0]
		tx.Set(append(layout.QueueRow(space, "other"), row.Key[len(layout.QueueRow(space, "orders")):]...), row.Value)
	}
	replace := func(tx kv.Tx, space, from, to string) {
		row := rows(tx, space, "orders")[0]
		changed := bytes.Replace(row.Value, []byte(from), []byte(to), 1)
		if bytes.Equal(changed, row.Value) {
			t.Fatalf("%q is not in %q", from, row.Value)
		}
		tx.Set(row.Key, changed)
	}
	for says, damage := range map[string]func(tx kv.Tx){
		"":                                func(kv.Tx) {},
		`"link:hub", which does not know`: func(tx kv.Tx) { tx.Clear(rows(tx, layout.SpaceOut, "orders")[0].Key) },
		`"link:cub", which does not know`: func(tx kv.Tx) { replace(tx, layout.SpaceLeased, "link:hub", "link:cub") },
		"does not hold the item at {0 ":   func(tx kv.Tx) { tx.Clear(rows(tx, layout.SpaceLeased, "orders")[0].Key) },
		`link "hub" does not hold`:        func(tx kv.Tx) { replace(tx, layout.SpaceLeased, "link:hub", "a worker") },
		"batch of no link":                func(tx kv.Tx) { tx.Clear(rows(tx, layout.SpaceLink, "orders")[0].Key) },
		"of no queue that was born in":    func(tx kv.Tx) { elsewhere(tx, layout.SpaceLink) },
		"of no queue that was born":       func(tx kv.Tx) { elsewhere(tx, layout.SpaceOut) },
		"link has version 9":              func(tx kv.Tx) { replace(tx, layout.SpaceLink, "\x15\x01", "\x15\x09") },
		"has version 9":                   func(tx kv.Tx) { replace(tx, layout.SpaceOut, "\x15\x01", "\x15\x09") },
		"invalid character":               func(tx kv.Tx) { replace(tx, layout.SpaceLink, "{", "[") },
	} {
		t.Run(says, func(t *testing.T) {
			store, db := opened(t)
			change(t, db, func(tx kv.Tx) error { damage(tx); return nil })
			problems, err := link.New(store).Check(t.Context())
			if err != nil || (len(problems) > 0) != (says != "") || !strings.Contains(strings.Join(problems, "\n"), says) {
				t.Errorf("got %q, %v; expected %q", problems, err, says)
			}
			if says == "" {
				if problems, err = store.Check(t.Context()); err != nil || len(problems) > 0 {
					t.Errorf("the store: %q, %v", problems, err)
				}
			}
		})
	}
}
