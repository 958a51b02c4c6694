package local

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Commits acknowledged without a sync are with the operating system: the end of the
// process loses none.
func TestProcessEndsWithoutSync(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	db := openMem(t, Options{FS: disk, NoSync: true})
	for i := range 100 {
		value := fmt.Sprintf("row %d.", i)
		mustUpdate(t, db, set(fmt.Sprint(i), value))
		if !bytes.Contains(logContents(t, disk), []byte(value)) {
			t.Fatalf("row %d was acknowledged before it was written", i)
		}
	}
	next := openMem(t, Options{FS: &forgetfulFS{diskFS{FS: disk}}})
	for i := range 100 {
		if value := mustGet(t, next, fmt.Sprint(i)); value != fmt.Sprintf("row %d.", i) {
			t.Errorf("the next process reads %q as row %d", value, i)
		}
	}
}

// logContents returns what the store's logs hold.
func logContents(t *testing.T, disk vfs.FS) (all []byte) {
	t.Helper()
	files, err := disk.List("db")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if !strings.HasSuffix(name, ".log") {
			continue
		}
		f, err := disk.Open(disk.PathJoin("db", name))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text...)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// A power loss takes back the last commits if nothing was synced, and nothing
// that lies before others. The store opens: what is missing is no damage.
func TestPowerLossWithoutSync(t *testing.T) {
	t.Parallel()
	const (
		crashes = 10
		rows    = 300 // in each life of the store
	)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	disk := vfs.NewCrashableMem()
	lost := 0
	for range crashes {
		db := mustOpen(t, Options{FS: disk, NoSync: true})
		first := rowsWithoutGap(t, db)
		for n := first; n < first+rows; n++ {
			value := content(n, rng.IntN(3000))
			mustUpdate(t, db, func(tx kv.Tx) error {
				tx.Set(binary.BigEndian.AppendUint64([]byte("row"), n), value)
				return nil
			})
		}
		crashed := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		disk = crashed
		db = mustOpen(t, Options{FS: disk, NoSync: true})
		left := rowsWithoutGap(t, db)
		if left < first {
			t.Errorf("%d rows are left of %d that were there when the store was opened", left, first)
		}
		lost += int(first + rows - left)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if lost == 0 {
		t.Error("no crash took anything, which makes the test pointless")
	}
}

// rowsWithoutGap counts the rows, which are numbered, and finds one missing.
func rowsWithoutGap(t *testing.T, db *DB) (n uint64) {
	t.Helper()
	err := db.View(t.Context(), func(r kv.Reader) error {
		pairs, err := r.Range([]byte("row"), []byte("s"), kv.RangeOptions{Limit: 1 << 20})
		n = uint64(len(pairs))
		for i, p := range pairs {
			if number := binary.BigEndian.Uint64(p.Key[len("row"):]); number != uint64(i) {
				t.Fatalf("row %d stands where row %d was", number, i)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
