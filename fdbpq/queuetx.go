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
