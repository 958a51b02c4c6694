package local

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/testkit/patience"
)

// The steps of a commit follow one another in the order of apply. A holder of the lock
// that a step needs sees which steps are done before it.
func TestStepsOfACommit(t *testing.T) {
	t.Parallel()
	begins := map[string]func(t *testing.T) (db *DB, watch *kv.Watch, commit func() error){
		"of its own": func(t *testing.T) (db *DB, watch *kv.Watch, commit func() error) {
			db = openMem(t, Options{})
			mustUpdate(t, db, func(tx kv.Tx) error {
				tx.Set([]byte("row"), []byte("old"))
				watch = tx.Watch([]byte("row"))
				return nil
			})
			return db, watch, func() error { return db.Update(context.Background(), set("row", "new")) }
		},
		"of a log": func(t *testing.T) (db *DB, watch *kv.Watch, commit func() error) {
			r, term := startTerm(t)
			old := update(term, t.Context(), func(tx kv.Tx) error {
				tx.Set([]byte("row"), []byte("old"))
				watch = tx.Watch([]byte("row"))
				return nil
			})
			if err := errors.Join(next(t, term).Commit(position(1)), <-old); err != nil {
				t.Fatal(err)
			}
			return r.db, watch, func() error {
				return r.Apply(appendChange(nil, changeSet, []byte("row"), []byte("new")), position(2))
			}
		},
	}
	start := func(t *testing.T, db *DB, commit func() error) <-chan error {
		before := db.newest.Load().version
		done := make(chan error, 1)
		go func() { done <- commit() }()
		await(t, "the commit in the list", func() bool { return db.newest.Load().version > before })
		return done
	}
	stored := func(t *testing.T, db *DB) string {
		value, err := valueIn(db.store, []byte("row"))
		if err != nil {
			t.Fatal(err)
		}
		return string(value)
	}
	end := func(t *testing.T, db *DB, done <-chan error, watch *kv.Watch) {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		<-watch.Done()
		if value := stored(t, db); value != "new" {
			t.Errorf("the row is %q", value)
		}
	}
	for of, begin := range begins {
		for name, step := range map[string]func(db *DB) (unlock func()){
			"gaps are split":            func(db *DB) func() { db.gaps.mu.Lock(); return db.gaps.mu.Unlock },
			"the cache of rows forgets": func(db *DB) func() { db.rows.mu.Lock(); return db.rows.mu.Unlock },
		} {
			t.Run("one "+of+" can be read when "+name, func(t *testing.T) {
				t.Parallel()
				db, watch, commit := begin(t)
				unlock := sync.OnceFunc(step(db))
				defer unlock()
				done := start(t, db, commit)
				for range 1000 {
					runtime.Gosched()
					if value := stored(t, db); value != "old" {
						t.Errorf("the row is %q before %s", value, name)
						break
					}
				}
				unlock()
				end(t, db, done, watch)
			})
		}
		t.Run("watches fire when one "+of+" can be read", func(t *testing.T) {
			t.Parallel()
			db, watch, commit := begin(t)
			db.watches.mu.Lock()
			unlock := sync.OnceFunc(db.watches.mu.Unlock)
			defer unlock()
			done := start(t, db, commit)
			await(t, "the new row", func() bool { return stored(t, db) == "new" })
			unlock()
			end(t, db, done, watch)
		})
	}
}

// An answer waits for the newest commit that it may depend on: a commit in the list may
// be readable before it counts as applied.
func TestAnswersWaitForLinkedCommits(t *testing.T) {
	t.Parallel()
	db := openMem(t, Options{})
	mustUpdate(t, db, set("row", "old"))
	applied := db.newest.Load()
	linked := &commit{version: applied.version + 1, durable: make(chan struct{})}
	db.newest.Store(linked)
	answered := make(chan error, 1)
	go func() {
		answered <- db.View(context.Background(), func(r kv.Reader) error {
			_, err := r.Get([]byte("row"))
			return err
		})
	}()
	for range 1000 {
		runtime.Gosched()
		select {
		case err := <-answered:
			t.Fatalf("answered before the commit was durable: %v", err)
		default:
		}
	}
	close(linked.durable)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	db.newest.Store(applied)
}

