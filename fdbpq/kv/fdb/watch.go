//go:build fdb

package fdb

import (
	"bytes"
	"maps"
	"slices"
	"sync"

	apple "github.com/apple/foundationdb/bindings/go/src/fdb"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// watch is a watch that has not ended. From the commit on each watch has a goroutine that waits for it, because the
// bindings offer no other way. A goroutine costs a few kilobytes and no time.
type watch struct {
	db   *DB
	key  []byte
	done chan struct{}
	late bool // its own transaction has written the key since

	mu     sync.Mutex
	future apple.FutureNil // nil: it is not active yet
	ended  bool
}

func (db *DB) newWatch(key []byte) *watch {
	w := &watch{db: db, key: bytes.Clone(key), done: make(chan struct{})}
	db.mu.Lock()
	defer db.mu.Unlock()
	db.watches[w] = struct{}{}
	return w
}

// activate waits until the library's watch ends. The library also ends it when its
// transaction does not commit.
func (w *watch) activate(future apple.FutureNil) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		future.Cancel()
		return
	}
	w.future = future
	w.db.watching.Add(1)
	go w.follow()
}

func (w *watch) follow() {
	defer w.db.watching.Done()
	// The waiter reads the key again in any case: it has changed, or the library has lost
	// the watch.
	if err := w.future.Get(); err != nil && code(err) == codeTooManyWatches {
		w.db.refusedWatches.Add(1)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end()
}

// cancel ends the watch. It may be called repeatedly.
func (w *watch) cancel() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.ended:
	case w.future != nil:
		w.future.Cancel()
	default:
		w.end()
	}
}

// end ends the watch. w.mu is held.
func (w *watch) end() {
	w.ended = true
	w.db.mu.Lock()
	delete(w.db.watches, w)
	w.db.mu.Unlock()
	close(w.done)
}

// cancelWatches ends all watches.
func (db *DB) cancelWatches() {
	db.mu.Lock()
	all := slices.Collect(maps.Keys(db.watches))
	db.mu.Unlock()
	for _, w := range all {
		w.cancel()
	}
}

// endedWatch is a watch of a transaction that can set none.
func endedWatch() *kv.Watch {
	done := make(chan struct{})
	close(done)
	return kv.NewWatch(done, func() {})
}

func (t *tx) Watch(key []byte) *kv.Watch {
	if t.usable() != nil {
		return endedWatch()
	}
	w := t.run.db.newWatch(key)
	t.watches = append(t.watches, w)
	return kv.NewWatch(w.done, w.cancel)
}

// wrote ends the watches of a key when the transaction ends.
func (t *tx) wrote(key []byte) {
	for _, w := range t.watches {
		w.late = w.late || bytes.Equal(w.key, key)
	}
}

// cleared does the same for a range of keys.
func (t *tx) cleared(begin, end []byte) {
	for _, w := range t.watches {
		w.late = w.late || bytes.Compare(w.key, begin) >= 0 && bytes.Compare(w.key, end) < 0
	}
}

// watch begins to watch a key for the time after the commit.
func (t *tx) watch(w *watch) error {
	if w.late {
		w.cancel()
		return nil
	}
	r := t.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead {
		return errAbandoned
	}
	w.activate(r.tr.Watch(t.prefixed(&t.key1, w.key)))
	return nil
}

// watchAside watches the keys by another transaction, which reads the same state. Watches of this transaction
// itself would make its commit depend on the keys. The commit still depends on a key to which this transaction
// gives another value.
func (t *tx) watchAside() (aside *run, err error) {
	version, err := t.version()
	if err != nil {
		return nil, err
	}
	if aside, err = t.run.db.begin(t.run.ctx); err != nil {
		return nil, errAbandoned
	}
	aside.tr.SetReadVersion(version)
	other := newTx(aside)
	for _, w := range t.watches {
		t.Prefetch(w.key)
		other.Prefetch(w.key)
	}
	for _, w := range t.watches {
		own, _ := t.get(w.key, true)
		old, _ := other.get(w.key, true)
		by := other
		switch {
		case t.failure != nil:
			return aside, t.failure.err
		case other.failure != nil:
			return aside, other.failure.err
		case !bytes.Equal(own, old) || (own == nil) != (old == nil):
			by = t
		}
		if err := by.watch(w); err != nil {
			return aside, err
		}
	}
	return aside, nil
}

// endWatches ends the watches of a run that did not commit.
func (t *tx) endWatches() {
	for _, w := range t.watches {
		w.cancel()
	}
}
