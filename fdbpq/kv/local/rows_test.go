package local

import (
	"context"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// holds tells whether the cache holds the row for a transaction that begins now.
func (db *DB) holds(key string) bool {
	_, ok := db.rows.get(hashKey([]byte(key)), []byte(key), db.applied.Load().version)
	return ok
}

func TestRowCache(t *testing.T) {
	ctx := context.Background()
	db, err := Open(t.TempDir(), Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	write := func(fn func(kv.Tx)) {
		t.Helper()
		if err := db.Update(ctx, func(tx kv.Tx) error { fn(tx); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	read := func(r kv.Reader, want string) {
		t.Helper()
		for range 3 { // the first two fill the cache
			value, err := r.Get([]byte("row"))
			if err != nil || string(value) != want {
				t.Fatalf("found %q, %v, expected %q", value, err, want)
			}
			clear(value) // it is the reader's
		}
	}
	look := func(want string) {
		t.Helper()
		if err := db.View(ctx, func(r kv.Reader) error { read(r, want); return nil }); err != nil {
			t.Fatal(err)
		}
	}

	write(func(tx kv.Tx) { tx.Set([]byte("row"), []byte("1")) })
	look("1")
	if !db.holds("row") {
		t.Fatal("a row that was read three times is not held")
	}

	// Each kind of write ends it, and is seen by whoever begins after it.
	kinds := []struct {
		write func(kv.Tx)
		value string
	}{
		{func(tx kv.Tx) { tx.Set([]byte("row"), []byte("2")) }, "2"},
		{func(tx kv.Tx) { tx.Clear([]byte("row")) }, ""},
		{func(tx kv.Tx) { tx.Add([]byte("row"), 5) }, string(kv.EncodeInteger(kv.DecodeInteger([]byte("3")) + 5))},
		{func(tx kv.Tx) { tx.ClearRange([]byte("a"), []byte("z")) }, ""},
		{func(tx kv.Tx) { tx.Set([]byte("row"), nil) }, ""},
	}
	for i, kind := range kinds {
		write(kind.write)
		if db.holds("row") {
			t.Fatalf("after write %d the row is still held", i)
		}
		look(kind.value)
		write(func(tx kv.Tx) { tx.Set([]byte("row"), []byte("3")) })
		look("3")
	}
	many := func(tx kv.Tx) { // more than a range is narrowed to
		for i := range 100 {
			tx.Set([]byte{'r', byte(i)}, nil)
		}
	}
	write(many)
	write(func(tx kv.Tx) { tx.ClearRange([]byte("a"), []byte("z")) })
	if db.holds("row") {
		t.Fatal("after its range was cleared the row is still held")
	}
	look("")

	// Who began before a write goes on reading what was there, and does not put
	// it into the cache, nor is it told what others put there.
	write(func(tx kv.Tx) { tx.Set([]byte("row"), []byte("4")) })
	if err := db.View(ctx, func(old kv.Reader) error {
		read(old, "4")
		write(func(tx kv.Tx) { tx.Set([]byte("row"), []byte("5")) })
		read(old, "4")
		if db.holds("row") {
			t.Error("a row is held that was read from an old state")
		}
		look("5")
		read(old, "4")
		look("5")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if !db.holds("row") {
		t.Error("the row is not held, though it has been read again and again")
	}
}
