package fdbpq

import (
	"context"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/tuple"
)

// Check walks the whole store and returns a sentence for every invariant that
// does not hold, at most maxProblems. The store must be at rest: what changes
// meanwhile looks like damage.
//
// It holds that every row can be read; that counters say what there is; that
// leases, delays, TTLs and remembered ids have exactly the timers they need;
// that of each remembered pop the items are there;
// that large payloads are whole and belong to somebody; that forwarding rows
// lead to items; and that no count beyond the highest assigned is in use.
func (s *Store) Check(ctx context.Context) ([]string, error) {
	w := newWalk(s)
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
		store:  s,
		queues: make(map[string]*state),
		high:   make(map[string]int64),
		found:  make(map[lineage]*tally),
		stored: make(map[lineage]*tally),
		timers: make(map[string]bool),
		chunks: make(map[string]int64),
		moved:  make(map[string]int64),
		kept:   make(map[string]int64),
	}
}

const (
	maxProblems   = 100
	checkRows     = 1000
	checkRowBytes = 4 << 20
)

// walkOrder puts what is referred to behind what refers to it.
var walkOrder = []string{
	spaceState, spaceHigh, spaceReady, spaceDelayed, spaceLeased, spaceDedup, spaceReplay, spaceReplayed,
	spaceRequest, spaceResult, spaceForward, spaceChunk, spaceTimer, spaceCounter,
}

// lineage is one generation of a queue; remembered ids count for generation 0.
type lineage struct {
	queue      string
	generation int64
}

// walk is what Check has seen so far.
type walk struct {
	store    *Store
	problems []string
	queues   map[string]*state
	high     map[string]int64
	found    map[lineage]*tally // counted from the rows
	stored   map[lineage]*tally // as the counters say
	timers   map[string]bool    // needed, by key; true once seen
	chunks   map[string]int64   // bytes that are missing, by the key of what they belong to
	moved    map[string]int64   // forwarding rows needed: priority by key
	kept     map[string]int64   // items of pops that are missing, by what their keys begin with
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
	if space == spaceTimer {
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
	case spaceDedup:
		return w.remembered(queue, rest, pair.Value)
	case spaceReplay:
		return w.replay(queue, rest, pair.Value)
	case spaceReplayed:
		return w.replayed(queue, rest, pair)
	case spaceRequest, spaceResult:
		due, _, err := tuple.ConsumeInt(pair.Value)
		w.timers[string(idTimerKey(due, timerRequest, queue, string(rest)))] = false
		return err
	case spaceTimer:
		return w.timer(pair.Key)
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
		if want, ok := w.moved[string(pair.Key)]; err == nil && (!ok || want != to) {
			return fmt.Errorf("leads to no item")
		}
		delete(w.moved, string(pair.Key))
		return err
	case spaceChunk:
		return w.chunk(line, rest, pair.Value)
	}
	return w.item(space, line, rest, pair.Value)
}

// garbage accepts rows of past generations, which CollectGarbage clears in its time.
func (w *walk) garbage(line lineage, s *state) error {
	if line.generation > s.generation || (line.generation == s.generation && s.exists) {
		return fmt.Errorf("generation %d is still to come, the queue is in %d", line.generation, s.generation)
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
		return nil // of another program, whose priorities are not ours
	}
	if err != nil {
		return err
	}
	l, err := parseStanding(space, value, p)
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
	if l.home != p.priority {
		home := place{priority: l.home, tail: p.tail}
		w.moved[string(home.append(generationPrefix(spaceForward, line.queue, line.generation)))] = p.priority
	}
	if l.chunks > 0 {
		w.chunks[line.queue+"\x00"+p.tail] += l.size
	}
	return nil
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
		return fmt.Errorf("part of a payload of no item (count %d)", count)
	}
	w.chunks[key] -= int64(len(value))
	return nil
}

func (w *walk) remembered(queue string, rest, value []byte) error {
	id, _, err := tuple.ConsumeString(rest)
	if err != nil {
		return err
	}
	m, err := parseRemembered(value)
	if err != nil {
		return err
	}
	w.tally(w.found, lineage{queue: queue}).remembered++
	w.timers[string(idTimerKey(m.due, timerDedup, queue, id))] = false
	return nil
}

func (w *walk) replay(queue string, rest, value []byte) error {
	id, _, err := tuple.ConsumeString(rest)
	if err != nil {
		return err
	}
	m, err := parseReplay(value)
	if err != nil {
		return err
	}
	w.tally(w.found, lineage{queue: queue}).remembered++
	w.timers[string(idTimerKey(m.due, timerReplay, queue, id))] = false
	w.kept[string(tuple.AppendString(queueRow(spaceReplayed, queue), id))] += m.taken
	return nil
}

// replayed looks at what is kept of a pop: its items, and behind each one the
// parts of its payload when it is large.
func (w *walk) replayed(queue string, rest []byte, pair kv.Pair) error {
	_, number, err := tuple.ConsumeString(rest)
	if err != nil {
		return err
	}
	pop := string(pair.Key[:len(pair.Key)-len(number)])
	if _, known := w.kept[pop]; !known {
		return fmt.Errorf("it is kept of no pop")
	}
	_, part, err := tuple.ConsumeInt(number)
	if err != nil {
		return err
	}
	if item := string(pair.Key[:len(pair.Key)-len(part)]); len(part) > 0 {
		if _, known := w.chunks[item]; !known {
			return fmt.Errorf("part of a payload of no item")
		}
		w.chunks[item] -= int64(len(pair.Value))
		return nil
	}
	w.kept[pop]--
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
	if t.id != "" && t.kind != timerRequest && (s == nil || s.generation > 1) {
		return nil // of an id that a deletion has forgotten
	}
	if s != nil && t.place != (place{}) && (t.generation < s.generation || !s.exists) {
		return nil // of a past generation
	}
	return fmt.Errorf("timer of kind %q for nothing", t.kind)
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

// balance compares what was found with what should be there.
func (w *walk) balance() {
	for line, n := range w.found {
		if stored := w.tally(w.stored, line); *stored != *n {
			w.problem("queue %q, generation %d: counters say %+v, there are %+v", line.queue, line.generation, *stored, *n)
		}
	}
	for line, n := range w.stored {
		if w.found[line] == nil && *n != (tally{}) {
			w.problem("queue %q, generation %d: counters say %+v, there is nothing", line.queue, line.generation, *n)
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
	for key, missing := range w.kept {
		if missing != 0 {
			w.problem("pop %q: %d items kept of a pop are missing", key, missing)
		}
	}
	for key := range w.moved {
		w.problem("forwarding row %q is missing", key)
	}
}
