package local

import (
	"bytes"
	"encoding/binary"
	"errors"
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
		if !bytes.Contains(logs(t, disk), []byte(value)) {
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

// logs returns what the store's logs hold.
func logs(t *testing.T, disk vfs.FS) (all []byte) {
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

// A log that is not synced while it is written is synced when it is closed, before the next
// one begins; and it does not say that more was synced, which a power loss would turn into
// damage.
func TestClosedLogIsSynced(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashableMem()
	if err := disk.MkdirAll("db", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syncDirectory(disk, "."); err != nil {
		t.Fatal(err)
	}
	f, err := newLogDisk(disk, "db", true).Create("db/000001.log", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	record := logChunk(1, "content", 1<<40)
	if _, err := f.Write(bytes.Clone(record)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close(), syncDirectory(disk, "db")); err != nil {
		t.Fatal(err)
	}
	after := mustRead(t, disk.CrashClone(vfs.CrashCloneCfg{}), "db/000001.log")
	if !bytes.HasPrefix(after, logChunk(1, "content", 0)) {
		t.Errorf("after a power loss the log has\n%x, expected\n%x", after, logChunk(1, "content", 0))
	}
}

// logChunk is a chunk of a log that has a whole record, and says how far the log is synced.
func logChunk(log uint32, content string, synced uint64) []byte {
	b := make([]byte, chunkHeadNew, chunkHeadNew+len(content))
	binary.LittleEndian.PutUint16(b[chunkLength:], uint16(len(content)))
	b[chunkKind] = 9
	binary.LittleEndian.PutUint32(b[chunkNumber:], log)
	binary.LittleEndian.PutUint64(b[chunkSynced:], synced)
	b = append(b, content...)
	binary.LittleEndian.PutUint32(b, checksum(b[chunkKind:]))
	return b
}
