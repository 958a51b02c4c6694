package fdbpq

import (
	"bytes"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/internal/inside"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// lineage is one generation of a queue. What a queue has outside its generations is in 0.
type lineage struct {
	queue      string
	generation int64
}

// walk is the state of a Check under way.
type walk struct {
	inside.Findings
	store    *Store
	queues   map[string]*queueState
	high     map[string]int64
	found    map[lineage]*queueTx      // with the tallies of the rows
	stored   map[lineage]*layout.Tally // read from the counters
	work     *Work                     // in which change says what items have
	written  *rowsWritten              // by it
	rows     map[string]expectedRow    // that other rows ask for, by key, as long as they are not found
	chunks   map[string]int64          // missing bytes by the key of their item
	popItems map[string]int64          // missing items of remembered pops, by the prefix of their keys
	keys     map[keyOf]*keyFound
	known    keysKnown
}

func newWalk(s *Store) *walk {
	written := new(rowsWritten)
	return &walk{
		store:    s,
		queues:   make(map[string]*queueState),
		high:     make(map[string]int64),
		found:    make(map[lineage]*queueTx),
		stored:   make(map[lineage]*layout.Tally),
		work:     &Work{transaction: transaction{store: new(Store), tx: written}}, // a store whose alarm wakes nobody
		written:  written,
		rows:     make(map[string]expectedRow),
		chunks:   make(map[string]int64),
		popItems: make(map[string]int64),
		keys:     make(map[keyOf]*keyFound),
		known:    newKeysKnown(),
	}
}

// rowsWritten is a transaction that keeps what is written.
type rowsWritten struct {
	kv.Tx // none: change reads nothing
	rows  []kv.Pair
}

func (t *rowsWritten) Set(key, value []byte) {
	t.rows = append(t.rows, kv.Pair{Key: bytes.Clone(key), Value: bytes.Clone(value)})
}

type expectedRow struct {
	value    string
	optional bool
}

// foundRow is a row that a Check has read.
type foundRow struct {
	kv.Pair
	space string
	lineage
	state *queueState // nil: there is no such queue
	rest  []byte      // of the key, behind the lineage
}

// rowCheck reports a row that is not as it should be.
type rowCheck func(*walk, *foundRow) error

func (w *walk) row(kind layout.RowKind, check rowCheck, pair kv.Pair) (err error) {
	r := foundRow{Pair: pair, space: kind.Space, rest: pair.Key[len(layout.Row(kind.Space)):]}
	if kind.Lasts == layout.OfStore {
		return check(w, &r)
	}
	if r.queue, r.rest, err = tuple.ConsumeString(r.rest); err != nil {
		return err
	}
	r.state = w.queues[r.queue]
	if kind.Space == layout.SpaceOverhead && r.state == nil {
		return nil // an earlier version has deleted the queue
	}
	if kind.Lasts == layout.OfGeneration {
		if r.generation, r.rest, err = tuple.ConsumeInt(r.rest); err != nil {
			return err
		}
		if r.generation != 0 || kind.Space != layout.SpaceCounter { // some counters outlive generations
			if past, err := r.past(); past || err != nil {
				return err
			}
		}
	}
	return check(w, &r)
}

// past reports whether the row is of a past generation: CollectGarbage clears it later. A
// deleted queue has no rows in the generation that a later queue of its name begins with.
func (r *foundRow) past() (bool, error) {
	s := r.state
	switch {
	case s == nil:
		return false, fmt.Errorf("there is no queue %q", r.queue)
	case r.generation == s.generation && s.exists:
		return false, nil
	case r.generation >= s.generation:
		return false, fmt.Errorf("generation %d is in the future: the queue is in %d, exists: %t", r.generation, s.generation, s.exists)
	}
	return true, nil
}

// expect notes that there is to be a row.
func (w *walk) expect(key, value []byte) {
	if other, twice := w.rows[string(key)]; twice && other.value != string(value) {
		w.Problem("two items have the row %q", key)
	}
	w.rows[string(key)] = expectedRow{value: string(value)}
}

// of returns a queue in a generation, with what was found of it.
func (w *walk) of(line lineage) *queueTx {
	qtx := w.found[line]
	if qtx == nil {
		qtx = w.work.with(line.queue, w.queues[line.queue])
		w.found[line] = qtx
	}
	return qtx
}

// living returns an error when the queue of a row does not exist.
func (r *foundRow) living() error {
	if r.state == nil || !r.state.exists {
		return fmt.Errorf("there is no queue %q", r.queue)
	}
	return nil
}

// keyOf is a key in one generation of a queue.
type keyOf struct {
	lineage
	key string
}

// keyFound is what a Check has found of a key.
type keyFound struct {
	first *layout.Place // of its ready items
	begun *layout.Place // of those that were leased before
	head  *layout.Place // first row with which pops find it
	held  int           // leased items, and ones that wait between two leases
	fair  *int64        // first class in which it has a row
	heavy bool          // a push gave it a weight
}

type (
	queueKey   struct{ queue, key string }
	queueTimer struct{ queue, kind string }
)

// keysKnown is what a Check has found that queues keep of keys outside their generations.
type keysKnown struct {
	waits    map[queueKey]bool // for a token
	settings map[queueKey]KeySettings
	working  map[queueTimer]bool // timers of queues that look at many rows

	fences map[queueKey]int64 // highest of the items of keys
	last   map[queueKey]int64 // last ones of keys
	passed int64              // by store time
}

func newKeysKnown() keysKnown {
	return keysKnown{
		waits: make(map[queueKey]bool), settings: make(map[queueKey]KeySettings), working: make(map[queueTimer]bool),
		fences: make(map[queueKey]int64), last: make(map[queueKey]int64),
	}
}

// foundRowOfItem checks a row that an item has besides its own.
func foundRowOfItem(w *walk, r *foundRow) error {
	if expected, ok := w.rows[string(r.Key)]; !ok || expected.value != string(r.Value) {
		return fmt.Errorf("it belongs to no item")
	}
	delete(w.rows, string(r.Key))
	return nil
}
