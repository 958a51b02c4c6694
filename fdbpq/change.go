package fdbpq

import "github.com/pqbridge/pqbridge/internal/tuple"

// change writes what becomes of an item, and nothing else writes its rows. before is the
// item as the store has it, after as it is from now on; nil: it is not there.
//
// What an item has in the spaces of its queue is a function of that record, so change
// writes the difference. An item keeps its tail and its key for life.
func (qtx *queueTx) change(before, after *located) {
	if before == nil {
		before = &nowhere
	}
	if after == nil {
		after = &nowhere
	} else {
		after.foreign = false // we write its row
	}
	qtx.rowChanged(before, after)
	qtx.timersChanged(before, after)
	qtx.forwardChanged(before, after)
	contents{qtx}.changed(before, after)
	unique{qtx}.changed(before, after)
	if before.key != "" || after.key != "" {
		keyIndex{qtx}.changed(before, after)
		keyLimits{qtx}.changed(before, after)
	}
	qtx.tally.item(before, -1)
	qtx.tally.item(after, 1)
	if after.state == StateReady {
		qtx.arrive()
	}
}

func (qtx *queueTx) move(l *located, priority int64) {
	if priority == l.returnPriority {
		return
	}
	moved := *l
	if l.state == StateLeased {
		moved.returnPriority = priority
	} else {
		moved.at(priority)
	}
	qtx.change(l, &moved)
}

// nowhere is the record of an item that is not there: it has no rows.
var nowhere located

// rowChanged writes the row of an item. Two transactions that take the same ready item
// conflict. Items in other states are read by whoever changes them.
func (qtx *queueTx) rowChanged(before, after *located) {
	if before.state != "" {
		key := qtx.key(before.space(), before.place)
		if before.state == StateReady {
			qtx.tx.Conflict(key)
		}
		if before.state != after.state || before.place != after.place {
			qtx.tx.Clear(key)
		}
	}
	if after.state != "" {
		qtx.set(after.space(), after.place, after.appendRow(qtx.valueBuffer[:0]))
	}
}

// timersChanged sets the timers of an item: of a lease or a delay, and of its TTL.
func (qtx *queueTx) timersChanged(before, after *located) {
	qtx.timerChanged(before, after, before.end(), after.end())
	was, is := before.expiry(), after.expiry()
	qtx.timerChanged(before, after, was, is)
	if was.due != 0 {
		qtx.tally.expiring--
	}
	if is.due != 0 {
		qtx.tally.expiring++
	}
}

func (qtx *queueTx) timerChanged(before, after *located, was, is itemTimer) {
	if was == is && before.place == after.place {
		return
	}
	if was.kind != "" {
		timers{qtx}.stop(was.due, was.kind, before.place)
	}
	if is.kind != "" {
		timers{qtx}.start(is.due, is.kind, after.place)
	}
}

// forwardChanged keeps the row that leads from the place in the item's id to its place.
func (qtx *queueTx) forwardChanged(before, after *located) {
	was, is := before.place.priority != before.idPriority, after.place.priority != after.idPriority
	switch {
	case is && !(was && before.place.priority == after.place.priority):
		qtx.set(spaceForward, after.home(), tuple.AppendInt(qtx.valueBuffer[:0], after.place.priority))
	case was && !is:
		qtx.tx.Clear(qtx.key(spaceForward, before.home()))
	}
}
