package local

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/testkit/patience"
)

// Transactions do not grow old unless a test moves the clock: a machine with
// more to do than this may keep one waiting for longer than it may take.
func mustOpen(t testing.TB, opts Options) *DB {
	t.Helper()
	if opts.Now == nil {
		opts.Now = stopped
	}
	db, err := Open("db", opts)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func stopped() time.Time { return time.Time{} }

// openMem opens a store in memory and closes it after the test.
func openMem(t testing.TB, opts Options) *DB {
	t.Helper()
	if opts.FS == nil {
		opts.FS = vfs.NewMem()
	}
	db := mustOpen(t, opts)
	t.Cleanup(func() {
		if err := db.Close(); err != nil && !errors.Is(err, kv.ErrClosed) {
			t.Error(err)
		}
	})
	return db
}

func set(key, value string) func(kv.Tx) error {
	return func(tx kv.Tx) error {
		tx.Set([]byte(key), []byte(value))
		return nil
	}
}

func mustUpdate(t testing.TB, db *DB, fn func(kv.Tx) error) {
	t.Helper()
	if err := db.Update(context.Background(), fn); err != nil {
		t.Fatal(err)
	}
}

func mustGet(t testing.TB, db *DB, key string) string {
	t.Helper()
	var value []byte
	err := db.View(context.Background(), func(r kv.Reader) (err error) {
		value, err = r.Get([]byte(key))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(value)
}

// await spins until something is true that is bound to happen.
func await(t testing.TB, what string, isTrue func() bool) {
	t.Helper()
	for deadline := patience.Begin(); !isTrue(); runtime.Gosched() {
		if deadline.Over() {
			patience.Fail(t, "waited in vain for %s", what)
		}
	}
}

func asTx(t kv.Tx) *tx { return t.(*tx) }
