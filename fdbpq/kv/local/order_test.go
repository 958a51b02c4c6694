package local

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// The steps of a commit follow one another as tryCommit says. Whoever holds the
// lock that a step needs sees which steps are done before it.
func TestStepsOfACommit(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T) (db *DB, watch *kv.Watch, commit func() <-chan error) {
		db = openMem(t, Options{})
		mustUpdate(t, db, func(tx kv.Tx) error {
			tx.Set([]byte("row"), []byte("old"))
			watch = tx.Watch([]byte("row"))
			return nil
		})
		return db, watch, func() <-chan error {
			before := db.newest.Load().version
			done := make(chan error, 1)
			go func() { done <- db.Update(context.Background(), set("row", "new")) }()
			await(t, "the commit in the list", func() bool { return db.newest.Load().version > before })
			return done
		}
	}
	stored := func(t *testing.T, db *DB) string {
		value, err := db.read(db.store, []byte("row"))
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
	for name, step := range map[string]func(db *DB) (unlock func()){
		"gaps are split":            func(db *DB) func() { db.gaps.mu.Lock(); return db.gaps.mu.Unlock },
		"the cache of rows forgets": func(db *DB) func() { db.rows.mu.Lock(); return db.rows.mu.Unlock },
	} {
		t.Run("it can be read when "+name, func(t *testing.T) {
			t.Parallel()
			db, watch, commit := begin(t)
			unlock := sync.OnceFunc(step(db))
			defer unlock()
			done := commit()
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
	t.Run("watches fire when it can be read", func(t *testing.T) {
		t.Parallel()
		db, watch, commit := begin(t)
		db.watches.mu.Lock()
		unlock := sync.OnceFunc(db.watches.mu.Unlock)
		defer unlock()
		done := commit()
		await(t, "the new row", func() bool { return stored(t, db) == "new" })
		unlock()
		end(t, db, done, watch)
	})
}

// An answer waits for the newest commit that it may depend on: a commit in the list may
// be readable before it counts as applied.
func TestAnswersWaitForWhatIsLinked(t *testing.T) {
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
