package local

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
)

// held returns what the cache holds of a row for a transaction that begins now, and
// whether it holds anything.
func (db *DB) held(key string) (value string, ok bool) {
	v, ok := db.rows.get(hashKey([]byte(key)), []byte(key), db.applied.Load().version)
	return string(v), ok
}

func TestRowCache(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	db := openMem(t, Options{NoSync: true})
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

	holds := func(want string, is bool) {
		t.Helper()
		if value, ok := db.held("row"); value != want || ok != is {
			t.Fatalf("the cache has %q, %t, expected %q, %t", value, ok, want, is)
		}
	}

	write(func(tx kv.Tx) { tx.Set([]byte("row"), []byte("1")) })
	holds("", false) // nobody has read it
	look("1")
	holds("1", true)

	// Each kind of write changes or ends it, and later transactions see the write.
	integer := func(n uint64) string { return string(kv.EncodeInteger(n)) }
	three := kv.DecodeInteger([]byte("3"))
	kinds := []struct {
		write func(kv.Tx)
		value string
		held  bool
	}{
		{func(tx kv.Tx) { tx.Set([]byte("row"), []byte("2")) }, "2", true},
		{func(tx kv.Tx) { tx.Clear([]byte("row")) }, "", false},
		{func(tx kv.Tx) { tx.Add([]byte("row"), 5) }, integer(three + 5), true},
		{func(tx kv.Tx) { tx.Max([]byte("row"), 500); tx.Add([]byte("row"), 1) }, integer(501), true},
		{func(tx kv.Tx) { tx.ClearRange([]byte("a"), []byte("z")) }, "", false},
		{func(tx kv.Tx) { tx.Set([]byte("row"), nil) }, "", true},
		{func(tx kv.Tx) { tx.Set([]byte("row"), make([]byte, maxRow)) }, string(make([]byte, maxRow)), false},
	}
	for _, kind := range kinds {
		write(kind.write)
		if kind.held {
			holds(kind.value, true)
		} else {
			holds("", false)
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
	holds("", false)
	look("")

	// A transaction that began before a write reads the old row, does not put it into the
	// cache, and does not read what others put there.
	write(func(tx kv.Tx) { tx.Set([]byte("row"), []byte("4")) })
	if err := db.View(ctx, func(old kv.Reader) error {
		read(old, "4")
		holds("4", true)
		write(func(tx kv.Tx) { tx.Set([]byte("row"), []byte("6")) })
		read(old, "4")
		holds("6", true)
		write(func(tx kv.Tx) { tx.Clear([]byte("row")) })
		write(func(tx kv.Tx) { tx.Set([]byte("row"), []byte("5")) })
		read(old, "4")
		holds("", false) // what an old state has is not put there
		look("5")
		write(func(tx kv.Tx) { tx.Set([]byte("row"), []byte("5")) })
		holds("5", true)
		read(old, "4")
		look("5")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	holds("5", true)
	if err := db.View(ctx, func(old kv.Reader) error {
		read(old, "5")
		write(many)
		write(func(tx kv.Tx) { tx.ClearRange([]byte("a"), []byte("z")) })
		read(old, "5")
		holds("", false)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	look("")
}

// A slot holds one row: the one that was read twice without another in between,
// if it is small.
func TestRowCacheSlot(t *testing.T) {
	t.Parallel()
	var c rowCache
	const hash = 7
	holds := func(key string) bool {
		value, ok := c.get(hash, []byte(key), 1)
		if ok && string(value) != "value of "+key {
			t.Errorf("for %s found %q", key, value)
		}
		return ok
	}
	put := func(key string, hash uint64) { c.put(hash, []byte(key), []byte("value of "+key), 1) }

	put("a", hash)
	if holds("a") {
		t.Error("held after it was read once")
	}
	put("b", hash+rowSlots)
	put("a", hash)
	if holds("a") {
		t.Error("held though another row was read in between")
	}
	put("a", hash)
	if !holds("a") || holds("b") {
		t.Error("expected that a is held, and not taken for b")
	}
	large := strings.Repeat("x", maxRow)
	put(large, hash)
	put(large, hash)
	if holds(large) || !holds("a") {
		t.Error("expected that a large row leaves the slot alone")
	}
	put("a", hash)
	put("b", hash)
	if holds("a") || !holds("b") {
		t.Error("expected that of two rows with one hash the last one is held")
	}
}

// Rows that are only ever written together are read together, whatever of them
// the cache holds, and are no older than what was committed before.
func TestRowCacheWhileWritten(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	db := openMem(t, Options{NoSync: true})
	rows := [][]byte{[]byte("row a"), []byte("row b"), []byte("row c"), []byte("row d"), []byte("row e")}
	var committed atomic.Uint64
	write := func(n uint64) error {
		err := db.Update(ctx, func(tx kv.Tx) error {
			for _, row := range rows {
				tx.Set(row, kv.EncodeInteger(n))
			}
			return nil
		})
		committed.Store(n)
		return err
	}
	if err := write(1); err != nil {
		t.Fatal(err)
	}
	writes := uint64(nightly.Fewer(20_000))
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for committed.Load() < writes && !t.Failed() {
				least := committed.Load()
				err := db.View(ctx, func(r kv.Reader) error {
					var first uint64
					for i, row := range rows {
						value, err := r.Get(row)
						if err != nil {
							return err
						}
						n := kv.DecodeInteger(value)
						if i == 0 {
							first = n
						}
						if n != first || n < least {
							return fmt.Errorf("row %d is %d, the first one %d, and %d was committed before", i, n, first, least)
						}
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for n := uint64(2); n <= writes && !t.Failed(); n++ {
		if err := write(n); err != nil {
			t.Error(err)
		}
	}
	committed.Store(writes)
	readers.Wait()
}

func TestCounterCache(t *testing.T) {
	t.Parallel()
	c := newCounterCache()
	rng := rand.New(rand.NewPCG(1, 1))
	// All keys fall into two sets, and some share a hash.
	hash := func(k int) uint64 { return uint64(k%2) + counterSets*uint64(k/3) }
	key := func(k int) []byte { return fmt.Append(nil, k) }
	want := map[int]uint64{}
	hits := 0
	for range 20_000 {
		k := rng.IntN(20)
		switch rng.IntN(4) {
		case 0:
			want[k] = rng.Uint64()
			c.put(hash(k), key(k), want[k])
		case 1:
			c.drop(hash(k))
			for o := range want {
				if hash(o) == hash(k) {
					delete(want, o)
				}
			}
		default:
			got, known := c.get(hash(k), key(k))
			if value, ok := want[k]; known && (!ok || got != value) {
				t.Fatalf("key %d: got %d, want %d, %t", k, got, value, ok)
			}
			if known {
				hits++
			}
		}
	}
	if hits < 1000 {
		t.Errorf("only %d hits", hits)
	}
	c.put(1, key(1), 1)
	c.reset()
	if _, known := c.get(1, key(1)); known {
		t.Error("a reset cache remembers")
	}
}
