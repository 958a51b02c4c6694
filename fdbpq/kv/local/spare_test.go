package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// smallDisk is a disk in memory of a size. Another program may take a part of it.
type smallDisk struct {
	vfs.FS
	mu            sync.Mutex
	size, foreign int64
	refused       int // writes that found no room
}

// used is what the store's files take.
func (d *smallDisk) used() (sum int64) {
	for _, dir := range []string{"db", "copy"} {
		names, _ := d.FS.List(dir)
		for _, name := range names {
			if info, err := d.FS.Stat(d.PathJoin(dir, name)); err == nil { // otherwise it was removed meanwhile
				sum += info.Size()
			}
		}
	}
	return sum
}

func (d *smallDisk) free() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.size - d.foreign - d.used()
}

// leave has the other program take all but some bytes.
func (d *smallDisk) leave(free int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.foreign = d.size - d.used() - free
}

func (d *smallDisk) refusals() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.refused
}

func (d *smallDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: uint64(max(d.free(), 0)), TotalBytes: uint64(d.size)}, nil
}

func (d *smallDisk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, category)
	return d.wrap(f), err
}

func (d *smallDisk) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := d.FS.OpenReadWrite(name, category, opts...)
	return d.wrap(f), err
}

func (d *smallDisk) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.ReuseForWrite(from, to, category)
	return d.wrap(f), err
}

func (d *smallDisk) wrap(f vfs.File) vfs.File {
	if f == nil {
		return nil
	}
	return &smallFile{File: f, disk: d}
}

type smallFile struct {
	vfs.File
	disk  *smallDisk
	at    int64
	ahead int64 // bytes that were to be taken ahead
}

func (f *smallFile) Preallocate(_, length int64) error {
	f.ahead += length
	return nil
}

// fits returns how many of n bytes at an offset find room.
func (f *smallFile) fits(n int, offset int64) int {
	info, err := f.Stat()
	if err != nil {
		return 0
	}
	room := max(0, f.disk.size-f.disk.foreign-f.disk.used())
	return int(min(int64(n), max(0, info.Size()-offset)+room))
}

func (f *smallFile) Write(p []byte) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	n, err := f.File.Write(p[:f.fits(len(p), f.at)])
	f.at += int64(n)
	if n < len(p) && err == nil {
		f.disk.refused++
		err = syscall.ENOSPC
	}
	return n, err
}

func (f *smallFile) WriteAt(p []byte, offset int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.fits(len(p), offset) < len(p) {
		return 0, syscall.ENOSPC
	}
	return f.File.WriteAt(p, offset)
}

const megabyte = 1 << 20

// noise is content that no compression makes smaller.
func noise(n int) string {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(b)
	return string(b)
}

