package fdbpq

import (
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
//   - counters equal the number of rows that they count;
//   - leases, delays, TTLs and remembered ids have exactly the timers they need;
//   - a remembered pop has all of its items, and was repeated if it has none;
//   - large payloads are complete and belong to an item;
//   - forwarding rows lead to items;
//   - an item with a unique value has the row of that value, and no other item has;
//   - the rows of keys are those of their items, and pops find a key that may be leased;
//   - settings of keys are counted, and keys that take turns have a row in their order;
//   - the next fence of a key is higher than those of its items, and old ones are forgotten;
//   - a schedule has the one index row that it needs, and is counted;
//   - no item has a count beyond the highest one assigned.
func (s *Store) Check(ctx context.Context) ([]string, error) {
	w := newWalk(s)
	err := s.db.View(ctx, func(r kv.Reader) error {
		written, err := r.Get(row(spaceTime))
		w.turns.passed = int64(kv.DecodeInteger(written)) / keyFenceUnit
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	for _, space := range walkOrder {
		if err := w.space(ctx, space); err != nil {
			return nil, fmt.Errorf("check: %w", err)
		}
	}
	w.balance()
	return w.problems, nil
}

func newWalk(s *Store) *walk {
	return &walk{
		store:    s,
		queues:   make(map[string]*queueState),
		high:     make(map[string]int64),
		found:    make(map[lineage]*tally),
		stored:   make(map[lineage]*tally),
		timers:   make(map[string]bool),
		chunks:   make(map[string]int64),
		forwards: make(map[string]int64),
		popItems: make(map[string]int64),
		repeated: make(map[string]bool),
		uniques:  make(map[string]string),
		keys:     make(map[keyOf]*keyFound),
		keyRows:  make(map[string]bool),
		turns:    newTurnsFound(),

		schedules: newSchedulesFound(),
	}
}

const (
	maxProblems   = 100
	checkRows     = 1000
	checkRowBytes = 4 << 20
)

// walkOrder visits rows before the rows that they refer to.
var walkOrder = []string{
	spaceState, spaceHigh, spaceReady, spaceKeyed, spaceDelayed, spaceLeased, spaceKeyReady, spaceKeyBegun, spaceKeyHeld, spaceKeyHead,
	spaceKeyWaits, spaceTokensOf, spaceKeyFence, spaceSettings, spaceTokens, spaceFairKey, spaceUnnamed, spaceClass, spaceWeight, spaceMsgID, spacePopID, spacePopItem, spaceRepeated,
	spaceRequest, spaceResult, spaceForward, spaceUnique, spaceChunk, spaceTimer, spaceCounter,
	spaceSchedule, spaceProgress, spaceSchedules, spaceDue,
}

// lineage is one generation of a queue; remembered ids count for generation 0.
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
	found    map[lineage]*tally // counted from the rows
	stored   map[lineage]*tally // read from the counters
	timers   map[string]bool    // expected, by key; true once seen
	chunks   map[string]int64   // missing bytes by the key of their item
	forwards map[string]int64   // expected forwarding rows: priority by key
	popItems map[string]int64   // missing items of remembered pops, by the prefix of their keys
	repeated map[string]bool    // expected rows of repeated pops, by key; true once seen
	uniques  map[string]string  // expected rows of unique values: place by key
	keys     map[keyOf]*keyFound
	keyRows  map[string]bool // expected rows of keys; true once seen
	turns    turnsFound

	schedules schedulesFound
}

func (w *walk) problem(format string, args ...any) {
	if len(w.problems) < maxProblems {
		w.problems = append(w.problems, fmt.Sprintf(format, args...))
	}
}

func (w *walk) space(ctx context.Context, space string) error {
	prefix := row(space)
	begin, end := tuple.Range(prefix)
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
			queue, rest, err := w.queueOf(space, pair.Key[len(prefix):])
			if err == nil {
				err = w.row(space, queue, rest, pair)
			}
			if err != nil {
				w.problem("row %q: %v", pair.Key, err)
			}
		}
		begin = append(page[len(page)-1].Key, 0)
	}
}

func (w *walk) queueOf(space string, key []byte) (queue string, rest []byte, err error) {
	if space == spaceTimer || space == spaceDue {
		return "", key, nil
	}
	return tuple.ConsumeString(key)
}

