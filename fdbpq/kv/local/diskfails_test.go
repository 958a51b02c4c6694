package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

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
			if err := db.Backup("backup"); err == nil || !strings.Contains(err.Error(), "the disk is gone") {
				t.Errorf("Backup afterwards: %v", err)
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

// If the log cannot be ended, or a new one begun, the store says so before Pebble ends the
// process.
func TestLogThatCannotBeReplaced(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why     string
		noSync  bool
		failing func(fs *diskFS, fail func() error)
	}{
		{"beginning a new log failed: the disk is gone", false, func(fs *diskFS, fail func() error) {
			fs.onCreate = func(name string) error {
				if strings.HasSuffix(name, ".log") {
					return fail()
				}
				return nil
			}
		}},
		{"writing the store's log failed: the disk is gone", false, func(fs *diskFS, fail func() error) { fs.onWrite = fail }},
		{"syncing the store's log failed: the disk is gone", false, func(fs *diskFS, fail func() error) { fs.onSync = fail }},
		{"closing the store's log failed: the disk is gone", false, func(fs *diskFS, fail func() error) { fs.onClose = fail }},
		{"closing the store's log failed: the disk is gone", true, func(fs *diskFS, fail func() error) { fs.onSync = fail }},
	} {
		t.Run(fmt.Sprintf("%s, without syncs %t", c.why, c.noSync), func(t *testing.T) {
			t.Parallel()
			var fail atomic.Bool
			fs := &diskFS{FS: vfs.NewMem()}
			c.failing(fs, func() error {
				if fail.Load() {
					return errors.New("the disk is gone")
				}
				return nil
			})
			fatal := make(chan error, 1)
			db := mustOpen(t, Options{FS: fs, NoSync: c.noSync, Fatal: func(err error) {
				fatal <- err
				select {} // as in production, it does not return
			}})
			mustUpdate(t, db, set("a", "1"))
			fail.Store(true)
			go db.store.Flush() // it ends the log and begins another one
			if err := <-fatal; !strings.Contains(err.Error(), c.why) {
				t.Errorf("the reason given is %v", err)
			}
			if err := db.Update(context.Background(), set("b", "2")); !errors.Is(err, kv.ErrUnavailable) {
				t.Errorf("Update afterwards: %v", err)
			}
		})
	}
}

// Close returns why the log could not be closed, and ends nothing.
func TestLogThatCannotBeClosed(t *testing.T) {
	t.Parallel()
	var fail atomic.Bool
	fs := &diskFS{FS: vfs.NewMem(), onClose: func() error {
		if fail.Load() {
			return errors.New("the disk is gone")
		}
		return nil
	}}
	db := mustOpen(t, Options{FS: fs, Fatal: func(err error) { t.Errorf("the store ended the process: %v", err) }})
	mustUpdate(t, db, set("a", "1"))
	fail.Store(true)
	if err := db.Close(); err == nil || !strings.Contains(err.Error(), "the disk is gone") {
		t.Errorf("Close: %v", err)
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
