package kvtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// testSerializable checks transactions that have no row in common by which their
// order could be told. Each inserts rows that nobody else writes, and nothing is
// ever cleared. Hence a read tells exactly which of the transactions it looked
// for came before it, and which did not:
//
//	saw the row:          its writer → reader
//	did not see the row:  reader → its writer
//	ended before another began:  one → the other
//
// There is an order that explains all reads if and only if these arrows have no
// cycle.
func testSerializable(f *fixture) {
	const transactions = 300
	plans := make([]insertPlan, transactions)
	writers := map[string]int{} // row to its writer
	for i := range plans {
		plans[i] = newInsertPlan(f.seed, i, plans[:i])
		for _, row := range plans[i].rows {
			writers[row] = i
		}
	}
	var (
		now    clock
		mu     sync.Mutex
		events = make([]insertEvent, transactions)
	)
	f.work(8, transactions, func(i int) error {
		plan := plans[i]
		rng := rand.New(rand.NewPCG(f.seed, uint64(i)))
		var e insertEvent
		read := func(r kv.Reader) error {
			e.saw, e.missed = nil, nil
			for _, look := range plan.looks {
				yield(rng)
				if err := look.do(r, writers, plan.rows, &e); err != nil {
					return err
				}
			}
			return nil
		}
		begin := now.tick()
		var err error
		if len(plan.rows) == 0 {
			err = f.db.View(f.ctx, read)
		} else {
			err = f.db.Update(f.ctx, func(tx kv.Tx) error {
				// One row before the reads, so that the reads meet own writes.
				value := []byte(strconv.Itoa(i))
				tx.Set([]byte(plan.rows[0]), value)
				if err := read(tx); err != nil {
					return err
				}
				for _, row := range plan.rows[1:] {
					tx.Set([]byte(row), value)
				}
				tx.Add([]byte("count"), 1)
				tx.Max([]byte("highest"), uint64(i))
				yield(rng)
				return nil
			})
		}
		e.begin, e.end = begin, now.tick()
		mu.Lock()
		defer mu.Unlock()
		events[i] = e
		return err
	})

	want := model{}
	for i, plan := range plans {
		for _, row := range plan.rows {
			want[row] = strconv.Itoa(i)
		}
		if len(plan.rows) > 0 {
			want.apply(add("count", 1), raise("highest", uint64(i)))
		}
	}
	f.expect(want)
	if cycle := shortestCycle(arrows(events)); cycle != nil {
		f.Fatalf("seed %d: no order explains what these transactions read: %s", f.seed, explain(cycle, plans, events))
	}
}

// insertPlan is a transaction of testSerializable before it runs.
type insertPlan struct {
	rows  []string // to insert; none for a View
	looks []look
}

// look is a read of keys, or of a range when there are none.
type look struct {
	keys       []string
	begin, end string
	opts       kv.RangeOptions
}

// insertEvent is a transaction of testSerializable after it ran.
type insertEvent struct {
	begin, end  int64
	saw, missed []int // writers of rows that were there, and of rows that were not
}

const insertGroups = 4

func newInsertPlan(seed uint64, i int, before []insertPlan) insertPlan {
	rng := rand.New(rand.NewPCG(seed, 1<<32+uint64(i)))
	group := func() string { return string(rune('a' + rng.IntN(insertGroups))) }
	var plan insertPlan
	if rng.IntN(6) > 0 {
		for j := range 1 + rng.IntN(2) {
			// New rows come near the ends, where the limited reads look.
			at := i + rng.IntN(40)
			if rng.IntN(2) == 0 {
				at = -at
			}
			plan.rows = append(plan.rows, fmt.Sprintf("%s/%03d/%d.%d", group(), 500+at, i, j))
		}
	}
	for range 1 + rng.IntN(3) {
		g := group()
		switch kind := rng.IntN(4); {
		case kind == 0 && len(before) > 0:
			// Rows of transactions that run about now.
			var l look
			for range 1 + rng.IntN(3) {
				other := before[max(0, len(before)-1-rng.IntN(12))]
				l.keys = append(l.keys, other.rows...)
			}
			if len(l.keys) > 0 {
				plan.looks = append(plan.looks, l)
			}
		case kind == 1:
			at := fmt.Sprintf("%s/%03d", g, rng.IntN(1000))
			plan.looks = append(plan.looks, look{begin: at, end: g + "0", opts: kv.RangeOptions{Limit: 1000}})
		default:
			plan.looks = append(plan.looks, look{begin: g + "/", end: g + "0", opts: kv.RangeOptions{
				Limit:   1 + rng.IntN(6),
				Reverse: rng.IntN(2) == 0,
			}})
		}
	}
	return plan
}

// do makes the reads and records which rows were there. Of the transaction's own rows the first is written by now.
func (l look) do(r kv.Reader, writers map[string]int, own []string, e *insertEvent) error {
	seen := sighting{writers: writers, own: own, event: e, there: map[string]bool{}}
	switch len(l.keys) {
	case 0:
		return l.scan(r, &seen)
	case 1:
		value, err := r.Get([]byte(l.keys[0]))
		if err != nil {
			return err
		}
		return seen.record(l.keys[0], value)
	default:
		return l.getAll(r, &seen)
	}
}