// spareOn opens a store with a spare file, which it makes.
func spareOn(t *testing.T, disk vfs.FS, size int64, opts Options) *DB {
	t.Helper()
	opts.FS, opts.Spare = disk, size
	if opts.Fatal == nil {
		opts.Fatal = func(err error) { t.Errorf("the store ended the process: %v", err) }
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	db := openMem(t, opts)
	if err := db.KeepSpare(); err != nil {
		t.Fatal(err)
	}
	return db
}

// spareThere reports the size of the file, 0 if there is none.
func spareThere(t *testing.T, disk vfs.FS) int64 {
	t.Helper()
	info, err := disk.Stat(disk.PathJoin("db", SpareName))
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// The file takes its room from the disk, is there at the next start, follows the setting, and is in no copy.
func TestSpareFile(t *testing.T) {
	t.Parallel()
	disk := &smallDisk{FS: vfs.NewMem(), size: 256 * megabyte}
	db := spareOn(t, disk, 3*megabyte+5, Options{})
	mustUpdate(t, db, set("a", "1"))
	if n := spareThere(t, disk); n != 3*megabyte+5 {
		t.Errorf("it has %d bytes", n)
	}
	if has, want := db.Spare(); has != 3*megabyte+5 || want != has {
		t.Errorf("the store says that it has %d bytes of %d", has, want)
	}
	if err := db.Backup("copy"); err != nil {
		t.Fatal(err)
	}
	if _, err := disk.Stat(disk.PathJoin("copy", SpareName)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a backup has it: %v", err)
	}
	for _, again := range []struct{ spare, has int64 }{{3*megabyte + 5, 3*megabyte + 5}, {megabyte, 3*megabyte + 5}, {0, 0}} {
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		db = openMem(t, Options{FS: disk, Spare: again.spare})
		if has, want := db.Spare(); has != again.has || want != again.spare || spareThere(t, disk) != has {
			t.Errorf("with %d bytes the store has %d of %d", again.spare, has, want)
		}
		if err := db.KeepSpare(); err != nil || spareThere(t, disk) != again.spare {
			t.Errorf("with %d bytes the file has %d, %v", again.spare, spareThere(t, disk), err)
		}
	}
}

// A file for which there is no room is not made, and the store goes on.
func TestSpareFileWithoutRoom(t *testing.T) {
	t.Parallel()
	disk := &smallDisk{FS: vfs.NewMem(), size: 64 * megabyte}
	db := openMem(t, Options{FS: disk, Spare: 100 * megabyte, Log: slog.New(slog.DiscardHandler)})
	free := disk.free()
	if err := db.KeepSpare(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("it was made: %v", err)
	}
	if n, now := spareThere(t, disk), disk.free(); n != 0 || now < free {
		t.Errorf("%d bytes are there, and %d bytes are free of %d", n, now, free)
	}
	mustUpdate(t, db, set("a", "1"))
}

// Another program takes the disk to the last byte. What needs room in the log and in tables gets that of the spare file, so no commit
// fails and the process goes on; a reader of the disk after a crash finds all commits.
func TestSpareFileIsGivenUp(t *testing.T) {
	t.Parallel()
	mem := vfs.NewCrashableMem()
	disk := &smallDisk{FS: mem, size: 1024 * megabyte}
	said := make(chan string, 100)
	db := spareOn(t, disk, 16*megabyte, Options{Log: slog.New(slog.NewTextHandler(lineWriter(said), nil))})
	disk.leave(0)
	const rows = 100
	value := noise(kv.MaxValueSize)
	for i := range rows {
		mustUpdate(t, db, set(fmt.Sprint(i), value))
	}
	if has, _ := db.Spare(); has != 0 || spareThere(t, disk) != 0 {
		t.Errorf("the spare file has %d bytes still", has)
	}
	if n := disk.refusals(); n == 0 {
		t.Error("no write was refused")
	}
	if line := <-said; !strings.Contains(line, "level=ERROR") || !strings.Contains(line, "the spare file is given up") || len(said) > 0 {
		t.Errorf("logged %q, and %d lines", line, len(said))
	}
	crashed := mem.CrashClone(vfs.CrashCloneCfg{})
	again := openMem(t, Options{FS: crashed})
	for i := range rows {
		if mustGet(t, again, fmt.Sprint(i)) != value {
			t.Errorf("row %d is lost", i)
		}
	}
}

// Writers that find no room at the same time all go on.
func TestSpareFileForManyWriters(t *testing.T) {
	t.Parallel()
	s := &spare{disk: vfs.NewMem(), dir: "db", want: 10, background: newBackgroundLog(slog.New(slog.DiscardHandler), stopped)}
	if err := s.disk.MkdirAll("db", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.keep(); err != nil {
		t.Fatal(err)
	}
	const writers = 8
	var met, wg sync.WaitGroup
	met.Add(writers)
	for range writers {
		wg.Go(func() {
			tries := 0
			err := s.try(func() error {
				if tries++; tries > 1 {
					return nil
				}
				met.Done()
				met.Wait() // all find no room before one gives up the file
				return fmt.Errorf("wrapped: %w", syscall.ENOSPC)
			})
			if err != nil || tries != 2 {
				t.Errorf("tried %d times: %v", tries, err)
			}
		})
	}
	wg.Wait()
	for _, err := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO} {
		tries := 0
		if got := s.try(func() error { tries++; return err }); got != err || tries != 1 {
			t.Errorf("without the file: tried %d times: %v", tries, got)
		}
	}
	for err, want := range map[error]int{syscall.EDQUOT: 2, syscall.EIO: 1, error(nil): 1} {
		if err := s.keep(); err != nil {
			t.Fatal(err)
		}
		tries := 0
		if got := s.try(func() error { tries++; return err }); got != err || tries != want {
			t.Errorf("%v: tried %d times: %v", err, tries, got)
		}
	}
}

// A store whose disk is full to the last byte opens, clears rows, and so frees their space; then the spare file is made again.
func TestOpenOnAFullDisk(t *testing.T) {
	t.Parallel()
	mem := vfs.NewCrashableMem()
	disk := &smallDisk{FS: mem, size: 1024 * megabyte}
	db := spareOn(t, disk, 16*megabyte, Options{})
	const rows = 80
	for i := range rows {
		mustUpdate(t, db, set(fmt.Sprintf("item %04d", i), noise(kv.MaxValueSize)))
	}
	if err := db.store.Flush(); err != nil {
		t.Fatal(err)
	}
	for i := range rows / 2 { // some are in the log alone
		mustUpdate(t, db, set(fmt.Sprintf("late %04d", i), noise(kv.MaxValueSize)))
	}
	crashed := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 2))})
	disk = &smallDisk{FS: crashed, size: 1024 * megabyte}
	if n := spareThere(t, disk); n != 16*megabyte {
		t.Fatalf("the spare file has %d bytes", n)
	}
	disk.leave(0)
	again := openMem(t, Options{FS: disk, Spare: 16 * megabyte, Log: slog.New(slog.DiscardHandler), Fatal: func(err error) { t.Errorf("the store ended the process: %v", err) }})
	if has, _ := again.Spare(); has != 0 || disk.refusals() == 0 {
		t.Errorf("the spare file has %d bytes, and %d writes found no room", has, disk.refusals())
	}
	if value := mustGet(t, again, "item 0001") + mustGet(t, again, "late 0001"); len(value) != 2*kv.MaxValueSize {
		t.Errorf("read %d bytes", len(value))
	}
	mustUpdate(t, again, func(tx kv.Tx) error {
		tx.ClearRange([]byte("item"), []byte("items"))
		return nil
	})
	again.ReclaimCleared()
	await(t, "the space of the cleared rows", func() bool { return disk.free() > rows*kv.MaxValueSize/2 })
	if value := mustGet(t, again, "late 0001"); len(value) != kv.MaxValueSize {
		t.Errorf("of a row that was not cleared there are %d bytes", len(value))
	}
	disk.leave(20 * megabyte)
	if err := again.KeepSpare(); err != nil || spareThere(t, disk) != 16*megabyte {
		t.Errorf("made again it has %d bytes, %v", spareThere(t, disk), err)
	}
}

