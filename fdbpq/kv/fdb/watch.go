//go:build fdb

package fdb

import (
	apple "github.com/apple/foundationdb/bindings/go/src/fdb"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// watch is a watch that has not ended. A goroutine waits for each, since the
// bindings offer nothing else; that is a few kilobytes and no time.
type watch struct {
	future apple.FutureNil
	done   chan struct{}
}

// newWatch follows the future until it ends. The library also ends it when the
// transaction does not commit.
func (db *DB) newWatch(future apple.FutureNil) *kv.Watch {
	w := &watch{future: future, done: make(chan struct{})}
	db.mu.Lock()
	db.watches[w] = struct{}{}
	db.mu.Unlock()
	db.watching.Add(1)
	go db.follow(w)
	return kv.NewWatch(w.done, future.Cancel)
}

func (db *DB) follow(w *watch) {
	defer db.watching.Done()
	// The waiter reads the key again, whether it has changed or the library cannot
	// tell any more.
	if err := w.future.Get(); err != nil && code(err) == codeTooManyWatches {
		db.refusedWatches.Add(1)
	}
	db.mu.Lock()
	delete(db.watches, w)
	db.mu.Unlock()
	close(w.done)
}

// cancelWatches ends all watches.
func (db *DB) cancelWatches() {
	db.mu.Lock()
	defer db.mu.Unlock()
	for w := range db.watches {
		w.future.Cancel()
	}
}

// endedWatch is a watch of a transaction that can set none.
func endedWatch() *kv.Watch {
	done := make(chan struct{})
	close(done)
	return kv.NewWatch(done, func() {})
}