func (w *walk) row(space, queue string, rest []byte, pair kv.Pair) (err error) {
	switch space {
	case spaceState:
		w.queues[queue], err = parseState(pair.Value)
		return err
	case spaceHigh:
		w.high[queue] = int64(kv.DecodeInteger(pair.Value))
		return nil
	case spaceMsgID:
		return w.msgID(queue, rest, pair.Value)
	case spacePopID:
		return w.popID(queue, rest, pair.Value)
	case spacePopItem:
		return w.popItem(queue, rest, pair)
	case spaceRepeated:
		return w.repeatedPop(queue, rest)
	case spaceRequest, spaceResult:
		due, _, err := tuple.ConsumeInt(pair.Value)
		w.timers[string(idTimerKey(due, timerRequest, queue, string(rest)))] = false
		return err
	case spaceTimer:
		return w.timer(pair.Key)
	case spaceKeyWaits, spaceTokensOf, spaceKeyFence, spaceSettings, spaceTokens:
		return w.keyKnown(space, queue, rest, pair.Value)
	case spaceSchedule, spaceProgress, spaceSchedules:
		return w.schedule(space, queue, rest, pair.Value)
	case spaceDue:
		return w.scheduleDue(pair.Key)
	}
	generation, rest, err := tuple.ConsumeInt(rest)
	if err != nil {
		return err
	}
	line := lineage{queue, generation}
	if space == spaceCounter {
		return w.counter(line, rest, pair.Value)
	}
	s := w.queues[queue]
	if s == nil {
		return fmt.Errorf("there is no queue %q", queue)
	}
	if generation != s.generation || !s.exists {
		return w.garbage(line, s)
	}
	switch space {
	case spaceForward:
		to, _, err := tuple.ConsumeInt(pair.Value)
		if want, ok := w.forwards[string(pair.Key)]; err == nil && (!ok || want != to) {
			return fmt.Errorf("forwarding row leads to no item")
		}
		delete(w.forwards, string(pair.Key))
		return err
	case spaceUnique:
		if want, ok := w.uniques[string(pair.Key)]; !ok || want != string(pair.Value) {
			return fmt.Errorf("unique value of no item")
		}
		delete(w.uniques, string(pair.Key))
		return nil
	case spaceChunk:
		return w.chunk(line, rest, pair.Value)
	case spaceKeyReady, spaceKeyBegun:
		return w.keyRow(pair.Key)
	case spaceKeyHeld:
		return w.keyHeld(line, rest, pair.Key)
	case spaceKeyHead:
		return w.keyHead(line, rest, pair.Value)
	case spaceFairKey, spaceUnnamed, spaceClass, spaceWeight:
		return w.fairRow(space, s, line, rest, pair.Value)
	}
	return w.item(space, line, rest, pair.Value)
}

// garbage accepts rows of past generations, which CollectGarbage clears later. A deleted
// queue has no rows in the generation that a later queue of its name begins with.
func (w *walk) garbage(line lineage, s *queueState) error {
	if line.generation >= s.generation {
		return fmt.Errorf("generation %d is in the future: the queue is in %d, exists: %t", line.generation, s.generation, s.exists)
	}
	return nil
}

func (w *walk) tally(of map[lineage]*tally, line lineage) *tally {
	if of[line] == nil {
		of[line] = &tally{}
	}
	return of[line]
}

func (w *walk) item(space string, line lineage, rest, value []byte) error {
	p, err := parsePlace(rest)
	if err != nil && space == spaceReady {
		return nil // another program's item, whose priority has a type that we do not use
	}
	if err != nil {
		return err
	}
	l, err := parseItemRow(space, value, p)
	if err != nil {
		return err
	}
	if l.foreign {
		return nil
	}
	if count, err := p.count(); err != nil {
		return err
	} else if count > w.high[line.queue] {
		w.problem("queue %q: item %s has count %d, the highest assigned is %d", line.queue, l.id(p), count, w.high[line.queue])
	}
	n := w.tally(w.found, line)
	n.bytes += l.size
	switch l.state {
	case StateReady:
		n.ready++
	case StateDelayed:
		n.delayed++
		w.timers[string(appendTimerKey(nil, l.due, timerDelay, line.queue, line.generation, p))] = false
	case StateLeased:
		n.leased++
		w.timers[string(appendTimerKey(nil, l.due, timerLease, line.queue, line.generation, p))] = false
	}
	if l.expires != 0 && l.state != StateLeased {
		n.expiring++
		w.timers[string(appendTimerKey(nil, l.expires, timerExpiry, line.queue, line.generation, p))] = false
	}
	if l.idPriority != p.priority {
		home := place{priority: l.idPriority, tail: p.tail}
		w.forwards[string(home.append(generationPrefix(spaceForward, line.queue, line.generation)))] = p.priority
	}
	if l.unique != "" {
		key := string(uniqueRow(line.queue, line.generation, l.unique))
		if _, twice := w.uniques[key]; twice {
			w.problem("queue %q: two items have the unique value %q", line.queue, l.unique)
		}
		w.uniques[key] = string(l.id(p).place.append(nil))
	}
	if l.chunks > 0 {
		w.chunks[line.queue+"\x00"+p.tail] += l.size
	}
	return w.key(space, line, l)
}

func (w *walk) chunk(line lineage, rest, value []byte) error {
	count, random, err := tuple.ConsumeInt(rest)
	if err != nil {
		return err
	}
	_, number, err := tuple.ConsumeBytes(random)
	if err != nil {
		return err
	}
	key := line.queue + "\x00" + string(rest[:len(rest)-len(number)])
	if _, ok := w.chunks[key]; !ok {
		return fmt.Errorf("chunk of no item (count %d)", count)
	}
	w.chunks[key] -= int64(len(value))
	return nil
}