// What a transaction reads contains all commits up to the commit that it pins, and none
// after the one whose sync it awaits, whenever it begins while others commit.
func TestStateToReadLiesBetweenItsCommits(t *testing.T) {
	t.Parallel()
	const (
		readers = 4
		opened  = 2_000 // transactions of each reader
	)
	db := openMem(t, Options{NoSync: true})
	first := db.newest.Load().version + 1
	commit := func(version uint64) error {
		return db.Update(context.Background(), set("version", strconv.FormatUint(version, 10)))
	}
	if err := commit(first); err != nil {
		t.Fatal(err)
	}
	check := func() error {
		run := db.begin(nil)
		defer run.end()
		if err := run.open(); err != nil {
			return err
		}
		value, err := valueIn(run.snap, []byte("version"))
		if err != nil {
			return err
		}
		there, err := strconv.ParseUint(string(value), 10, 64)
		if err == nil && (there < run.pinned.version || there > run.upper.version) {
			err = fmt.Errorf("the state contains commits up to %d, expected one from %d to %d", there, run.pinned.version, run.upper.version)
		}
		return err
	}
	var reading, writing sync.WaitGroup
	for range readers {
		reading.Go(func() {
			for range opened {
				if err := check(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	var enough atomic.Bool
	writing.Go(func() {
		for version := first + 1; !enough.Load(); version++ {
			if err := commit(version); err != nil {
				t.Error(err)
				return
			}
		}
	})
	reading.Wait()
	enough.Store(true)
	writing.Wait()
}

// A transaction that loses against a commit which cannot be read yet runs again when
// it can: another run before that would lose again.
func TestLoserWaitsForTheWinner(t *testing.T) {
	t.Parallel()
	db := openMem(t, Options{})
	mustUpdate(t, db, set("row", "old"))
	before := db.newest.Load().version
	db.gaps.mu.Lock() // the winner stops between the list and the store
	unlock := sync.OnceFunc(db.gaps.mu.Unlock)
	defer unlock()
	won := make(chan error, 1)
	go func() { won <- db.Update(context.Background(), set("row", "new")) }()
	await(t, "the winner in the list", func() bool { return db.newest.Load().version > before })
	var runs atomic.Int32
	var read atomic.Value
	lost := make(chan error, 1)
	go func() {
		lost <- db.Update(context.Background(), func(tx kv.Tx) error {
			runs.Add(1)
			value, err := tx.Get([]byte("row"))
			read.Store(string(value))
			tx.Set([]byte("other"), nil)
			return err
		})
	}()
	await(t, "the loser to wait or to run again", func() bool { return db.commits.lock.waiters() > 0 || runs.Load() > 1 })
	unlock()
	for _, done := range []<-chan error{won, lost} {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if n, value := runs.Load(), read.Load(); n != 2 || value != "new" {
		t.Errorf("the loser ran %d times and has read %q, expected 2 runs and the winner's row", n, value)
	}
}

// A transaction that lost does not wait for the winner beyond its context.
func TestLoserGivesUp(t *testing.T) {
	t.Parallel()
	db := openMem(t, Options{})
	mustUpdate(t, db, set("row", "old"))
	before := db.newest.Load().version
	db.gaps.mu.Lock() // the winner stops between the list and the store
	unlock := sync.OnceFunc(db.gaps.mu.Unlock)
	defer unlock()
	won := make(chan error, 1)
	go func() { won <- db.Update(context.Background(), set("row", "new")) }()
	await(t, "the winner in the list", func() bool { return db.newest.Load().version > before })
	ctx, giveUp := context.WithCancel(t.Context())
	lost := make(chan error, 1)
	go func() {
		lost <- db.Update(ctx, func(tx kv.Tx) error {
			_, err := tx.Get([]byte("row"))
			tx.Set([]byte("other"), nil)
			return err
		})
	}()
	await(t, "the loser to wait", func() bool { return db.commits.lock.waiters() > 0 })
	giveUp()
	select {
	case err := <-lost:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the loser: %v", err)
		}
	case <-patience.Late():
		t.Error("the loser waits for the winner beyond its context")
	}
	unlock()
	if err := <-won; err != nil {
		t.Error(err)
	}
}
