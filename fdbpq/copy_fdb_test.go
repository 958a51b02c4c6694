//go:build fdb

package fdbpq_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	apple "github.com/apple/foundationdb/bindings/go/src/fdb"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/fdb"
	"github.com/pqbridge/pqbridge/internal/storecheck"
	"github.com/pqbridge/pqbridge/internal/testkit/fdbtest"
)

// A copy of a store's rows as of one moment, such as FoundationDB's backup
// makes, is that store: items, leases and remembered ids.
func TestCopyOfOneMoment(t *testing.T) {
	store, raw := besideRecipe(t)
	pushOurs(t, store, 5, "b", "c")
	var lease fdbpq.Lease
	once := fdbpq.NewItem{Payload: []byte("a"), Priority: 1, HasPriority: true, MsgID: "once"}
	update := func(store *fdbpq.Store, fn func(kv.Tx) error) {
		t.Helper()
		session := store.Session()
		defer session.Release()
		if err := session.Update(t.Context(), fn); err != nil {
			t.Fatal(err)
		}
	}
	update(store, func(tx kv.Tx) error {
		_, err := store.Queue("q").Push(tx, once)
		return err
	})
	update(store, func(tx kv.Tx) error {
		popped, err := store.Queue("q").Lease(tx, fdbpq.Selection{Limit: 1}, time.Hour)
		if err == nil {
			lease = *popped.Items[0].Lease
		}
		return err
	})

	prefix := fdbtest.Prefix()
	_, err := raw.db.Transact(func(tr apple.Transaction) (any, error) {
		all, err := apple.PrefixRange(raw.root.Bytes())
		if err != nil {
			return nil, err
		}
		rows, err := tr.GetRange(all, apple.RangeOptions{}).GetSliceWithError()
		for _, row := range rows {
			tr.Set(apple.Key(append(bytes.Clone(prefix), row.Key[len(raw.root.Bytes()):]...)), row.Value)
		}
		return nil, err
	})
	if err != nil {
		t.Fatal(err)
	}
	db, err := fdb.Open(fdbtest.Shared(t).File, fdb.Options{Prefix: prefix, OpenTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	restored, err := fdbpq.Open(t.Context(), db, fdbpq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if restored.ID() != store.ID() {
		t.Error("the copy is another store")
	}
	q := restored.Queue("q")
	update(restored, func(tx kv.Tx) error {
		pushed, err := q.Push(tx, once)
		if err == nil && !pushed[0].Duplicate {
			t.Error("the copy has forgotten a message id")
		}
		return err
	})
	update(restored, func(tx kv.Tx) error {
		_, err := q.Ack(tx, lease)
		return err
	})
	if got := popOurs(t, restored, fdbpq.Min, 10); fmt.Sprint(got) != "[b c]" {
		t.Errorf("took %q from the copy", got)
	}
	if problems, err := storecheck.Check(t.Context(), restored); err != nil || len(problems) > 0 {
		t.Errorf("check: %v %v", problems, err)
	}
}
