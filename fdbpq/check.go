package fdbpq

import (
	"bytes"
	"context"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/internal/inside"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Check reads the whole store and returns a sentence for each violation of an
// invariant, up to a hundred. Nothing may write to the store meanwhile: a
// concurrent write looks like damage. Packages schedule, link and source check their own
// rows.
//
// Of a queue that only a later program serves it checks no row, and says so.
//
// The invariants:
//   - every row can be parsed;
//   - an item has exactly the rows that writeItem writes for it, timers included;
//   - counters equal the number of rows that they count, and the counter of overhead is no lower than the items' sum;
//   - remembered ids have exactly the timers they need;
//   - a remembered pop has all of its items, and was repeated if it has none;
//   - large payloads are complete and belong to an item, and large results to a result;
//   - a queue that deletes itself has a row of its last use, and a timer;
//   - a result has a row in the order in which results are forgotten, and a timer that forgets it;
//   - no two items have one unique value;
//   - pops find a key that may be leased;
//   - settings of keys are counted, and keys that take turns have a row in their order;
//   - the next fence of a key is higher than the fences of its items, and timers forget old fences;
//   - a held item has a holder, whose package knows what it holds;
//   - no item has a count beyond the highest one assigned.
func (s *Store) Check(ctx context.Context) ([]string, error) {
	w := newWalk(s)
	err := s.inside.DB.View(ctx, func(r kv.Reader) error {
		written, err := r.Get(layout.Row(layout.SpaceTime))
		w.known.passed = int64(kv.DecodeInteger(written)) / keyFenceUnit
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	for _, kind := range layout.RowKinds {
		check := rowChecks[kind.Space]
		if check == nil {
			continue
		}
		row := func(pair kv.Pair) error { return w.row(kind, check, pair) }
		if err := w.Visit(ctx, s.inside.DB, kind.Space, row); err != nil {
			return nil, fmt.Errorf("check: %w", err)
		}
	}
	w.balance()
	return w.Problems, nil
}

// rowChecks has the check of each row of a space. Any row is right in a space without a check.
var rowChecks = map[string]rowCheck{
	layout.SpaceState:     foundState,
	layout.SpaceHigh:      foundHighest,
	layout.SpaceReady:     foundItem,
	layout.SpaceKeyed:     foundItem,
	layout.SpaceDelayed:   foundItem,
	layout.SpaceLeased:    foundItem,
	layout.SpaceKeyReady:  foundRowOfItem,
	layout.SpaceKeyBegun:  foundRowOfItem,
	layout.SpaceKeyHeld:   foundKeyHeld,
	layout.SpaceKeyHead:   foundKeyHead,
	layout.SpaceKeyWaits:  foundKeyWaits,
	layout.SpaceTokensOf:  foundTokensOf,
	layout.SpaceCostOf:    foundCostOf,
	layout.SpaceKeyFence:  foundKeyFence,
	layout.SpaceSettings:  foundSettings,
	layout.SpaceTokens:    foundTokens,
	layout.SpaceCost:      foundCost,
	layout.SpaceFairKey:   foundFairKey,
	layout.SpaceUnnamed:   foundFairTag,
	layout.SpaceClass:     foundFairTag,
	layout.SpaceWeight:    foundWeight,
	layout.SpaceOwed:      foundOwed,
	layout.SpaceTag:       foundFairTag,
	layout.SpaceMsgID:     foundMsgID,
	layout.SpacePopID:     foundPopID,
	layout.SpacePopItem:   foundPopItem,
	layout.SpaceAnswers:   foundAnswers,
	layout.SpaceRepeated:  foundRepeatedPop,
	layout.SpaceRequest:   foundRequest,
	layout.SpaceResult:    foundRequest,
	layout.SpaceKept:      foundKept,
	layout.SpaceKeptPart:  foundKeptPart,
	layout.SpaceKeptSince: foundRowOfItem,
	layout.SpaceForward:   foundRowOfItem,
	layout.SpaceUnique:    foundRowOfItem,
	layout.SpaceChunk:     foundChunk,
	layout.SpaceUsed:      foundUse,
	layout.SpaceLook:      foundUse,
	layout.SpaceTimer:     foundTimer,
	layout.SpaceCounter:   foundCounter,
}

// walk is the state of a Check under way.
type walk struct {
	inside.Findings
	store    *Store
	queues   map[string]*queueState
	later    map[string]bool // queues that only a later program serves, and checks
	high     map[string]int64
	found    map[lineage]*queueTx      // with the tallies of the rows
	stored   map[lineage]*layout.Tally // read from the counters
	work     *Work                     // in which change says what items have
	written  *rowsWritten              // by it
	rows     map[string]expectedRow    // that other rows ask for, by key, as long as they are not found
	chunks   map[string]int64          // missing bytes by the key of their item
	popItems map[string]int64          // missing items of remembered pops, by the prefix of their keys
	kept     map[keptAs]int64          // when the first results are to be forgotten
	forgets  map[keptAs]int64          // when a timer does so
	keys     map[keyOf]*keyFound
	known    keysKnown
}

func newWalk(s *Store) *walk {
	written := new(rowsWritten)
	return &walk{
		store:    s,
		queues:   make(map[string]*queueState),
		later:    make(map[string]bool),
		high:     make(map[string]int64),
		found:    make(map[lineage]*queueTx),
		stored:   make(map[lineage]*layout.Tally),
		work:     &Work{transaction: transaction{store: new(Store), tx: written}}, // a store whose alarm wakes no sweeper
		written:  written,
		rows:     make(map[string]expectedRow),
		chunks:   make(map[string]int64),
		popItems: make(map[string]int64),
		kept:     make(map[keptAs]int64),
		forgets:  make(map[keptAs]int64),
		keys:     make(map[keyOf]*keyFound),
		known:    newKeysKnown(),
	}
}

// rowsWritten is a transaction that keeps what is written.
type rowsWritten struct {
	kv.Tx // not set, since change reads nothing
	rows  []kv.Pair
}

func (t *rowsWritten) Set(key, value []byte) {
	t.rows = append(t.rows, kv.Pair{Key: bytes.Clone(key), Value: bytes.Clone(value)})
}

type expectedRow struct {
	value    string
	optional bool
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
	if w.later[r.queue] {
		return nil
	}
	r.state = w.queues[r.queue]
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

// keptAs is what one timer after another forgets: the results of a queue that are kept as long.
type keptAs struct {
	queue string
	keep  layout.Keep
}

// keyOf is a key in one generation of a queue.
type keyOf struct {
	lineage
	key string
}

// keyFound is what a Check has found of a key.
type keyFound struct {
	first *layout.Place // of its ready items
	begun *layout.Place // of its ready items that were leased before
	head  *layout.Place // first row with which pops find it
	held  int           // leased items, and items that wait between two leases
	fair  *int64        // first class in which it has a row
	heavy bool          // a push gave it a weight
	owes  bool          // it owes turns, or is owed some
}

// keysKnown is what a Check has found that queues keep of keys outside their generations.
type keysKnown struct {
	waits    map[queueKey]bool // for a token
	settings map[queueKey]KeySettings
	working  map[queueTimer]bool // timers of queues that look at many rows

	fences map[queueKey]int64 // highest fences of the items of keys
	last   map[queueKey]int64 // last fences of keys
	passed int64              // by store time
}

func newKeysKnown() keysKnown {
	return keysKnown{
		waits: make(map[queueKey]bool), settings: make(map[queueKey]KeySettings), working: make(map[queueTimer]bool),
		fences: make(map[queueKey]int64), last: make(map[queueKey]int64),
	}
}

// balance reports differences between expected and existing rows.
func (w *walk) balance() {
	for line, qtx := range w.found {
		if stored := w.counters(line); *stored != qtx.tally {
			w.Problem("queue %q, generation %d: counters are %+v, counted %+v", line.queue, line.generation, *stored, qtx.tally)
		}
	}
	for line, n := range w.stored {
		if w.found[line] == nil && *n != (layout.Tally{}) {
			w.Problem("queue %q, generation %d: counters are %+v, there are no rows", line.queue, line.generation, *n)
		}
	}
	for key, row := range w.rows {
		if !row.optional {
			w.Problem("row %q is missing", key)
		}
	}
	for key, missing := range w.chunks {
		if missing != 0 {
			w.Problem("item %q: %d bytes of its payload are missing", key, missing)
		}
	}
	for key, missing := range w.popItems {
		if missing != 0 {
			w.Problem("pop %q: %d of its items are missing", key, missing)
		}
	}
	w.balanceResults()
	w.balanceKeys()
	w.balanceFences()
	w.balanceSettings()
}

func (w *walk) keyOf(line lineage, key string) *keyFound {
	k := keyOf{line, key}
	if w.keys[k] == nil {
		w.keys[k] = &keyFound{}
	}
	return w.keys[k]
}

func earliest(first *layout.Place, p layout.Place) *layout.Place {
	if first == nil || p.Compare(*first) < 0 {
		return &p
	}
	return first
}

// itemOfKey notes what the key of an item has for it.
func (w *walk) itemOfKey(qtx *queueTx, l *layout.Item) error {
	if l.Key == "" {
		return nil
	}
	w.known.fences[queueKey{qtx.name, l.Key}] = max(w.known.fences[queueKey{qtx.name, l.Key}], l.KeyFence)
	switch {
	case l.State == layout.StateReady:
		found := w.keyOf(lineage{qtx.name, qtx.state.generation}, l.Key)
		found.first = earliest(found.first, l.Place)
		if l.Begun() {
			found.begun = earliest(found.begun, l.Place)
		}
	case l.State == layout.StateDelayed && l.MayHoldKey():
		w.rows[string(qtx.keyLimits.row(l))] = expectedRow{optional: true}
	}
	return CheckKey(l.Key)
}

// balanceKeys reports keys that pops do not find.
func (w *walk) balanceKeys() {
	for of, found := range w.keys {
		if found.heavy && found.first == nil {
			w.Problem("queue %q: the key %q has a weight, and no ready items", of.queue, of.key)
		}
		if found.owes && found.first == nil {
			w.Problem("queue %q: the key %q owes turns, and has no ready items", of.queue, of.key)
		}
		if found.first == nil || w.mayBeHidden(of, found) {
			continue
		}
		last := found.first
		if found.begun != nil && found.begun.Compare(*last) > 0 {
			last = found.begun
		}
		if found.head == nil || found.head.Compare(*last) > 0 {
			w.Problem("queue %q: pops do not find the key %q", of.queue, of.key)
		}
		if s := w.queues[of.queue]; s.fairBuilt && (found.fair == nil || *found.fair > s.config.Fair.class(last.Priority)) {
			w.Problem("queue %q: the key %q has no turn", of.queue, of.key)
		}
	}
}

// mayBeHidden reports whether pops need not find a key: it may have no more, or waits for
// a token, or is paused, or is about to be looked at.
func (w *walk) mayBeHidden(of keyOf, found *keyFound) bool {
	settings := w.known.settings[queueKey{of.queue, of.key}]
	limit := int(settings.limit(&w.queues[of.queue].config))
	waits := w.known.waits[queueKey{of.queue, of.key}]
	return settings.paused() || limit > 0 && found.held >= limit || waits || w.known.working[queueTimer{of.queue, layout.TimerKeys}]
}

// balanceResults reports results that no timer forgets in time.
func (w *walk) balanceResults() {
	for at, due := range w.kept {
		if first, known := w.forgets[at]; !known || first > due {
			w.Problem("queue %q: no timer forgets its results that are kept for %s", at.queue, at.keep.TTL())
		}
	}
}

// balanceFences reports fences that a key may get again, and last fences of keys that no timer forgets.
func (w *walk) balanceFences() {
	known := &w.known
	for of, fence := range known.fences {
		if fence > known.last[of] && fence >= known.passed {
			w.Problem("queue %q: the key %q had the fence %d, and could get it again: the last one is %d, time has passed %d",
				of.queue, of.key, fence, known.last[of], known.passed)
		}
	}
	for of := range known.last {
		if !known.working[queueTimer{of.queue, layout.TimerFences}] {
			w.Problem("queue %q: no timer forgets the fence of the key %q", of.queue, of.key)
		}
	}
}

// balanceSettings reports settings that are not counted.
func (w *walk) balanceSettings() {
	set, limited := make(map[string]int64), make(map[string]int64)
	for of, k := range w.known.settings {
		set[of.queue] += counted(k)
		limited[of.queue] += limits(k)
	}
	for name, s := range w.queues {
		if s != nil && (s.keysSet != set[name] || s.keysLimited != limited[name]) {
			w.Problem("queue %q: %d keys have settings and %d a limit, counted %d and %d", name, s.keysSet, s.keysLimited, set[name], limited[name])
		}
	}
}

// counters are the counters of a lineage as the store has them.
func (w *walk) counters(line lineage) *layout.Tally {
	if w.stored[line] == nil {
		w.stored[line] = &layout.Tally{}
	}
	return w.stored[line]
}

// lineage is one generation of a queue. What a queue has outside its generations is in 0.
type lineage struct {
	queue      string
	generation int64
}

type (
	queueKey   struct{ queue, key string }
	queueTimer struct{ queue, kind string }
)

// foundRow is a row that a Check has read.
type foundRow struct {
	kv.Pair
	space string
	lineage
	state *queueState // nil without a row of the queue's state
	rest  []byte      // of the key, behind the lineage
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

// living returns an error when the queue of a row does not exist.
func (r *foundRow) living() error {
	if r.state == nil || !r.state.exists {
		return fmt.Errorf("there is no queue %q", r.queue)
	}
	return nil
}

// ofKey returns the key whose row it is. The row without a key has the key
// behind which a timer goes on: done.
func (r *foundRow) ofKey() (of queueKey, done bool, err error) {
	key := r.Value
	if done = len(r.rest) == 0; !done {
		key, _, err = tuple.ConsumeBytes(r.rest)
	}
	if err == nil {
		err = CheckKey(string(key))
	}
	return queueKey{r.queue, string(key)}, done || err != nil, err
}

// fairClass is the class of a row of the fair order.
func (r *foundRow) fairClass() (class int64, rest []byte, err error) {
	order, rest, err := tuple.ConsumeInt(r.rest)
	if err != nil {
		return 0, nil, err
	}
	if order != r.state.fairOrder || r.state.config.Fair == "" {
		return 0, nil, fmt.Errorf("the order %d is not that of the queue", order)
	}
	return tuple.ConsumeInt(rest)
}
