package logs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv/local/internal/durable"
)

// A log grows by steps, and what is read of it while it is written ends where it
// has been written: neither the zeros nor what an older log left behind it shows.
func TestLogFile(t *testing.T) {
	t.Parallel()
	disk := NewDisk(vfs.NewMem(), ".", false, func(error) {})
	open := func(f vfs.File, err error) vfs.File {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	expect := func(f vfs.File, want string) {
		t.Helper()
		got, err := io.ReadAll(f)
		if err != nil || string(got) != want {
			t.Errorf("read %d bytes, %.40q, %v; expected %d, %.40q", len(got), got, err, len(want), want)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	size := func(name string, want int) {
		t.Helper()
		if info, err := disk.Stat(name); err != nil || info.Size() != int64(want) {
			t.Errorf("%s has %d bytes, %v; expected %d", name, info.Size(), err, want)
		}
	}
	write := func(f vfs.File, what string) {
		t.Helper()
		if n, err := io.WriteString(f, what); n != len(what) || err != nil {
			t.Fatal(n, err)
		}
	}
	const first, more, again = "first", ", and more", "anew"
	f := open(disk.Create("1.log", vfs.WriteCategoryUnspecified))
	expect(open(disk.Open("1.log")), "")
	write(f, first)
	size("1.log", len(first)+logAhead)
	early := open(disk.Open("1.log"))
	write(f, more)
	size("1.log", len(first)+logAhead) // so the sync has no new size to keep
	expect(early, first)
	expect(open(disk.Open("1.log")), first+more)
	long := strings.Repeat("x", logAhead)
	write(f, long)
	whole := len(first+more+long) + logAhead
	size("1.log", whole)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	expect(open(disk.Open("1.log")), first+more+long+strings.Repeat("\x00", logAhead))

	f = open(disk.ReuseForWrite("1.log", "2.log", vfs.WriteCategoryUnspecified))
	write(f, again)
	size("2.log", whole)
	expect(open(disk.Open("2.log")), again)
	write(f, long+long+long)
	size("2.log", len(again+long+long+long)+logAhead)
	expect(open(disk.Open("2.log")), again+long+long+long)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}

	if err := disk.MkdirAll("backup", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"1.sst", "backup/1.log"} {
		other := open(disk.Create(name, vfs.WriteCategoryUnspecified))
		write(other, first)
		size(name, len(first))
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// When there is no space for zeros, there may still be some for what matters.
func TestLogFileOnFullDisk(t *testing.T) {
	t.Parallel()
	const space = 100_000
	disk := NewDisk(fullFS{vfs.NewMem(), space}, ".", false, func(error) {})
	f, err := disk.Create("1.log", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	record, written := make([]byte, 1000), 0
	for err == nil {
		var n int
		n, err = f.Write(record)
		written += n
	}
	if !errors.Is(err, errFull) || written != space {
		t.Errorf("wrote %d bytes, %v; expected the %d that there were", written, err, space)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// A log that is not synced while it is written is synced when it is closed, before the next
// one begins; and it does not say that more was synced, which a power loss would turn into
// damage.
func TestClosedLogIsSynced(t *testing.T) {
	t.Parallel()
	disk := emptyStore(t)
	f, err := NewDisk(disk, "db", true, func(error) {}).Create("db/000001.log", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	record := logChunk(1, "content", 1<<40)
	if _, err := f.Write(bytes.Clone(record)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close(), durable.SyncDirectory(disk, "db")); err != nil {
		t.Fatal(err)
	}
	after, err := durable.Read(disk.CrashClone(vfs.CrashCloneCfg{}), "db/000001.log")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(after, logChunk(1, "content", 0)) {
		t.Errorf("after a power loss the log has\n%x, expected\n%x", after, logChunk(1, "content", 0))
	}
}

// emptyStore is a disk with the directory of a store, which a power loss leaves.
func emptyStore(t *testing.T) *vfs.MemFS {
	t.Helper()
	disk := vfs.NewCrashableMem()
	if err := disk.MkdirAll("db", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := durable.SyncDirectory(disk, "."); err != nil {
		t.Fatal(err)
	}
	return disk
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

// fullFS has space for so many bytes in each file.
type fullFS struct {
	vfs.FS
	space int64
}

func (fs fullFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.Create(name, category)
	return &fullFile{File: f, space: fs.space}, err
}

type fullFile struct {
	vfs.File
	at, space int64
}

var errFull = errors.New("no space left")

func (f *fullFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p[:min(int64(len(p)), f.space-f.at)])
	if f.at += int64(n); n < len(p) && err == nil {
		err = errFull
	}
	return n, err
}

func (f *fullFile) WriteAt(p []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(p[:min(int64(len(p)), f.space-at)], at)
	if n < len(p) && err == nil {
		err = errFull
	}
	return n, err
}

// What is written while a sync runs is not synced by it.
func TestSyncCoversWhatWasWrittenBefore(t *testing.T) {
	t.Parallel()
	for name, sync := range map[string]func(*syncedFile) error{"Sync": (*syncedFile).Sync, "SyncData": (*syncedFile).SyncData} {
		file, err := vfs.NewMem().Create("1.log", vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		slow := &slowSync{File: file}
		f := &syncedFile{File: slow}
		write := func() error {
			_, err := f.Write([]byte("four"))
			return err
		}
		if err := write(); err != nil {
			t.Fatal(err)
		}
		slow.during = write
		if err := sync(f); err != nil {
			t.Fatal(err)
		}
		if end, synced := f.end.Load(), f.synced.Load(); end != 8 || synced != 4 {
			t.Errorf("%s: %d of %d bytes count as synced, expected 4 of 8", name, synced, end)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// slowSync is a file to which somebody writes while a sync runs.
type slowSync struct {
	vfs.File
	during func() error
}

func (f *slowSync) Sync() error { return errors.Join(f.during(), f.File.Sync()) }

func (f *slowSync) SyncData() error { return errors.Join(f.during(), f.File.SyncData()) }

// A note that was cut off while it was written leaves the one before it, and a
// new process goes on behind both.
func TestSyncNote(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	if err := disk.MkdirAll("db", 0o700); err != nil {
		t.Fatal(err)
	}
	expect := func(want uint64) {
		t.Helper()
		var n note
		if m, err := n.read(disk, "db"); err != nil || m.LogSynced != want {
			t.Errorf("read %d, %v, expected %d", m.LogSynced, err, want)
		}
	}
	expect(0)
	name := disk.PathJoin("db", NoteName)
	for i := uint64(1); i < 6; i++ {
		var n note
		if _, err := n.read(disk, "db"); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(n.write(disk, "db", Mark{Log: 7, LogSynced: i}), n.close()); err != nil {
			t.Fatal(err)
		}
		expect(i)
		for _, at := range []int{noteHead, noteHead + len(markTag) + 1} { // the tag, what it says
			whole, err := durable.Read(disk, name)
			if err != nil {
				t.Fatal(err)
			}
			flipped := bytes.Clone(whole)
			flipped[int(i%2)*noteSlot+at] ^= 1
			if err := durable.Write(disk, name, flipped); err != nil {
				t.Fatal(err)
			}
			expect(i - 1)
			if err := durable.Write(disk, name, whole); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The first note and a later one outlive a power loss, the file's name included.
func TestSyncNoteIsDurable(t *testing.T) {
	t.Parallel()
	disk := emptyStore(t)
	var n note
	for i := uint64(1); i < 4; i++ {
		if err := n.write(disk, "db", Mark{Log: 7, LogSynced: i}); err != nil {
			t.Fatal(err)
		}
		var after note
		if m, err := after.read(disk.CrashClone(vfs.CrashCloneCfg{}), "db"); err != nil || m.LogSynced != i {
			t.Errorf("after a power loss: read %d, %v, expected %d", m.LogSynced, err, i)
		}
	}
	if err := n.close(); err != nil {
		t.Error(err)
	}
}