func (w *walk) msgID(queue string, rest, value []byte) error {
	id, _, err := tuple.ConsumeString(rest)
	if err != nil {
		return err
	}
	m, err := parseRememberedPush(value)
	if err != nil {
		return err
	}
	w.tally(w.found, lineage{queue: queue}).remembered++
	w.timers[string(idTimerKey(m.due, timerMsgID, queue, id))] = false
	return nil
}

func (w *walk) popID(queue string, rest, value []byte) error {
	id, _, err := tuple.ConsumeString(rest)
	if err != nil {
		return err
	}
	m, err := parseRememberedPop(value)
	if err != nil {
		return err
	}
	w.tally(w.found, lineage{queue: queue}).remembered++
	w.timers[string(idTimerKey(m.due, timerPopID, queue, id))] = false
	w.popItems[string(tuple.AppendString(queueRow(spacePopItem, queue), id))] += m.items
	if m.nothing() {
		w.repeated[string(repeatedRow(queue, id))] = false
	}
	return nil
}

func (w *walk) repeatedPop(queue string, rest []byte) error {
	id, _, err := tuple.ConsumeString(rest)
	if err != nil {
		return err
	}
	// Without a remembered pop, an earlier version has forgotten the id.
	w.repeated[string(repeatedRow(queue, id))] = true
	return nil
}

// popItem checks a row of a remembered pop: an item, or a chunk of its payload.
func (w *walk) popItem(queue string, rest []byte, pair kv.Pair) error {
	_, number, err := tuple.ConsumeString(rest)
	if err != nil {
		return err
	}
	pop := string(pair.Key[:len(pair.Key)-len(number)])
	if _, known := w.popItems[pop]; !known {
		return fmt.Errorf("item of no remembered pop")
	}
	_, part, err := tuple.ConsumeInt(number)
	if err != nil {
		return err
	}
	if item := string(pair.Key[:len(pair.Key)-len(part)]); len(part) > 0 {
		if _, known := w.chunks[item]; !known {
			return fmt.Errorf("chunk of no item")
		}
		w.chunks[item] -= int64(len(pair.Value))
		return nil
	}
	w.popItems[pop]--
	p, value, err := splitPlace(pair.Value)
	if err != nil {
		return err
	}
	e, err := parseEnvelope(value, p)
	if e.chunks > 0 {
		w.chunks[string(pair.Key)] += e.size
	}
	return err
}

func (w *walk) timer(key []byte) error {
	t, err := parseTimer(key)
	if err != nil {
		return err
	}
	if _, needed := w.timers[string(key)]; needed {
		w.timers[string(key)] = true
		return nil
	}
	s := w.queues[t.queue]
	switch t.kind {
	case timerKeys:
		w.turns.looking[t.queue] = true
		return nil // it does no harm that its keys are looked at
	case timerFences:
		w.turns.forgets[t.queue] = true
		return nil
	case timerFair, timerTokens:
		return nil
	}
	if t.id != "" && t.kind != timerRequest && (s == nil || s.generation > 1) {
		return nil // of an id that Delete has forgotten
	}
	if s != nil && t.place != (place{}) && (t.generation < s.generation || !s.exists) {
		return nil // of a past generation
	}
	return fmt.Errorf("timer of kind %q without an item or an id", t.kind)
}

func (w *walk) counter(line lineage, rest, value []byte) error {
	counter, _, err := tuple.ConsumeInt(rest)
	if err != nil {
		return err
	}
	if s := w.queues[line.queue]; line.generation != 0 && s != nil && (line.generation < s.generation || !s.exists) {
		return nil
	}
	n := w.tally(w.stored, line)
	fields := n.fields()
	if counter < 0 || counter >= int64(len(fields)) {
		return fmt.Errorf("unknown counter %d", counter)
	}
	*fields[counter] = int64(kv.DecodeInteger(value))
	return nil
}

// balance reports differences between expected and existing rows.
func (w *walk) balance() {
	for line, n := range w.found {
		if stored := w.tally(w.stored, line); *stored != *n {
			w.problem("queue %q, generation %d: counters are %+v, counted %+v", line.queue, line.generation, *stored, *n)
		}
	}
	for line, n := range w.stored {
		if w.found[line] == nil && *n != (tally{}) {
			w.problem("queue %q, generation %d: counters are %+v, there are no rows", line.queue, line.generation, *n)
		}
	}
	for key, seen := range w.timers {
		if !seen {
			w.problem("timer %q is missing", key)
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
	for key, seen := range w.repeated {
		if !seen {
			w.problem("repetition %q is missing", key)
		}
	}
	for key := range w.uniques {
		w.problem("row %q of a unique value is missing", key)
	}
	for key := range w.forwards {
		w.problem("forwarding row %q is missing", key)
	}
	w.balanceKeys()
	w.balanceSchedules()
}
