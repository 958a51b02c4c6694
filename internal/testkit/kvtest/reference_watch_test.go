package kvtest

import "github.com/pqbridge/pqbridge/fdbpq/kv"

func (tx *referenceTx) Watch(key []byte) *kv.Watch {
	done := make(chan struct{})
	w := &referenceWatch{db: tx.db, key: string(key), value: valueOf(tx.rows, string(key)), done: done}
	tx.watches = append(tx.watches, w)
	return kv.NewWatch(done, w.cancel)
}

func (tx *referenceTx) endWatches() {
	tx.db.mu.Lock()
	defer tx.db.mu.Unlock()
	for _, w := range tx.watches {
		w.end()
	}
}

// referenceWatch waits for its key to have another value.
type referenceWatch struct {
	db         *reference
	key, value string
	done       chan struct{}
	ended      bool
}

// valueOf returns a value so that a missing one differs from an empty one.
func valueOf(rows []referenceRow, key string) string {
	i, found := find(rows, key)
	if !found {
		return "missing"
	}
	return "=" + rows[i].value
}

// end is called with the store's lock held.
func (w *referenceWatch) end() {
	delete(w.db.watches, w)
	if !w.ended {
		w.ended = true
		close(w.done)
	}
}

func (w *referenceWatch) cancel() {
	w.db.mu.Lock()
	defer w.db.mu.Unlock()
	switch w.db.flaw {
	case cancelPanics:
		close(w.done)
	case cancelEndsAll:
		for other := range w.db.watches {
			other.end()
		}
	case cancelIsSilent:
		delete(w.db.watches, w)
		return
	}
	w.end()
}

// missed reports whether a flaw makes the watch miss a commit.
func (w *referenceWatch) missed(tx *referenceTx) bool {
	heard := false
	for _, o := range tx.ops {
		if keySpan(w.key).overlaps(o.span()) {
			switch o.kind {
			case opAdd, opMax:
				heard = heard || !tx.is(watchDeafToIntegers)
			case opClearRange:
				heard = heard || !tx.is(watchDeafToRanges)
			default:
				heard = true
			}
		}
	}
	return !heard
}
