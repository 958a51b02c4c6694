package source_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/internal/named"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/fdbpq/source"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// opened is a store with two sources, of which one is run.
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
	store, err := fdbpq.Open(t.Context(), db, fdbpq.Options{
		Exclusive: true, Elapsed: func() time.Duration { return 0 }, Wall: func() time.Time { return time.Unix(1_800_000_000, 0) },
	})
	if err != nil {
		t.Fatal(err)
	}
	change(t, db, func(tx kv.Tx) error {
		sources := source.New(store)
		for _, name := range []string{"orders", "mails"} {
			s, err := sources.Set(tx, store.Queue("jobs"), name, []byte(`{"remote":"hub","stream":"ORDERS"}`), anything)
			if err != nil {
				return err
			}
			if _, err := sources.Run(tx, &s, source.Run{Runner: "a"}, false); err != nil {
				return err
			}
		}
		return nil
	})
	return store, db
}

func anything(source.Config) error { return nil }

func change(t *testing.T, db kv.DB, fn func(kv.Tx) error) {
	t.Helper()
	if err := db.Update(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

// Each kind of damage is a problem that says what is wrong, and a sound store has none.
func TestCheck(t *testing.T) {
	t.Parallel()
	key := func(space string) []byte {
		return named.Home{Queue: "jobs", Born: 1, Kind: "source"}.Key(space, "orders")
	}
	// elsewhere copies a row to a queue that does not exist.
	elsewhere := func(tx kv.Tx, space string) {
		value, err := tx.Get(key(space))
		if err != nil || value == nil {
			t.Fatalf("%q: %q, %v", space, value, err)
		}
		tx.Set(named.Home{Queue: "other", Born: 1, Kind: "source"}.Key(space, "orders"), value)
	}
	for _, c := range []struct {
		name, says string
		damage     func(tx kv.Tx)
	}{
		{"none", "", func(kv.Tx) {}},
		{"no position", "has no position", func(tx kv.Tx) { tx.Clear(key(layout.SpacePosition)) }},
		{"a position without a definition", "it is of no source", func(tx kv.Tx) {
			tx.Clear(key(layout.SpaceSource))
			tx.Clear(key(layout.SpaceSourceRunner))
		}},
		{"a runner without a definition", "it is of no source", func(tx kv.Tx) {
			tx.Clear(key(layout.SpaceSource))
			tx.Clear(key(layout.SpacePosition))
		}},
		{"no runner", "", func(tx kv.Tx) { tx.Clear(key(layout.SpaceSourceRunner)) }},
		{"a definition of no queue", "of no queue", func(tx kv.Tx) { elsewhere(tx, layout.SpaceSource) }},
		{"a position of no queue", "of no queue", func(tx kv.Tx) { elsewhere(tx, layout.SpacePosition) }},
		{"a runner of no queue", "of no queue", func(tx kv.Tx) { elsewhere(tx, layout.SpaceSourceRunner) }},
		{"a definition of another version", "this program reads 1", func(tx kv.Tx) { tx.Set(key(layout.SpaceSource), tuple.AppendBytes(tuple.AppendInt(nil, 9), nil)) }},
		{"half a position", "row ", func(tx kv.Tx) { tx.Set(key(layout.SpacePosition), tuple.AppendInt(nil, 1)) }},
		{"a position that is exact in another way", "2 where its mark is exact", func(tx kv.Tx) {
			value, err := tx.Get(key(layout.SpacePosition))
			if err != nil {
				t.Fatal(err)
			}
			r := tuple.Read(value)
			version, _ := r.Int(), r.Int()
			tx.Set(key(layout.SpacePosition), append(tuple.AppendInt(tuple.AppendInt(nil, version), 2), r.Rest()...))
		}},
		{"half a runner", "row ", func(tx kv.Tx) { tx.Set(key(layout.SpaceSourceRunner), tuple.AppendInt(nil, 1)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			store, db := opened(t)
			change(t, db, func(tx kv.Tx) error { c.damage(tx); return nil })
			problems, err := source.New(store).Check(t.Context())
			if err != nil || (len(problems) > 0) != (c.says != "") || !strings.Contains(strings.Join(problems, "\n"), c.says) {
				t.Errorf("got %q, %v; expected %q", problems, err, c.says)
			}
		})
	}
}
