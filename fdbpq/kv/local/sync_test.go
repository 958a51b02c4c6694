package local

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

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
		// Transactions that read nothing need not wait, and do not.
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
