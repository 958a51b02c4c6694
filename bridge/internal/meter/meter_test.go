package meter_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/bridge/internal/meter"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/internal/testkit/kvtest"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
)

// metered is a store whose transactions have meters.
type metered struct{ kv.DB }

func (m metered) Update(ctx context.Context, fn func(kv.Tx) error) error {
	var of meter.Meter
	defer of.End()
	return m.DB.Update(ctx, func(tx kv.Tx) error { return fn(of.Tx(tx)) })
}

func (m metered) View(ctx context.Context, fn func(kv.Reader) error) error {
	var of meter.Meter
	defer of.End()
	return m.DB.View(ctx, func(r kv.Reader) error { return fn(of.Reader(r)) })
}

// Transactions do the same with a meter as without.
func TestMetered(t *testing.T) {
	nightly.Only(t, "it runs the tests of the engine again")
	t.Parallel()
	kvtest.Run(t, kvtest.Harness{Open: func(t testing.TB) kv.DB { return metered{open(t)} }})
}

func open(t testing.TB) *local.DB {
	t.Helper()
	db, err := local.Open("store", local.Options{FS: vfs.NewMem(), NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// What each read and write counts, and that each transaction, and each run of one, is counted by itself.
func TestRows(t *testing.T) {
	t.Parallel()
	db := open(t)
	defer db.Close()
	key := func(c byte) []byte { return []byte{c} }
	if err := db.Update(t.Context(), func(tx kv.Tx) error {
		tx.Set(key('a'), nil)
		tx.Set(key('b'), bytes.Repeat([]byte("x"), 2000))
		tx.Set(key('c'), nil)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	all := kv.RangeOptions{Limit: 10}
	reads := map[string]struct {
		read func(kv.Reader) error
		rows int
	}{
		"a row":        {func(r kv.Reader) error { _, err := r.Get(key('a')); return err }, 1},
		"no row":       {func(r kv.Reader) error { _, err := r.Get(key('d')); return err }, 1},
		"a large row":  {func(r kv.Reader) error { _, err := r.Get(key('b')); return err }, 1 + 2000/512},
		"several rows": {func(r kv.Reader) error { _, err := r.GetAll([][]byte{key('a'), key('b'), key('d')}); return err }, 3 + 2000/512},
		"a range":      {func(r kv.Reader) error { _, err := r.Range(key('a'), key('z'), all); return err }, 1 + 3 + 2003/512},
		"part of it":   {func(r kv.Reader) error { _, err := r.Range(key('a'), key('z'), kv.RangeOptions{Limit: 1}); return err }, 1 + 1},
		"an empty one": {func(r kv.Reader) error { _, err := r.Range(key('d'), key('z'), all); return err }, 1},
		"two, together": {func(r kv.Reader) error {
			_, err := r.Get(key('a'))
			_, more := r.Get(key('c'))
			return errors.Join(err, more)
		}, 2},
	}
	var m meter.Meter
	for name, c := range reads {
		if err := db.View(t.Context(), func(r kv.Reader) error { return c.read(m.Reader(r)) }); err != nil {
			t.Fatal(err)
		}
		if got := m.End(); got != c.rows {
			t.Errorf("%s: %d rows, expected %d", name, got, c.rows)
		}
		var before int
		if err := db.Update(t.Context(), func(tx kv.Tx) error {
			metered := m.Tx(tx)
			err := c.read(metered)
			before = m.Rows()
			return errors.Join(err, c.read(metered.Snapshot()))
		}); err != nil {
			t.Fatal(err)
		}
		if both := m.Rows(); before != c.rows || both < 2*before || both > 2*before+1 { // its bytes are counted together
			t.Errorf("%s in a transaction: %d rows, and %d with a snapshot, expected %d", name, before, both, c.rows)
		}
	}
	if err := db.Update(t.Context(), func(tx kv.Tx) error {
		tx = m.Tx(tx)
		tx.Set(key('e'), nil)
		tx.Clear(key('e'))
		tx.ClearRange(key('f'), key('g'))
		tx.Add(key('h'), 1)
		tx.Max(key('i'), 1)
		tx.Conflict(key('a'))
		tx.Prefetch(key('a'))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := m.End(); got != 5 {
		t.Errorf("five writes count as %d rows", got)
	}
	if m.Rows() != 0 {
		t.Error("a meter counts on behind the end")
	}
}
