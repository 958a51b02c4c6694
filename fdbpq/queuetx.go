package fdbpq

import (
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// queueTx is one queue within a Work: its rows, and the operations that change its items, make
// it, or reach other queues of the Work.
type queueTx struct {
	queueRows
	itemParts
	work     *Work
	txSize   int          // of the items that the present operation has processed
	ended    int          // size of the holds that were ended since the last Hold
	making   func() error // see Queue.Making, of the present operation
	assigned assigned
	settled  *layout.Item // memory for the item of one settlement after another
}

// assigned are the numbers that a queue has given out.
type assigned struct {
	count         int64 // highest count
	known         bool  // it was read
	counts        bool  // a higher one than the stored one was given out
	promisedFence int64 // highest minFence assigned by an import; 0: not read yet
}

// enter writes a new item.
func (qtx *queueTx) enter(l *layout.Item) { qtx.writeItem(&nowhere, l) }

// change writes what becomes of an item that stays. before is the item as the store has it, after is the item from now on.
func (qtx *queueTx) change(before, after *layout.Item) { qtx.writeItem(before, after) }

// end removes an item, and keeps its result if its push has asked for that. An item leaves its queue in no other way, but with all of
// its generation: by a purge, or with the queue.
func (qtx *queueTx) end(l *layout.Item, how finish) error {
	_, err := qtx.finished(l, how)
	return err
}

// finished is end, and says what became of the result.
func (qtx *queueTx) finished(l *layout.Item, how finish) (Kept, error) {
	qtx.writeItem(l, &nowhere)
	if l.Asks == 0 {
		return KeptNone, nil
	}
	kept, err := qtx.results.keep(l, how)
	qtx.finishes = true
	qtx.emit(Event{Type: EventFinished, ID: idOf(l), Priority: l.ReturnPriority, Deliveries: l.Deliveries()})
	return kept, err
}

// writeItem writes the rows of an item, and nothing else does: enter, change and end call it. What an item has in the spaces of its
// queue is a function of its record, so writeItem writes the difference. An item keeps its suffix and its key for life.
func (qtx *queueTx) writeItem(before, after *layout.Item) {
	if after != &nowhere {
		after.Foreign = false // we write its row
		after.WithOverhead()
	}
	qtx.rowChanged(before, after)
	qtx.timers.changed(before, after)
	qtx.forwardChanged(before, after)
	qtx.contents.changed(before, after)
	qtx.unique.changed(before, after)
	if before.Key != "" || after.Key != "" {
		qtx.keyIndex.changed(before, after)
		qtx.keyLimits.changed(before, after)
	}
	qtx.tally.Count(before, -1)
	qtx.tally.Count(after, 1)
	if after.State == layout.StateReady {
		qtx.arrive()
	}
}

func (qtx *queueTx) move(l *layout.Item, priority int64) {
	if priority == l.ReturnPriority {
		return
	}
	moved := *l
	if l.State == layout.StateLeased {
		moved.ReturnPriority = priority
	} else {
		moved.At(priority)
	}
	qtx.change(l, &moved)
}

// nowhere is the record of an item that is not there: it has no rows.
var nowhere layout.Item

// rowChanged writes the row of an item. Two transactions that take the same ready item
// conflict. Items in other states are read by whoever changes them.
func (qtx *queueTx) rowChanged(before, after *layout.Item) {
	if before.State != "" {
		key := qtx.key(before.Space(), before.Place)
		if before.State == layout.StateReady {
			qtx.tx.Conflict(key)
		}
		if before.State != after.State || before.Place != after.Place {
			qtx.tx.Clear(key)
		}
	}
	if after.State != "" {
		qtx.set(after.Space(), after.Place, after.AppendRow(qtx.valueBuffer[:0]))
	}
}

// forwardChanged keeps the row that leads from the place in the item's id to its place.
func (qtx *queueTx) forwardChanged(before, after *layout.Item) {
	was, is := before.Place.Priority != before.IDPriority, after.Place.Priority != after.IDPriority
	switch {
	case is && !(was && before.Place.Priority == after.Place.Priority):
		qtx.set(layout.SpaceForward, after.Home(), tuple.AppendInt(qtx.valueBuffer[:0], after.Place.Priority))
	case was && !is:
		qtx.tx.Clear(qtx.key(layout.SpaceForward, before.Home()))
	}
}

// locate finds an item by its id in any state, nil for an unknown id. The
// transaction depends on all rows that it reads, missing rows included.
func (qtx *queueTx) locate(r kv.Reader, id ID) (*layout.Item, error) {
	at := id.place
	rows, err := r.GetAll(qtx.rowsAt(at))
	if err != nil {
		return nil, err
	}
	if forward := rows[len(rows)-1]; forward != nil {
		if at.Priority, _, err = tuple.ConsumeInt(forward); err != nil {
			return nil, fmt.Errorf("damaged forwarding row: %w", err)
		}
		if rows, err = r.GetAll(qtx.rowsAt(at)); err != nil {
			return nil, err
		}
	}
	for i, space := range qtx.state.itemSpaces() {
		if rows[i] != nil {
			return layout.ParseItem(space, rows[i], at)
		}
	}
	return nil, nil
}

// rowsAt are the keys of a place in all spaces of items, and of its forwarding row.
func (qtx *queueTx) rowsAt(p layout.Place) [][]byte {
	spaces := qtx.state.itemSpaces()
	keys := make([][]byte, 0, len(spaces)+1)
	for _, space := range spaces {
		keys = append(keys, p.Append(qtx.prefix(space)))
	}
	return append(keys, p.Append(qtx.prefix(layout.SpaceForward)))
}

// stageNew has a queue that does not exist be a new one, which its first item makes.
func (qtx *queueTx) stageNew() error {
	if qtx.state.exists {
		return nil
	}
	if err := qtx.mayBeMade(); err != nil {
		return err
	}
	begin := &queueState{exists: true, config: defaultConfig()}
	if begin.generation = qtx.state.generation; begin.generation == 0 { // otherwise Delete has incremented it
		gone, err := qtx.tx.Get(layout.Row(layout.SpaceGone))
		if err != nil {
			return err
		}
		begin.generation = int64(kv.DecodeInteger(gone)) + 1
	}
	begin.born = begin.generation
	qtx.state, qtx.missing = begin, true
	return nil
}

// mayBeMade returns the reason not to make the queue, nil without one.
func (qtx *queueTx) mayBeMade() error {
	if qtx.making == nil {
		return nil
	}
	if with := CountsWith(qtx.name); with != "" {
		if other, err := qtx.work.queue(with); err != nil || other.there() {
			return err
		}
	}
	return qtx.making()
}

// create makes a queue that is missing, in a state.
func (qtx *queueTx) create(s *queueState) error {
	qtx.missing = false
	if s.generation > 1 {
		// Watches of an earlier queue of this name see a value that they have not seen.
		qtx.tx.Add(layout.QueueRow(layout.SpaceArrivals, qtx.name), s.generation<<32)
	}
	return qtx.writeState(s)
}

// orCreate makes the queue if need be.
func (qtx *queueTx) orCreate() error {
	if err := qtx.stageNew(); err != nil || !qtx.missing {
		return err
	}
	return qtx.create(qtx.state)
}

// happened returns the events of the present operation.
func (qtx *queueTx) happened() []Event {
	events := qtx.work.events
	qtx.work.events = nil
	return events
}

// highest is the highest count that was given out, also by what the transaction has not
// written yet.
func (qtx *queueTx) highest() (int64, error) {
	if !qtx.assigned.known {
		// By snapshot: a dependency on it would make all pushes conflict.
		high, err := qtx.snapshot.Get(layout.QueueRow(layout.SpaceHigh, qtx.name))
		if err != nil {
			return 0, err
		}
		qtx.assigned.count, qtx.assigned.known = int64(kv.DecodeInteger(high)), true
	}
	return qtx.assigned.count, nil
}

// issue notes that a count was given out.
func (qtx *queueTx) issue(count int64) {
	if count > qtx.assigned.count {
		qtx.assigned.count, qtx.assigned.counts = count, true
	}
}

// emit reports an event of the present operation.
func (qtx *queueTx) emit(e Event) {
	e.Queue = qtx.name
	qtx.work.events = append(qtx.work.events, e)
}

// done ends an operation.
func (qtx *queueTx) done() error {
	if qtx.work.joint {
		return nil
	}
	return qtx.work.flush()
}

// flush writes what operations have changed together: it has pops find the keys that
// changed, and adds to the counters.
func (qtx *queueTx) flush() error {
	if err := qtx.keyIndex.flush(); err != nil {
		return err
	}
	for counter, delta := range qtx.tally.Fields() {
		if *delta != 0 {
			qtx.tx.Add(layout.CounterKey(qtx.name, qtx.state.generation, counter), *delta)
		}
	}
	if qtx.arrived {
		qtx.tx.Add(layout.QueueRow(layout.SpaceArrivals, qtx.name), 1)
	}
	if qtx.finishes {
		qtx.results.tell()
	}
	qtx.tally, qtx.stored, qtx.arrived, qtx.finishes, qtx.promised = layout.Tally{}, nil, false, false, nil
	if qtx.assigned.counts {
		qtx.tx.Max(layout.QueueRow(layout.SpaceHigh, qtx.name), uint64(qtx.assigned.count))
		qtx.assigned.counts = false
	}
	return nil
}

// queueRows reads and writes rows of one queue within a Work. It sums up changes of the queue's
// counters, and of its keys, which flush writes once.
//
// A part that has only these rows changes no items, makes no queues, and reports no events: one with a queueTx does.
type queueRows struct {
	*transaction
	rowParts
	name    string
	state   *queueState // without exists if there is no such queue
	missing bool        // the state is of a new queue, which its first item makes
	arrived bool        // an item became ready
	freed   bool        // an item became ready since the last call of Work.Freed
	noted   bool        // the Work has seen to the row of the queue's last use
	tally   layout.Tally
	stored  *layout.Tally // the counters without the tally, if a limit has depended on them since the last flush
	keys    keyChanges

	finishes bool          // items have left results since the last flush
	promised *layout.Tally // what results took, and items that ask for theirs, at the last flush, if a limit has depended on that

	home           []byte // what follows the space in keys, see appendPrefix
	homeGeneration int64
}

// arrive notes that pops may find an item which they did not find before.
func (q *queueRows) arrive() { q.arrived, q.freed = true, true }

// there reports whether the queue exists.
func (q *queueRows) there() bool { return q.state.exists && !q.missing }

func (q *queueRows) writeState(s *queueState) error {
	raw, err := s.pack()
	if err != nil {
		return err
	}
	q.tx.Set(layout.QueueRow(layout.SpaceState, q.name), raw)
	q.state = s
	return nil
}

// appendPrefix appends the prefix of the queue's keys in a space.
func (q *queueRows) appendPrefix(key []byte, space string) []byte {
	if generation := q.state.generation; generation != q.homeGeneration || len(q.home) == 0 {
		q.homeGeneration = generation
		q.home = layout.AppendHome(q.home[:0], q.name, generation)
	}
	return append(tuple.AppendString(key, space), q.home...)
}

// prefix returns the prefix of the queue's keys in a space, with capacity for a place.
func (q *queueRows) prefix(space string) []byte {
	return q.appendPrefix(make([]byte, 0, len(space)+len(q.name)+64), space)
}

// key returns the key of p in a space, which is valid until the next call of key or timerKey.
func (q *queueRows) key(space string, p layout.Place) []byte {
	q.keyBuffer = p.Append(q.appendPrefix(q.keyBuffer[:0], space))
	return q.keyBuffer
}

// rowsOfKey returns the prefix of the rows of an item key in a space, with capacity for a place.
func (q *queueRows) rowsOfKey(space, key string) []byte {
	b := make([]byte, 0, len(space)+len(q.name)+len(key)+64)
	return tuple.AppendBytes(q.appendPrefix(b, space), []byte(key))
}

// timerKey returns the key of the timer of the item at p.
func (q *queueRows) timerKey(due int64, kind string, p layout.Place) []byte {
	q.keyBuffer = layout.AppendTimerKey(q.keyBuffer[:0], due, kind, q.name, q.state.generation, p)
	return q.keyBuffer
}

// set writes a value at p in a space. The value was built in valueBuffer, and may have outgrown it.
func (q *queueRows) set(space string, p layout.Place, value []byte) {
	q.tx.Set(q.key(space, p), value)
	q.valueBuffer = value
}

// A queue within a transaction has parts. Each has the rules of some rows, or of one way in which items change, and no
// state but that of the queue. A Work makes them once for each queue.

// rowParts are the parts that read and write rows, and change no items.
type rowParts struct {
	answers    answers
	attemptLog attemptLog
	capacity   capacity
	contents   contents
	disuse     disuse
	explains   explains
	fairIndex  fairIndex
	fences     fences
	ids        ids
	keyIndex   keyIndex
	keyInfos   keyInfos
	keyLimits  keyLimits
	keyWaits   keyWaits
	lists      lists
	progress   progress
	rates      rates
	reasons    reasons
	results    results
	settings   settings
	timers     timers
	unique     unique
}

func rowPartsOf(q *queueRows) rowParts {
	return rowParts{
		answers{q}, attemptLog{q}, capacity{q}, contents{q}, disuse{q}, explains{q}, fairIndex{q}, fences{q}, ids{q}, keyIndex{q}, keyInfos{q},
		keyLimits{q}, keyWaits{q}, lists{q}, progress{q}, rates{q}, reasons{q}, results{q}, settings{q}, timers{q}, unique{q},
	}
}

// itemParts are the parts that change items, make queues, or report events.
type itemParts struct {
	deadLetters deadLetters
	expiries    expiries
	holds       holds
	leases      leases
	popIDs      popIDs
	pops        pops
	retries     retries
	withdrawals withdrawals
}

func itemPartsOf(qtx *queueTx) itemParts {
	return itemParts{deadLetters{qtx}, expiries{qtx}, holds{qtx}, leases{qtx}, popIDs{qtx}, pops{qtx}, retries{qtx}, withdrawals{qtx}}
}
