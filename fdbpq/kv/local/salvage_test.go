package local

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// A store that is salvaged has all that can be read, on both sides of damage in
// a table and in a log, and is not changed.
func TestSalvage(t *testing.T) {
	t.Parallel()
	const items = 3000
	disk := vfs.NewCrashableMem()
	db := openMem(t, Options{FS: disk})
	rng := rand.NewChaCha8([32]byte{})
	write := func(from, to int) {
		mustUpdate(t, db, func(tx kv.Tx) error {
			for i := from; i < to; i++ {
				value := make([]byte, 100) // that cannot be compressed
				_, _ = rng.Read(value)
				tx.Set(fmt.Appendf(nil, "item %04d", i), value)
			}
			return nil
		})
	}
	write(0, items-500)
	if err := db.store.Flush(); err != nil {
		t.Fatal(err)
	}
	for i := items - 500; i < items; i += 10 {
		write(i, i+10)
	}
	mustMark(t, db)
	killed := snapshot(disk)
	log, tables := fmt.Sprintf("db/%06d.log", db.disk.Synced().Log), files(t, killed, ".sst")
	flip(t, killed, log, 40_000, 4)
	flip(t, killed, tables[0], 100_000, 1)

	if err := reopened(killed, func(*DB) {}); !errors.Is(err, kv.ErrDamaged) {
		t.Fatalf("open: %v, expected %v", err, kv.ErrDamaged)
	}
	before, err := killed.List("db")
	if err != nil {
		t.Fatal(err)
	}
	salvaged := mustOpen(t, Options{FS: killed, Salvage: true, Log: slog.New(slog.DiscardHandler)})
	found := make(map[string]bool)
	for begin := []byte("item"); begin != nil; {
		var page []kv.Pair
		err := salvaged.View(t.Context(), func(r kv.Reader) (err error) {
			page, err = r.Range(begin, []byte("items"), kv.RangeOptions{Limit: 400})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(page) > 400 {
			t.Errorf("a page has %d items, expected 400 at most", len(page))
		}
		begin = nil
		for _, pair := range page {
			found[string(pair.Key)] = true
			begin = keyAfter(pair.Key)
		}
	}
	missing := func(from, to int) (n int) {
		for i := from; i < to; i++ {
			if !found[fmt.Sprintf("item %04d", i)] {
				n++
			}
		}
		return n
	}
	if n := missing(0, items-500); n < 50 || n > 400 {
		t.Errorf("%d items of the table are missing, expected those of one block", n)
	}
	if n := missing(items-500, items); n != 10 {
		t.Errorf("%d items of the log are missing, expected the 10 of one transaction", n)
	}
	if n := len(salvaged.Damage()); n != 2 || salvaged.Skipped() == 0 {
		t.Errorf("damage of %d files is known, expected a log and a table, and %d times something was skipped", n, salvaged.Skipped())
	}
	err = salvaged.View(t.Context(), func(r kv.Reader) error {
		page, err := r.Range([]byte("item"), []byte("items"), kv.RangeOptions{Limit: 400, MaxBytes: 1000})
		if err == nil && (len(page) == 0 || len(page) > 20) {
			t.Errorf("1000 bytes have %d items", len(page))
		}
		for i := range items {
			if key := fmt.Sprintf("item %04d", i); err == nil && !found[key] {
				var value []byte
				if value, err = r.Get([]byte(key)); len(value) > 0 {
					t.Errorf("%s, which the pages do not have, has a value", key)
				}
			}
		}
		if _, err := r.Range([]byte("item"), []byte("items"), kv.RangeOptions{Limit: 1, Reverse: true}); !errors.Is(err, errReadOnly) {
			t.Errorf("a range from its end: %v", err)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if err := salvaged.Update(t.Context(), set("item", "new")); !errors.Is(err, errReadOnly) {
		t.Errorf("a write: %v", err)
	}
	if err := salvaged.Close(); err != nil {
		t.Error(err)
	}
	if after, err := killed.List("db"); err != nil || len(after) != len(before) {
		t.Errorf("there were %d files before and are %d, %v", len(before), len(after), err)
	}
}

// A transaction of which a part is damaged in the log is left out as a whole.
func TestSalvageLeavesOutTornTransactions(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashableMem()
	db := openMem(t, Options{FS: disk})
	mustUpdate(t, db, set("before", "1"))
	mustUpdate(t, db, func(tx kv.Tx) error {
		for i := range 40 {
			tx.Set(fmt.Appendf(nil, "large %02d", i), make([]byte, 5000))
		}
		return nil
	})
	mustUpdate(t, db, set("behind", "2"))
	mustMark(t, db)
	killed := snapshot(disk)
	flip(t, killed, fmt.Sprintf("db/%06d.log", db.disk.Synced().Log), 80_000, 4) // of 200,000
	salvaged := openMem(t, Options{FS: killed, Salvage: true, Log: slog.New(slog.DiscardHandler)})
	for key, want := range map[string]string{"before": "1", "large 00": "", "large 39": "", "behind": "2"} {
		if got := mustGet(t, salvaged, key); got != want {
			t.Errorf("%s has %d bytes, expected %q", key, len(got), want)
		}
	}
}