// A compaction leaves half of the file's size free, unless it is small, and does not have the file given up. All others do.
func TestCompactionsLeaveRoom(t *testing.T) {
	t.Parallel()
	const size = 4 * megabyte
	for _, c := range []struct {
		name        string
		category    vfs.DiskWriteCategory
		free, bytes int64
		refused     bool
		given       bool
	}{
		{"db/1.sst", compactions, size/2 - 1, 3 * looksEvery / 2, true, false},
		{"db/1.sst", compactions, size/2 - 1, looksEvery / 2, false, false},
		{"db/1.sst", compactions, size/2 + looksEvery, 3 * looksEvery / 2, false, false},
		{"db/1.sst", compactions, looksEvery / 4, looksEvery / 2, true, false},
		{"db/1.sst", "pebble-memtable-flush", size/2 - 1, 3 * looksEvery / 2, false, false},
		{"db/1.sst", "pebble-memtable-flush", looksEvery - 100, 3 * looksEvery / 2, false, true},
		{"db/1.log", "pebble-wal", looksEvery, 3 * looksEvery / 2, false, true},
		{"db/1.log", "pebble-wal", looksEvery, looksEvery + size + 1, true, true},
		{"copy/1.sst", vfs.WriteCategoryUnspecified, looksEvery, 3 * looksEvery / 2, true, false},
	} {
		disk := &smallDisk{FS: vfs.NewMem(), size: 64 * megabyte}
		for _, dir := range []string{"db", "copy"} {
			if err := disk.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		s := &spare{disk: disk, dir: "db", want: size, background: newBackgroundLog(slog.New(slog.DiscardHandler), stopped)}
		if err := s.keep(); err != nil {
			t.Fatal(err)
		}
		disk.leave(c.free)
		f, err := spareDisk{disk, s}.Create(c.name, c.category)
		if err != nil {
			t.Fatal(err)
		}
		for left := c.bytes; left > 0 && err == nil; left -= looksEvery / 4 {
			part := make([]byte, min(left, looksEvery/4))
			var n int
			if n, err = f.Write(part); err == nil && n != len(part) {
				t.Errorf("%+v: wrote %d bytes of %d", c, n, len(part))
			}
		}
		if refused := errors.Is(err, syscall.ENOSPC); refused != c.refused || !refused && err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		if info, err := f.Stat(); !c.refused && (err != nil || info.Size() != c.bytes) {
			t.Errorf("%+v: the file has %d bytes, %v", c, info.Size(), err)
		}
		if given := spareThere(t, disk) == 0; given != c.given {
			t.Errorf("%+v: the spare file was given up: %t", c, given)
		}
	}
}

// New files and names get the room of the file, too. The zeros in front of a log's end do not, and a log takes no room ahead once the
// file is gone.
func TestWhatGetsTheSpareRoom(t *testing.T) {
	t.Parallel()
	full := true
	disk := &nameless{smallDisk{FS: vfs.NewMem(), size: 64 * megabyte}, &full}
	if err := disk.MkdirAll("db", 0o700); err != nil {
		t.Fatal(err)
	}
	s := &spare{disk: disk, dir: "db", want: megabyte, background: newBackgroundLog(slog.New(slog.DiscardHandler), stopped)}
	d := spareDisk{disk, s}
	given := func(what string, want bool, err error) {
		t.Helper()
		if has := spareThere(t, disk); has == 0 != want || err != nil && want {
			t.Errorf("%s: the spare file has %d bytes, %v", what, has, err)
		}
		full = false
		disk.leave(10 * megabyte)
		if err := s.keep(); err != nil {
			t.Fatal(err)
		}
		full = true
	}
	given("nothing", true, nil)
	for _, name := range []string{"db/1.sst", "db/1.log"} {
		f, err := d.Create(name, "pebble-wal")
		given("a new file", true, err)
		disk.leave(0)
		_, err = f.WriteAt(make([]byte, 100), 0)
		given("bytes at a place in "+name, name == "db/1.sst", err)
		if strings.HasSuffix(name, ".log") {
			allocated := f.(*sparedFile).File.(*smallFile)
			if err := f.Preallocate(0, 5); err != nil || allocated.ahead != 5 {
				t.Errorf("%d bytes ahead of a log, %v", allocated.ahead, err)
			}
			s.has.Store(0)
			if err := f.Preallocate(5, 7); err != nil || allocated.ahead != 5 {
				t.Errorf("%d bytes ahead of a log without the spare file, %v", allocated.ahead, err)
			}
			s.has.Store(s.want)
		}
	}
	given("another name", true, d.Rename("db/1.sst", "db/2.sst"))
	if _, err := disk.Stat("db/2.sst"); err != nil {
		t.Error(err)
	}
	given("another name elsewhere", false, d.Rename("db/2.sst", "copy"))
}

// nameless is a disk that has no room for a name until a file is removed.
type nameless struct {
	smallDisk
	full *bool
}

func (d *nameless) check() error {
	if *d.full {
		return syscall.ENOSPC
	}
	return nil
}

func (d *nameless) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	return d.smallDisk.Create(name, category)
}

