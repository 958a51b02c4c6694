package fdbpq

import (
	"bytes"
	"context"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Check reads the whole store and returns a sentence for each violation of an
// invariant, at most maxProblems. Nothing may write to the store meanwhile: a
// concurrent write looks like damage.
//
// The invariants:
//   - every row can be parsed;
//   - an item has exactly the rows that change writes for it, timers included;
//   - counters equal the number of rows that they count;
//   - remembered ids have exactly the timers they need;
//   - a remembered pop has all of its items, and was repeated if it has none;
//   - large payloads are complete and belong to an item;
//   - no two items have one unique value;
//   - pops find a key that may be leased;
//   - settings of keys are counted, and keys that take turns have a row in their order;
//   - the next fence of a key is higher than those of its items, and old ones are forgotten;
//   - a schedule has the one index row that it needs, and is counted;
//   - a link holds the items of its last batch, and no others are held;
//   - no item has a count beyond the highest one assigned.
func (s *Store) Check(ctx context.Context) ([]string, error) {
	w := newWalk(s)
	err := s.db.View(ctx, func(r kv.Reader) error {
		written, err := r.Get(row(spaceTime))
		w.known.passed = int64(kv.DecodeInteger(written)) / keyFenceUnit
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	for i := range rowKinds {
		if err := w.visit(ctx, &rowKinds[i]); err != nil {
			return nil, fmt.Errorf("check: %w", err)
		}
	}
	w.balance()
	return w.problems, nil
}

const (
	maxProblems   = 100
	checkRows     = 1000
	checkRowBytes = 4 << 20
)

// lineage is one generation of a queue. What a queue has outside its generations is in 0.
type lineage struct {
	queue      string
	generation int64
}

// walk is the state of a Check under way.
type walk struct {
	store    *Store
	problems []string
	queues   map[string]*queueState
	high     map[string]int64
	found    map[lineage]*queueTx   // with the tallies of the rows
	stored   map[lineage]*tally     // read from the counters
	work     *Work                  // in which change says what items have
	written  *rowsWritten           // by it
	rows     map[string]expectedRow // that other rows ask for, by key, as long as they are not found
	chunks   map[string]int64       // missing bytes by the key of their item
	popItems map[string]int64       // missing items of remembered pops, by the prefix of their keys
	keys     map[keyOf]*keyFound
	known    keysKnown

	schedules schedulesFound
	held      map[holding]bool // items that links hold, and whether the links know that
}

func newWalk(s *Store) *walk {
	written := new(rowsWritten)
	return &walk{
		store:    s,
		queues:   make(map[string]*queueState),
		high:     make(map[string]int64),
		found:    make(map[lineage]*queueTx),
		stored:   make(map[lineage]*tally),
		work:     &Work{store: new(Store), tx: written}, // a store whose alarm wakes nobody
		written:  written,
		rows:     make(map[string]expectedRow),
		chunks:   make(map[string]int64),
		popItems: make(map[string]int64),
		keys:     make(map[keyOf]*keyFound),
		known:    newKeysKnown(),

		schedules: newSchedulesFound(),
		held:      make(map[holding]bool),
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

func (w *walk) problem(format string, args ...any) {
	if len(w.problems) < maxProblems {
		w.problems = append(w.problems, fmt.Sprintf(format, args...))
	}
}

// visit checks all rows of a kind.
func (w *walk) visit(ctx context.Context, kind *rowKind) error {
	if kind.check == nil {
		return nil
	}
	begin, end := tuple.Range(row(kind.space))
	for {
		var page []kv.Pair
		err := w.store.db.View(ctx, func(r kv.Reader) (err error) {
			page, err = r.Range(begin, end, kv.RangeOptions{Limit: checkRows, MaxBytes: checkRowBytes})
			return err
		})
		if err != nil || len(page) == 0 {
			return err
		}
		for _, pair := range page {
			if err := w.row(kind, pair); err != nil {
				w.problem("row %q: %v", pair.Key, err)
			}
		}
		begin = append(page[len(page)-1].Key, 0)
	}
}

func (w *walk) row(kind *rowKind, pair kv.Pair) (err error) {
	r := foundRow{Pair: pair, space: kind.space, rest: pair.Key[len(row(kind.space)):]}
	if kind.lasts == ofStore {
		return kind.check(w, &r)
	}
	if r.queue, r.rest, err = tuple.ConsumeString(r.rest); err != nil {
		return err
	}
	r.state = w.queues[r.queue]
	if kind.lasts == ofGeneration {
		if r.generation, r.rest, err = tuple.ConsumeInt(r.rest); err != nil {
			return err
		}
		if r.generation != 0 || kind.space != spaceCounter { // some counters outlive generations
			if past, err := r.past(); past || err != nil {
				return err
			}
		}
	}
	return kind.check(w, &r)
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
		w.problem("two items have the row %q", key)
	}
	w.rows[string(key)] = expectedRow{value: string(value)}
}

// foundRowOfItem checks a row that an item has besides its own.
func foundRowOfItem(w *walk, r *foundRow) error {
	if expected, ok := w.rows[string(r.Key)]; !ok || expected.value != string(r.Value) {
		return fmt.Errorf("it belongs to no item")
	}
	delete(w.rows, string(r.Key))
	return nil
}

func foundState(w *walk, r *foundRow) (err error) {
	w.queues[r.queue], err = parseState(r.Value)
	return err
}

func foundHighest(w *walk, r *foundRow) error {
	w.high[r.queue] = int64(kv.DecodeInteger(r.Value))
	return nil
}

// of returns a queue in a generation, with what was found of it.
func (w *walk) of(line lineage) *queueTx {
	qtx := w.found[line]
	if qtx == nil {
		qtx = &queueTx{Work: w.work, name: line.queue, state: w.queues[line.queue]}
		w.found[line] = qtx
	}
	return qtx
}

// foundItem expects the rows that change writes for the item.
func foundItem(w *walk, r *foundRow) error {
	p, err := parsePlace(r.rest)
	if err != nil && r.space == spaceReady {
		return nil // another program's item, whose priority has a type that we do not use
	}
	if err != nil {
		return err
	}
	l, err := parseItemRow(r.space, r.Value, p)
	if err != nil || l.foreign {
		return err
	}
	if count, err := p.count(); err != nil {
		return err
	} else if count > w.high[r.queue] {
		w.problem("queue %q: item %s has count %d, the highest assigned is %d", r.queue, l.id(p), count, w.high[r.queue])
	}
	if l.chunks > 0 {
		w.chunks[r.queue+"\x00"+p.tail] += l.size
	}
	qtx := w.of(r.lineage)
	qtx.change(nil, l)
	rows := w.written.rows
	w.written.rows, qtx.keys = rows[:0], keyChanges{}
	if !bytes.Equal(rows[0].Key, r.Key) {
		return fmt.Errorf("item with key %q is in the space %q", l.key, r.space)
	}
	for _, row := range rows[1:] {
		w.expect(row.Key, row.Value)
	}
	if l.held() {
		w.held[holding{r.queue, l.holder, p}] = false
	}
	return w.itemOfKey(qtx, l)
}

func foundChunk(w *walk, r *foundRow) error {
	count, random, err := tuple.ConsumeInt(r.rest)
	if err != nil {
		return err
	}
	_, number, err := tuple.ConsumeBytes(random)
	if err != nil {
		return err
	}
	key := r.queue + "\x00" + string(r.rest[:len(r.rest)-len(number)])
	if _, ok := w.chunks[key]; !ok {
		return fmt.Errorf("chunk of no item (count %d)", count)
	}
	w.chunks[key] -= int64(len(r.Value))
	return nil
}

// foundRequest checks a row of a request of the recipe, or of its result.
func foundRequest(w *walk, r *foundRow) error {
	due, _, err := tuple.ConsumeInt(r.Value)
	w.expect(idTimerKey(due, timerRequest, r.queue, string(r.rest)), nil)
	return err
}

func foundTimer(w *walk, r *foundRow) error {
	t, err := parseTimer(r.Key)
	if err != nil {
		return err
	}
	if _, expected := w.rows[string(r.Key)]; expected {
		delete(w.rows, string(r.Key))
		return nil
	}
	s, kind := w.queues[t.queue], timerKinds[t.kind]
	switch {
	case kind.ofQueue:
		w.known.working[queueTimer{t.queue, t.kind}] = true
		return nil // it does no harm that it looks at rows
	case kind.ofItem && s != nil && (t.generation < s.generation || !s.exists):
		return nil // of a past generation
	case !kind.ofItem && t.kind != timerRequest && (s == nil || s.generation > 1):
		return nil // of an id that Delete has forgotten
	}
	return fmt.Errorf("timer of kind %q without an item or an id", t.kind)
}

// balance reports differences between expected and existing rows.
func (w *walk) balance() {
	for line, qtx := range w.found {
		if stored := w.counters(line); *stored != qtx.tally {
			w.problem("queue %q, generation %d: counters are %+v, counted %+v", line.queue, line.generation, *stored, qtx.tally)
		}
	}
	for line, n := range w.stored {
		if w.found[line] == nil && *n != (tally{}) {
			w.problem("queue %q, generation %d: counters are %+v, there are no rows", line.queue, line.generation, *n)
		}
	}
	for key, row := range w.rows {
		if !row.optional {
			w.problem("row %q is missing", key)
		}
	}
	for key, missing := range w.chunks {
		if missing != 0 {
			w.problem("item %q: %d bytes of its payload are missing", key, missing)
		}
	}
	for key, missing := range w.popItems {
		if missing != 0 {
			w.problem("pop %q: %d of its items are missing", key, missing)
		}
	}
	w.balanceKeys()
	w.balanceFences()
	w.balanceSettings()
	w.balanceSchedules()
	w.balanceHeld()
}
