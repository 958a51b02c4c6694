package fdbpq

import (
	"cmp"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// A client that hears nothing repeats its pop, and one bridge may still have the first
// attempt when another one answers the second. Without a memory of that answer, the
// first attempt might pop an item later, which nobody would ask for again. So a repeated
// pop that finds nothing is remembered like one that finds items, whether the queue
// exists or not, and when the queue is deleted and made again.

// minNothing is the least time for which a pop id is remembered that popped nothing.
// Another attempt may wait for an item for nearly two minutes.
const minNothing = 3 * time.Minute

// repeatedRow is the key of the row that a pop id has if the pop was repeated. It leads
// a delete to the ids that outlive the queue.
func repeatedRow(queue, popID string) []byte {
	return tuple.AppendString(queueRow(spaceRepeated, queue), popID)
}

// PopNothing is the pop of sel if the caller cannot give it an item, whatever the queue
// has. It returns what the pop with its id has popped before. If that is nothing, it
// never pops anything.
func (q Queue) PopNothing(tx kv.Tx, sel Selection, lease time.Duration) (Popped, error) {
	sel.Repeated = true
	if err := sel.check(); err != nil {
		return Popped{}, err
	}
	qtx, err := q.open(tx)
	if err != nil {
		return Popped{}, err
	}
	if !qtx.there() {
		return popIDs{qtx}.popUnknown(&sel, lease)
	}
	return popIDs{qtx}.repeatOrNothing(&sel, lease, ReasonEmpty)
}

// popUnknown is the pop of a queue that does not exist.
func (ps popIDs) popUnknown(sel *Selection, lease time.Duration) (Popped, error) {
	if sel.PopID == "" || !sel.Repeated {
		return Popped{Reason: ReasonUnknown}, nil
	}
	return ps.repeatOrNothing(sel, lease, ReasonUnknown)
}

// repeatOrNothing returns what the pop with this id has popped before, and otherwise pops
// nothing.
func (ps popIDs) repeatOrNothing(sel *Selection, lease time.Duration, reason Reason) (Popped, error) {
	again, err := ps.repeat(sel, lease)
	if err != nil || again != nil {
		return deref(again), cmp.Or(err, ps.done())
	}
	return ps.popNothing(sel, lease, reason)
}

// popNothing is the result of a pop that gets no item, for a reason other than that
// none is there.
func (ps popIDs) popNothing(sel *Selection, lease time.Duration, reason Reason) (Popped, error) {
	popped := Popped{Reason: reason, Final: sel.PopID != "" && sel.Repeated}
	if popped.Final {
		if err := ps.room(); err != nil {
			return Popped{}, err
		}
		if err := ps.rememberNothing(sel, lease); err != nil {
			return Popped{}, err
		}
	}
	return popped, ps.done()
}

// explainNothing sets the reason of a pop that is remembered to have popped nothing.
func (ps popIDs) explainNothing(popped *Popped) error {
	switch {
	case !ps.there():
		popped.Reason = ReasonUnknown
	case ps.state.paused:
		popped.Reason = ReasonPaused
	default:
		return ps.complete(popped)
	}
	return nil
}

// rememberNothing keeps that a repeated pop has popped nothing.
func (ps popIDs) rememberNothing(sel *Selection, lease time.Duration) error {
	now, err := ps.now()
	if err != nil {
		return err
	}
	m := rememberedPop{end: sel.End, band: *sel.Band, lease: lease}
	m.due = now + int64(m.window(ps.queueTx))
	m.store(ps.queueTx, sel.PopID)
	ps.tx.Set(repeatedRow(ps.name, sel.PopID), nil)
	ps.tally.remembered++
	return nil
}

// window is for how long a pop id is remembered.
func (m *rememberedPop) window(qtx *queueTx) time.Duration {
	window := time.Duration(qtx.state.config.DedupWindow)
	if m.nothing() {
		return max(window, minNothing)
	}
	return window
}

// rememberAfresh has the window of a pop id begin again with a repetition.
func (ps popIDs) rememberAfresh(popID string, m *rememberedPop, now int64) {
	ps.tx.Set(repeatedRow(ps.name, popID), nil)
	if due := now + int64(m.window(ps.queueTx)); due > m.due {
		ps.tx.Clear(idTimerKey(m.due, timerPopID, ps.name, popID))
		m.due = due
		m.store(ps.queueTx, popID)
	}
}

// maxOutliving bounds how many pop ids outlive their queue, so that a delete stays one
// transaction.
const maxOutliving = 1000

// forgetAllIDs clears all message and pop ids in constant time, but for the ids of
// repeated pops: these pop nothing of a later queue with this name. The timers of the
// others find nothing when they fall due.
func forgetAllIDs(tx kv.Tx, queue string) error {
	begin, end := tuple.Range(queueRow(spaceRepeated, queue))
	repeated, err := tx.Range(begin, end, kv.RangeOptions{Limit: maxOutliving})
	if err != nil {
		return err
	}
	keys := make([][]byte, len(repeated))
	for i, pair := range repeated {
		id, _, err := tuple.ConsumeString(pair.Key[len(begin)-1:])
		if err != nil {
			return fmt.Errorf("damaged repetition: %w", err)
		}
		keys[i] = popIDRow(queue, id)
	}
	rows, err := tx.GetAll(keys)
	if err != nil {
		return err
	}
	for _, space := range []string{spaceMsgID, spacePopID, spacePopItem, spaceRepeated} {
		tx.ClearRange(tuple.Range(queueRow(space, queue)))
	}
	tx.Clear(counterKey(queue, 0, counterRemembered))
	kept := int64(0)
	for i, row := range rows {
		if row == nil {
			continue // an earlier version has forgotten the id
		}
		m, err := parseRememberedPop(row)
		if err != nil {
			return err
		}
		m.items, m.leases = 0, nil
		tx.Set(keys[i], m.pack())
		tx.Set(repeated[i].Key, nil)
		kept++
	}
	if kept > 0 {
		tx.Add(counterKey(queue, 0, counterRemembered), kept)
	}
	return nil
}

// forgetUnknown clears the counter of a queue that does not exist, when its last id was
// forgotten.
func (ps popIDs) forgetUnknown() error {
	begin, end := tuple.Range(queueRow(spaceRepeated, ps.name))
	left, err := ps.tx.Range(begin, end, kv.RangeOptions{Limit: 1})
	if err != nil || len(left) > 0 {
		return err
	}
	ps.tx.Clear(counterKey(ps.name, 0, counterRemembered))
	ps.tally.remembered = 0
	return nil
}