func (d *nameless) Rename(from, to string) error {
	if err := d.check(); err != nil {
		return err
	}
	return d.smallDisk.Rename(from, to)
}

func (d *nameless) Remove(name string) error {
	*d.full = false
	return d.smallDisk.Remove(name)
}

// Backups do without the room of the file.
func TestBackupLeavesTheSpareFile(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	disk := &diskFS{FS: vfs.NewMem(), onCreate: func(name string) error {
		if full.Load() && strings.Contains(name, "copy") {
			return syscall.ENOSPC
		}
		return nil
	}}
	db := spareOn(t, disk, megabyte, Options{})
	mustUpdate(t, db, set("a", "1"))
	full.Store(true)
	if err := db.Backup("copy"); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a backup without room: %v", err)
	}
	if n := spareThere(t, disk); n != megabyte {
		t.Errorf("after that the file has %d bytes", n)
	}
}

// A store that is opened to be read neither makes the file nor removes it.
func TestReadersLeaveTheSpareFile(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	db := spareOn(t, disk, megabyte, Options{})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, opts := range []Options{{ReadOnly: true}, {Salvage: true}} {
		opts.FS = disk
		reader := mustOpen(t, opts)
		if err := reader.Close(); err != nil {
			t.Error(err)
		}
		if n := spareThere(t, disk); n != megabyte {
			t.Errorf("after %+v the file has %d bytes", opts, n)
		}
	}
}

