package fault

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/internal/testkit/patience"
)

func openBase(t testing.TB, opts local.Options) kv.DB {
	t.Helper()
	opts.FS = vfs.NewMem()
	if opts.Now == nil {
		opts.Now = func() time.Time { return time.Time{} } // nothing grows old on a busy machine
	}
	db, err := local.Open("db", opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil && !errors.Is(err, kv.ErrClosed) {
			t.Errorf("Close: %v", err)
		}
	})
	return db
}

func open(t testing.TB, opts Options) *DB {
	t.Helper()
	return wrap(t, openBase(t, local.Options{}), opts)
}

// wrap closes the store before what is below it is closed, which would wait for
// late commits in vain.
func wrap(t testing.TB, base kv.DB, opts Options) *DB {
	t.Helper()
	db := Wrap(base, opts)
	t.Cleanup(func() {
		if err := db.Close(); err != nil && !errors.Is(err, kv.ErrClosed) {
			t.Errorf("Close: %v", err)
		}
	})
	return db
}

// clock is moved by hand.
type clock struct{ passed atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(0, c.passed.Load()) }
func (c *clock) advance(d time.Duration) { c.passed.Add(int64(d)) }

func set(key, value string) func(kv.Tx) error {
	return func(tx kv.Tx) error { tx.Set([]byte(key), []byte(value)); return nil }
}

func increment(key string) func(kv.Tx) error {
	return func(tx kv.Tx) error {
		value, err := tx.Get([]byte(key))
		tx.Set([]byte(key), kv.EncodeInteger(kv.DecodeInteger(value)+1))
		return err
	}
}

// rows returns all rows of a store as text.
func rows(t testing.TB, db kv.DB) string {
	t.Helper()
	var text []string
	err := db.View(t.Context(), func(r kv.Reader) error {
		pairs, err := r.Range(nil, []byte{0xff}, kv.RangeOptions{Limit: 1000})
		text = nil
		for _, pair := range pairs {
			text = append(text, fmt.Sprintf("%s=%s", pair.Key, pair.Value))
		}
		return err
	})
	if err != nil {
		t.Fatalf("View: %v", err)
	}
	return strings.Join(text, " ")
}

func expectRows(t testing.TB, db kv.DB, want string) {
	t.Helper()
	if got := rows(t, db); got != want {
		t.Errorf("the store holds %q, expected %q", got, want)
	}
}

func expectError(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got error %v, expected %v", err, want)
	}
}

func mustUpdate(t testing.TB, db kv.DB, fn func(kv.Tx) error) {
	t.Helper()
	if err := db.Update(t.Context(), fn); err != nil {
		t.Fatalf("Update: %v", err)
	}
}

func await(t testing.TB, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-patience.Late():
		patience.Fail(t, "waited in vain for %s", what)
	}
}
