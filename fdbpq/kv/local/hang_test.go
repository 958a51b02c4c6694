package local

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// hold blocks callers while it is closed.
type hold struct {
	closed atomic.Bool
	open   chan struct{}
	held   chan struct{} // closed when a caller is blocked
	once   sync.Once
}

func newHold() *hold { return &hold{open: make(chan struct{}), held: make(chan struct{})} }

func (h *hold) pass() error {
	if h.closed.Load() {
		h.once.Do(func() { close(h.held) })
		<-h.open
	}
	return nil
}

// hold closes it, until it is released or the test ends.
func (h *hold) hold(t *testing.T) {
	h.closed.Store(true)
	t.Cleanup(h.release)
}

func (h *hold) release() {
	if h.closed.Swap(false) {
		close(h.open)
	}
}

// TestDiskThatHangs blocks the log at each place where it can hang. A caller that gives
// up gets an answer: the commit is on its way, or there is none. When the disk continues,
// so does the store.
func TestDiskThatHangs(t *testing.T) {
	t.Parallel()
	const aFew = 10 * 100_000 // bytes, more than the first table in memory takes
	isLog := func(name string) bool { return strings.HasSuffix(name, ".log") }
	for _, c := range []struct {
		name   string
		noSync bool
		at     func(*diskFS, *hold)
		bytes  int // to be written until the place is reached
	}{
		{name: "write", at: func(d *diskFS, h *hold) { d.onWrite = h.pass }},
		{name: "write without sync", noSync: true, at: func(d *diskFS, h *hold) { d.onWrite = h.pass }},
		{name: "sync", at: func(d *diskFS, h *hold) { d.onSync = h.pass }},
		{name: "new log", bytes: aFew, at: func(d *diskFS, h *hold) {
			d.onCreate = func(name string) error {
				if isLog(name) {
					return h.pass()
				}
				return nil
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var clock atomic.Int64
			disk, place := &diskFS{FS: vfs.NewMem()}, newHold()
			c.at(disk, place)
			db := openMem(t, Options{FS: disk, NoSync: c.noSync, Now: func() time.Time { return time.Unix(0, clock.Load()) }})
			mustUpdate(t, db, set("a", "before"))
			before := db.newest.Load()
			place.hold(t)

			// One commit is held up.
			ctx, giveUp := context.WithCancel(t.Context())
			first := make(chan error, 1)
			go func() {
				for i := 0; ; i++ {
					err := db.Update(ctx, func(tx kv.Tx) error {
						tx.Set([]byte("a"), []byte("held"))
						tx.Set([]byte{byte(i)}, make([]byte, min(c.bytes, kv.MaxValueSize)))
						return nil
					})
					if err != nil || c.bytes == 0 {
						first <- err
						return
					}
				}
			}()
			<-place.held
			await(t, "the commit to be held up", func() bool { return isHeldUp(db, before, c.bytes > 0) })

			// Others, and readers, wait, and give up by themselves.
			clock.Add(int64(lateAfter))
			read := func(r kv.Reader) error { _, err := r.Get([]byte("a")); return err }
			for _, wait := range []func(context.Context) error{
				func(ctx context.Context) error { return db.Update(ctx, set("b", "never")) },
				func(ctx context.Context) error { return db.View(ctx, read) },
				func(ctx context.Context) error { return db.Update(ctx, func(tx kv.Tx) error { return read(tx) }) },
			} {
				over, cancel := context.WithCancel(t.Context())
				asking := &asking{Context: over, asked: make(chan struct{})}
				refused := make(chan error, 1)
				go func() { refused <- wait(asking) }()
				<-asking.asked
				cancel()
				if err := <-refused; !errors.Is(err, kv.ErrUnavailable) || errors.Is(err, kv.ErrUnknown) || !errors.Is(err, context.Canceled) {
					t.Errorf("while the disk hangs: %v", err)
				}
			}
			giveUp()
			if err := <-first; !errors.Is(err, kv.ErrUnknown) || !errors.Is(err, context.Canceled) {
				t.Errorf("the commit that is held up: %v", err)
			}

			place.release()
			mustUpdate(t, db, set("c", "after"))
			for key, want := range map[string]string{"a": "held", "b": "", "c": "after"} {
				if got := mustGet(t, db, key); got != want {
					t.Errorf("%s is %q, expected %q", key, got, want)
				}
			}
		})
	}
}

// asking is a context that tells when a caller begins to wait for its end.
type asking struct {
	context.Context
	once  sync.Once
	asked chan struct{}
}

func (p *asking) Done() <-chan struct{} {
	p.once.Do(func() { close(p.asked) })
	return p.Context.Done()
}

// isHeldUp reports whether a commit after this one waits: for a log, or to be synced.
func isHeldUp(db *DB, before *commit, forLog bool) bool {
	newest := db.newest.Load()
	if forLog {
		return newest != db.applied.Load()
	}
	return newest != before && db.commits.syncing.Load() == newest
}

// Close waits for commits whose callers have given up.
func TestCloseAfterGivingUp(t *testing.T) {
	t.Parallel()
	place := newHold()
	disk := vfs.NewMem()
	db := mustOpen(t, Options{FS: &diskFS{FS: disk, onSync: place.pass}})
	before := db.newest.Load()
	place.hold(t)
	ctx, giveUp := context.WithCancel(t.Context())
	held := make(chan error, 1)
	go func() { held <- db.Update(ctx, set("a", "1")) }()
	await(t, "the commit to be held up", func() bool { return isHeldUp(db, before, false) })
	giveUp()
	if err := <-held; !errors.Is(err, kv.ErrUnknown) {
		t.Errorf("the commit that is held up: %v", err)
	}
	closed := make(chan error, 1)
	go func() { closed <- db.Close() }()
	await(t, "the store to be closed", func() bool {
		return errors.Is(db.View(t.Context(), func(kv.Reader) error { return nil }), kv.ErrClosed)
	})
	place.release()
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if value := mustGet(t, openMem(t, Options{FS: disk}), "a"); value != "1" {
		t.Errorf("read %q", value)
	}
}