// On real file systems the file has room for all of it. One with holes, such as a copy by cp, does not count.
func TestSpareFileTakesRoom(t *testing.T) {
	t.Parallel()
	dirs := []string{t.TempDir()}
	if shm, err := os.MkdirTemp("/dev/shm", "spare"); err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(shm) })
		dirs = append(dirs, shm)
	}
	for _, dir := range dirs {
		store, size := filepath.Join(dir, "store"), int64(2*megabyte+1)
		file := filepath.Join(store, SpareName)
		holds := func() int64 {
			t.Helper()
			info, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			if info.Size() != size {
				t.Errorf("%s has %d bytes", file, info.Size())
			}
			return info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		for _, holes := range []bool{false, true, false} {
			if holes {
				if err := errors.Join(os.Remove(file), os.WriteFile(file, nil, 0o600), os.Truncate(file, size)); err != nil {
					t.Fatal(err)
				}
			}
			db, err := Open(store, Options{Spare: size})
			if err != nil {
				t.Fatal(err)
			}
			if has, _ := db.Spare(); holes && has != 0 {
				t.Errorf("a file with holes counts as %d bytes", has)
			}
			if err := errors.Join(db.KeepSpare(), db.Close()); err != nil {
				t.Fatal(err)
			}
			if n := holds(); n < size {
				t.Errorf("%s takes %d bytes of the disk", file, n)
			}
		}
		for _, copies := range []func(to string) error{
			func(to string) error { _, err := Copy(store, to); return err },
			func(to string) error { _, err := Restore(store, to); return err },
		} {
			to := filepath.Join(t.TempDir(), "copy")
			if err := copies(to); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(to, SpareName)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a copy has the file: %v", err)
			}
		}
	}
}

// The names of categories are Pebble's.
func TestCategoryOfCompactions(t *testing.T) {
	t.Parallel()
	var found sync.Map
	disk := categories{vfs.NewMem(), &found}
	db := openMem(t, Options{FS: disk})
	for range 2 {
		mustUpdate(t, db, set("a", "1"))
		if err := db.store.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.store.Compact(context.Background(), []byte{0}, []byte{0xff}, false); err != nil {
		t.Fatal(err)
	}
	if _, is := found.Load(compactions); !is {
		t.Error("a compaction has another category")
	}
}

type categories struct {
	vfs.FS
	found *sync.Map
}

func (c categories) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	c.found.Store(category, true)
	return c.FS.Create(name, category)
}
