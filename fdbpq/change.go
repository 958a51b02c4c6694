package fdbpq

import (
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// change writes what becomes of an item, and nothing else writes its rows. before is the
// item as the store has it, after as it is from now on; nil: it is not there.
//
// What an item has in the spaces of its queue is a function of that record, so change
// writes the difference. An item keeps its suffix and its key for life.
func (qtx *queueTx) change(before, after *layout.Item) {
	if before == nil {
		before = &nowhere
	}
	if after == nil {
		after = &nowhere
	} else {
		after.Foreign = false // we write its row
		after.WithOverhead()
	}
	qtx.rowChanged(before, after)
	qtx.timersChanged(before, after)
	qtx.forwardChanged(before, after)
	contents{&qtx.queueRows}.changed(before, after)
	unique{&qtx.queueRows}.changed(before, after)
	if before.Key != "" || after.Key != "" {
		keyIndex{&qtx.queueRows}.changed(before, after)
		keyLimits{&qtx.queueRows}.changed(before, after)
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

// timersChanged sets the timers of an item: of a lease or a delay, and of its TTL.
func (qtx *queueTx) timersChanged(before, after *layout.Item) {
	qtx.timerChanged(before, after, before.End(), after.End())
	was, is := before.Expiry(), after.Expiry()
	qtx.timerChanged(before, after, was, is)
	if was.Due != 0 {
		qtx.tally.Expiring--
	}
	if is.Due != 0 {
		qtx.tally.Expiring++
	}
}

func (qtx *queueTx) timerChanged(before, after *layout.Item, was, is layout.ItemTimer) {
	if was == is && before.Place == after.Place {
		return
	}
	if was.Kind != "" {
		timers{&qtx.queueRows}.stop(was.Due, was.Kind, before.Place)
	}
	if is.Kind != "" {
		timers{&qtx.queueRows}.start(is.Due, is.Kind, after.Place)
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
