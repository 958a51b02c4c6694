package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
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
	for deadline := time.Now().Add(90 * time.Second); !isTrue(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestStoreIsLocked(t *testing.T) {
	t.Parallel()
	for _, fs := range []vfs.FS{vfs.Default, vfs.NewMem()} {
		dir := t.TempDir()
		if err := fs.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		first, err := Open(dir, Options{FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, Options{FS: fs}); err == nil || !strings.Contains(err.Error(), "in use by another process") {
			t.Errorf("opening a store twice: %v", err)
		}
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		again, err := Open(dir, Options{FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAnswersWaitForTheDisk holds up the disk and looks who waits.
func TestAnswersWaitForTheDisk(t *testing.T) {
	t.Parallel()
	for _, noSync := range []bool{false, true} {
		var held atomic.Bool
		release := make(chan struct{})
		db := openMem(t, Options{NoSync: noSync, FS: &diskFS{FS: vfs.NewMem(), onSync: func() error {
			if held.Load() {
				<-release
			}
			return nil
		}}})
		mustUpdate(t, db, set("a", "1"))
		held.Store(true)
		written := make(chan error, 1)
		go func() { written <- db.Update(context.Background(), set("a", "2")) }()
		await(t, "the write to be applied", func() bool { return db.applied.Load().version == 2 })

		own := errors.New("own")
		var reads atomic.Int32
		read := func(r kv.Reader) error {
			value, err := r.Get([]byte("a"))
			reads.Add(1)
			if string(value) != "2" {
				t.Errorf("read %q, want what was applied", value)
			}
			return err
		}
		ctx := context.Background()
		answers := []func() error{
			func() error { return db.View(ctx, read) },
			func() error { return db.View(ctx, func(r kv.Reader) error { return errors.Join(read(r), own) }) },
			func() error { return db.Update(ctx, func(tx kv.Tx) error { return read(tx) }) },
			func() error {
				return db.Update(ctx, func(tx kv.Tx) error { return errors.Join(read(tx.Snapshot()), own) })
			},
			func() error {
				return db.Update(ctx, func(tx kv.Tx) error {
					tx.Set(make([]byte, kv.MaxKeySize+1), nil)
					return read(tx)
				})
			},
			func() error {
				return db.Update(ctx, func(tx kv.Tx) error {
					tx.ClearRange([]byte("x"), []byte("y"))
					return read(tx)
				})
			},
		}
		var wg sync.WaitGroup
		var answered atomic.Int32
		for _, answer := range answers {
			wg.Go(func() {
				if err := answer(); err != nil && !errors.Is(err, own) && !errors.Is(err, kv.ErrTooLarge) {
					t.Error(err)
				}
				answered.Add(1)
			})
		}
		if noSync {
			wg.Wait()
			if err := <-written; err != nil {
				t.Error(err)
			}
			close(release)
			continue
		}
		// Those that read nothing need not wait, and do not.
		if err := db.View(ctx, func(kv.Reader) error { return nil }); err != nil {
			t.Error(err)
		}
		if err := db.Update(ctx, func(kv.Tx) error { return own }); err != own {
			t.Error(err)
		}
		await(t, "everybody to have read", func() bool {
			return int(reads.Load()) == len(answers) && db.store.Metrics().Snapshots.Count == 0
		})
		for range 1000 {
			runtime.Gosched()
		}
		if n := answered.Load(); n > 0 {
			t.Errorf("%d answers before the disk had what they rest on", n)
		}
		select {
		case <-written:
			t.Error("a commit was acknowledged before it was on the disk")
		default:
		}
		close(release)
		wg.Wait()
		if err := <-written; err != nil {
			t.Error(err)
		}
	}
}

// TestFailedDisk makes the log fail, in different ways, and expects that
// nothing is answered any more, and that what was answered is there.
func TestFailedDisk(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		noSync  bool
		failing func(fs *diskFS, fail func() error)
	}{
		{"sync", false, func(fs *diskFS, fail func() error) { fs.onSync = fail }},
		{"write", false, func(fs *diskFS, fail func() error) { fs.onWrite = fail }},
		{"write without sync", true, func(fs *diskFS, fail func() error) { fs.onWrite = fail }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var failed atomic.Bool
			noticed := make(chan struct{})
			notice := sync.OnceFunc(func() { close(noticed) })
			disk := vfs.NewCrashableMem()
			fs := &diskFS{FS: disk}
			c.failing(fs, func() error {
				if failed.Load() {
					notice()
					return errors.New("the disk is gone")
				}
				return nil
			})
			fatal := make(chan error, 100)
			db := mustOpen(t, Options{FS: fs, NoSync: c.noSync, Fatal: func(err error) { fatal <- err }})
			var mu sync.Mutex
			acknowledged := map[string]bool{}
			var wg sync.WaitGroup
			for worker := range 4 {
				wg.Go(func() {
					for i, late := 0, 0; ; i++ {
						// The store crashes in its own way if it comes to begin
						// a new log before it notices. So don't write too much.
						if failed.Load() {
							if late++; late > 15 {
								<-noticed
							}
						}
						key := fmt.Sprintf("%d/%d", worker, i)
						err := db.Update(context.Background(), set(key, strings.Repeat("x", 1000)))
						if err != nil {
							if !errors.Is(err, kv.ErrUnknown) && !errors.Is(err, kv.ErrUnavailable) {
								t.Errorf("Update on a failed disk: %v", err)
							}
							return
						}
						mu.Lock()
						acknowledged[key] = true
						if len(acknowledged) == 50 {
							failed.Store(true)
						}
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			if err := <-fatal; !strings.Contains(err.Error(), "the disk is gone") {
				t.Errorf("the reason given is %v", err)
			}
			select {
			case err := <-fatal:
				t.Errorf("a second reason: %v", err)
			default:
			}
			err := db.View(context.Background(), func(r kv.Reader) error {
				_, err := r.Get([]byte("0/0"))
				return err
			})
			if !errors.Is(err, kv.ErrUnavailable) {
				t.Errorf("View afterwards: %v", err)
			}
			err = db.Update(context.Background(), set("later", ""))
			if !errors.Is(err, kv.ErrUnavailable) {
				t.Errorf("Update afterwards: %v", err)
			}
			if err := db.Close(); err == nil {
				t.Error("Close has nothing to say about it")
			}
			if c.noSync {
				return
			}
			restarted := mustOpen(t, Options{FS: disk.CrashClone(vfs.CrashCloneCfg{})})
			for key := range acknowledged {
				if mustGet(t, restarted, key) == "" {
					t.Errorf("%s was acknowledged and is lost", key)
				}
			}
			if err := restarted.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestFailedDiskEndsTheProcess is what happens in production. The process is
// this test in another process.
func TestFailedDiskEndsTheProcess(t *testing.T) {
	t.Parallel()
	const inner = "KV_LOCAL_TEST_FAILED_DISK"
	if os.Getenv(inner) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestFailedDiskEndsTheProcess$")
		cmd.Env = append(os.Environ(), inner+"=1")
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "panic: kv/local: ") || strings.Contains(string(out), "returned") {
			t.Errorf("the process ended with %v:\n%s", err, out)
		}
		return
	}
	failed := errors.New("the disk is gone")
	var fail atomic.Bool
	db := mustOpen(t, Options{FS: &diskFS{FS: vfs.NewMem(), onSync: func() error {
		if fail.Load() {
			return failed
		}
		return nil
	}}})
	fail.Store(true)
	defer func() { _ = recover() }() // does not help
	fmt.Println("returned", db.Update(context.Background(), set("a", "1")))
}

func TestCallersCanGiveUp(t *testing.T) {
	t.Parallel()
	db := openMem(t, Options{})
	over, cancel := context.WithCancel(context.Background())
	cancel()
	expect := func(err error) {
		t.Helper()
		if !errors.Is(err, kv.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want that the store is unavailable and the context is over", err)
		}
	}
	expect(db.Update(over, set("a", "1")))
	expect(db.View(over, func(kv.Reader) error { return nil }))

	// While the store stalls commits, they wait for the lock.
	if err := db.commitLock.lock(context.Background()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- db.Update(ctx, set("a", "1")) }()
	await(t, "a commit to wait", func() bool { return db.commitLock.waiting.Load() > 0 })
	if got := mustGet(t, db, "a"); got != "" { // reads go on
		t.Errorf("read %q", got)
	}
	cancel()
	expect(<-result)
	db.commitLock.unlock()

	// A closure that never gets through runs until its time is over.
	ctx, cancel = context.WithCancel(context.Background())
	runs := 0
	expect(db.Update(ctx, func(tx kv.Tx) error {
		if _, err := tx.Get([]byte("n")); err != nil {
			return err
		}
		tx.Set([]byte("m"), nil)
		if runs++; runs == 10 {
			cancel()
		}
		return db.Update(context.Background(), set("n", fmt.Sprint(runs)))
	}))
	if runs != 10 {
		t.Errorf("the closure ran %d times", runs)
	}
	m, err := db.Metrics()
	if err != nil || m.Conflicts < 9 {
		t.Errorf("metrics %+v, %v", m, err)
	}
}

func TestTransactionsAge(t *testing.T) {
	t.Parallel()
	var clock atomic.Int64
	db := openMem(t, Options{Now: func() time.Time { return time.Unix(0, clock.Load()) }})
	sleep := func(d time.Duration) { clock.Add(int64(d)) }
	mustUpdate(t, db, set("a", "1"))
	read := func(r kv.Reader) error { _, err := r.Get([]byte("a")); return err }
	ctx := context.Background()
	for _, c := range []struct {
		name string
		run  func(runs *int) error
		runs int
	}{
		{"View, in time", func(runs *int) error {
			return db.View(ctx, func(r kv.Reader) error {
				*runs++
				if err := read(r); err != nil {
					return err
				}
				sleep(kv.MaxTxAge)
				return read(r)
			})
		}, 1},
		{"View, a late read", func(runs *int) error {
			return db.View(ctx, func(r kv.Reader) error {
				if err := read(r); err != nil {
					return err
				}
				if *runs++; *runs == 1 {
					sleep(kv.MaxTxAge + 1)
				}
				return read(r)
			})
		}, 2},
		{"Update, a late first read", func(runs *int) error {
			return db.Update(ctx, func(tx kv.Tx) error {
				*runs++
				tx.Set([]byte("b"), nil)
				sleep(time.Hour)
				return read(tx)
			})
		}, 1},
		{"Update, a late commit", func(runs *int) error {
			return db.Update(ctx, func(tx kv.Tx) error {
				tx.Set([]byte("b"), nil)
				err := read(tx)
				if *runs++; *runs == 1 {
					sleep(kv.MaxTxAge + 1)
				}
				return err
			})
		}, 2},
		{"Update, an error of its own because of a late read", func(runs *int) error {
			return db.Update(ctx, func(tx kv.Tx) error {
				if err := read(tx); err != nil {
					return err
				}
				if *runs++; *runs == 1 {
					sleep(kv.MaxTxAge + 1)
				}
				if read(tx) != nil {
					return errors.New("own")
				}
				return nil
			})
		}, 2},
	} {
		runs := 0
		if err := c.run(&runs); err != nil || runs != c.runs {
			t.Errorf("%s: %d runs, want %d; error %v", c.name, runs, c.runs, err)
		}
	}
}

func TestTransactionsEnd(t *testing.T) {
	t.Parallel()
	db := openMem(t, Options{})
	var leaked kv.Tx
	mustUpdate(t, db, func(tx kv.Tx) error {
		leaked = tx
		return nil
	})
	if _, err := leaked.Get([]byte("a")); err == nil {
		t.Error("a transaction that has ended reads on")
	}
	leaked.Set([]byte("a"), nil)
	leaked.Clear([]byte("a"))
	leaked.ClearRange([]byte("a"), []byte("b"))
	leaked.Add([]byte("a"), 1)
	leaked.Max([]byte("a"), 1)
	leaked.Conflict([]byte("a"))
	select {
	case <-leaked.Watch([]byte("a")).Done():
	default:
		t.Error("a watch of a transaction that has ended has not")
	}

	// A closure that panics leaves nothing behind that keeps Close waiting.
	func() {
		defer func() { _ = recover() }()
		_ = db.Update(context.Background(), func(tx kv.Tx) error {
			if _, err := tx.Range([]byte("a"), []byte("b"), kv.RangeOptions{Limit: 1}); err != nil {
				return err
			}
			panic("own")
		})
	}()
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	if _, err := db.Metrics(); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("metrics of a closed store: %v", err)
	}
}

// TestNarrowedRangeIsStale lets a row appear in a range between the look at the
// few rows that it holds, and the commit that clears it.
func TestNarrowedRangeIsStale(t *testing.T) {
	t.Parallel()
	db := openMem(t, Options{})
	mustUpdate(t, db, set("b", "1"))
	run := db.begin()
	run.ClearRange([]byte("a"), []byte("z"))
	run.Set([]byte("c"), []byte("kept"))
	if err := run.narrow(); err != nil {
		t.Fatal(err)
	}
	if w := &run.buf.writes; len(w.cleared) != 0 || w.keys.len() != 2 {
		t.Fatalf("the range was not narrowed: %d ranges, %d keys", len(w.cleared), w.keys.len())
	}
	mustUpdate(t, db, set("d", "1"))
	if c, stale, err := db.prepare(t.Context(), run); c != nil || !stale || err != nil {
		t.Fatalf("commit: %v, stale %t, %v", c, stale, err)
	}
	run.buf.writes.widenRanges()
	c, stale, err := db.prepare(t.Context(), run)
	if c == nil || stale || err != nil {
		t.Fatalf("commit: %v, stale %t, %v", c, stale, err)
	}
	db.toApply <- applyJob{run, c}
	if err := db.await(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if got := mustGet(t, db, "b") + mustGet(t, db, "c") + mustGet(t, db, "d"); got != "kept" {
		t.Errorf("what is left is %q", got)
	}
}

func TestOverwritingKeepsTransactionsSmall(t *testing.T) {
	t.Parallel()
	db := openMem(t, Options{NoSync: true})
	value := make([]byte, kv.MaxValueSize)
	mustUpdate(t, db, func(tx kv.Tx) error {
		for i := range 1000 {
			tx.Set([]byte("a"), value[:kv.MaxValueSize-1000+i])
			tx.Set([]byte("b"), []byte("short"))
		}
		if n := cap(asTx(tx).buf.writes.values); n > 4*maxKept {
			t.Errorf("two rows take %d bytes", n)
		}
		return nil
	})
	if got := len(mustGet(t, db, "a")); got != kv.MaxValueSize-1 {
		t.Errorf("the value has %d bytes", got)
	}
}

func asTx(t kv.Tx) *tx { return t.(*tx) }

// TestLogOfADeadProcess lets a process die after the operating system took what
// it wrote, but before the disk did. The next process finds it in the log. What
// it answers must hold even if the power fails then.
func TestLogOfADeadProcess(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashableMem()
	dead := mustOpen(t, Options{FS: &forgetfulFS{diskFS{FS: disk}}})
	mustUpdate(t, dead, set("a", "1"))
	if db := mustOpen(t, Options{FS: disk.CrashClone(vfs.CrashCloneCfg{})}); mustGet(t, db, "a") != "" {
		t.Fatal("the row is on the disk, which makes the test pointless")
	} else if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	next := openMem(t, Options{FS: disk})
	if mustGet(t, next, "a") != "1" {
		t.Fatal("the row is not in the log, which makes the test pointless")
	}
	after := openMem(t, Options{FS: disk.CrashClone(vfs.CrashCloneCfg{})})
	if mustGet(t, after, "a") != "1" {
		t.Error("what a process answered is gone after a power loss")
	}
}