func (l look) getAll(r kv.Reader, seen *sighting) error {
	var keys [][]byte
	for _, key := range l.keys {
		keys = append(keys, []byte(key))
	}
	values, err := r.GetAll(keys)
	if err != nil {
		return err
	}
	for i, value := range values {
		if err := seen.record(l.keys[i], value); err != nil {
			return err
		}
	}
	return nil
}

func (l look) scan(r kv.Reader, seen *sighting) error {
	pairs, err := r.Range([]byte(l.begin), []byte(l.end), l.opts)
	if err != nil {
		return err
	}
	for _, pair := range pairs {
		if _, known := seen.writers[string(pair.Key)]; !known {
			return fmt.Errorf("Range returned %s, which no transaction writes", show(pair.Key))
		}
		if err := seen.record(string(pair.Key), pair.Value); err != nil {
			return err
		}
	}
	// The scan did not read the rows beyond its limit.
	begin, end := l.begin, l.end
	if len(pairs) == l.opts.Limit {
		if last := string(pairs[len(pairs)-1].Key); l.opts.Reverse {
			begin = last
		} else {
			end = last
		}
	}
	for row := range seen.writers {
		if begin <= row && row < end && !seen.there[row] {
			if err := seen.record(row, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// sighting has the rows that one look has seen.
type sighting struct {
	writers map[string]int // of all rows
	own     []string       // rows of the transaction that looks
	event   *insertEvent
	there   map[string]bool
}

// record notes that a row was there with a value, or was missing.
func (s *sighting) record(row string, value []byte) error {
	writer := s.writers[row]
	if value != nil && string(value) != strconv.Itoa(writer) {
		return fmt.Errorf("row %s has the value %s, expected that of its writer %d", row, show(value), writer)
	}
	switch {
	case value != nil:
		s.event.saw = append(s.event.saw, writer)
		s.there[row] = true
	case len(s.own) > 0 && row == s.own[0]:
		return fmt.Errorf("row %s is missing, expected to see an own write", row)
	default:
		s.event.missed = append(s.event.missed, writer)
	}
	return nil
}

// arrows returns, for each event, the events that must come after it.
func arrows(events []insertEvent) [][]int {
	next := make([][]int, len(events))
	for i, e := range events {
		for _, writer := range e.saw {
			if writer != i {
				next[writer] = append(next[writer], i)
			}
		}
		for _, writer := range e.missed {
			// Its own row, read before it was written, is no contradiction.
			if writer != i {
				next[i] = append(next[i], writer)
			}
		}
		for j, later := range events {
			if e.end < later.begin {
				next[i] = append(next[i], j)
			}
		}
	}
	return next
}

// shortestCycle returns the nodes of a cycle, or nil.
func shortestCycle(next [][]int) []int {
	var shortest []int
	for _, start := range unsortable(next) {
		// Breadth first from start back to it.
		from := make([]int, len(next))
		for i := range from {
			from[i] = -1
		}
		queue := []int{start}
		for len(queue) > 0 && from[start] < 0 {
			node := queue[0]
			queue = queue[1:]
			for _, to := range next[node] {
				if from[to] < 0 {
					from[to] = node
					queue = append(queue, to)
				}
			}
		}
		if from[start] < 0 {
			continue
		}
		cycle := []int{start}
		for node := from[start]; node != start; node = from[node] {
			cycle = append(cycle, node)
		}
		slices.Reverse(cycle)
		if shortest == nil || len(cycle) < len(shortest) {
			shortest = cycle
		}
	}
	return shortest
}

// unsortable returns the nodes that have no place in a topological order: those
// on cycles and behind them.
func unsortable(next [][]int) []int {
	before := make([]int, len(next)) // arrows that lead to a node
	for _, targets := range next {
		for _, to := range targets {
			before[to]++
		}
	}
	var free []int
	for node, n := range before {
		if n == 0 {
			free = append(free, node)
		}
	}
	for len(free) > 0 {
		node := free[len(free)-1]
		free = free[:len(free)-1]
		for _, to := range next[node] {
			if before[to]--; before[to] == 0 {
				free = append(free, to)
			}
		}
	}
	var rest []int
	for node, n := range before {
		if n > 0 {
			rest = append(rest, node)
		}
	}
	return rest
}

func explain(cycle []int, plans []insertPlan, events []insertEvent) string {
	var text strings.Builder
	for i, node := range cycle {
		to := cycle[(i+1)%len(cycle)]
		why := "ended before the beginning of"
		switch {
		case slices.Contains(events[to].saw, node):
			why = "wrote a row that was seen by"
		case slices.Contains(events[node].missed, to):
			why = "did not see a row of"
		}
		fmt.Fprintf(&text, "\n  transaction %d, which inserts %v, %s %d", node, plans[node].rows, why, to)
	}
	return text.String()
}
