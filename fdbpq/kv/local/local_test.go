package local

import (
	"context"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

func openMem(t testing.TB) *DB {
	t.Helper()
	db, err := Open("db", Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil && err != kv.ErrClosed {
			t.Error(err)
		}
	})
	return db
}

func update(t testing.TB, db *DB, fn func(kv.Tx)) {
	t.Helper()
	if err := db.Update(context.Background(), func(tx kv.Tx) error { fn(tx); return nil }); err != nil {
		t.Fatal(err)
	}
}

func TestSmoke(t *testing.T) {
	db := openMem(t)
	for i := range 1000 {
		update(t, db, func(tx kv.Tx) {
			for j := range 10 {
				tx.Set(fmt.Appendf(nil, "q/%05d/%d", i, j), []byte("v"))
			}
			tx.Add([]byte("n"), 10)
		})
	}
	n := 0
	for {
		var got []kv.Pair
		update(t, db, func(tx kv.Tx) {
			var err error
			got, err = tx.Range([]byte("q/"), []byte("q0"), kv.RangeOptions{Limit: 64})
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range got {
				tx.Clear(p.Key)
			}
			tx.Add([]byte("n"), -int64(len(got)))
		})
		for i, p := range got {
			if want := fmt.Sprintf("q/%05d/%d", (n+i)/10, (n+i)%10); string(p.Key) != want {
				t.Fatalf("got %s, want %s", p.Key, want)
			}
		}
		n += len(got)
		if len(got) == 0 {
			break
		}
	}
	if n != 10000 {
		t.Fatal(n)
	}
	update(t, db, func(tx kv.Tx) {
		v, err := tx.Get([]byte("n"))
		if err != nil || kv.DecodeInteger(v) != 0 {
			t.Fatal(v, err)
		}
	})
}
