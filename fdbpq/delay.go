package fdbpq

import (
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/kv/tuple"
)

func parseDelayed(b []byte, p place) (due int64, e envelope, err error) {
	due, rest, err := tuple.ConsumeInt(b)
	if err != nil {
		return 0, envelope{}, fmt.Errorf("damaged delayed item: %w", err)
	}
	e, err = parseEnvelope(rest, p)
	return due, e, err
}

func (qtx *queueTx) removeDelayed(p place, due int64, e *envelope) {
	qtx.tx.Clear(qtx.key(spaceDelayed, p))
	qtx.clearTimer(due, timerDelay, p)
	qtx.clearExpiry(p, e)
	if e.begun() {
		qtx.keyLetGo(p, e)
	}
	qtx.tally.delayed--
}

// addDelayed keeps an item away from pops until due, and with holds also the others of its
// key.
func (qtx *queueTx) addDelayed(at place, due int64, e *envelope, holds bool) {
	qtx.set(spaceDelayed, at, e.append(tuple.AppendInt(qtx.buffers.value[:0], due)))
	qtx.setTimer(due, timerDelay, at)
	qtx.setExpiry(at, e)
	if holds {
		qtx.keyHeld(at, e)
	}
	qtx.tally.delayed++
}

// addReadyAt makes an item ready at a time, at once if that is 0.
func (qtx *queueTx) addReadyAt(at place, due int64, e *envelope, holds bool) {
	if due != 0 {
		qtx.addDelayed(at, due, e, holds)
	} else {
		qtx.addReady(at, e)
	}
}

// holdsKey reports whether an item whose lease ends keeps the others of its key waiting
// while it is delayed: it is not done. What a push delays keeps nobody waiting.
func (qtx *queueTx) holdsKey(e *envelope) bool { return e.begun() && qtx.state.config.KeyOrder }

// replace puts an item that is not leased elsewhere, or puts another envelope in its place.
// It stays ready or delayed, and keeps the others of its key waiting if it did, whatever
// the configuration is by now.
func (qtx *queueTx) replace(l *located, at place, e *envelope) error {
	holds := false
	if l.state == StateDelayed && l.begun() {
		row, err := qtx.tx.Get(qtx.heldRow(l.place, &l.envelope))
		if err != nil {
			return err
		}
		holds = row != nil
	}
	qtx.remove(l)
	qtx.addReadyAt(at, l.due, e, holds)
	return nil
}

// delayDue makes an item ready when its delay is over.
func (qtx *queueTx) delayDue(t timer) error {
	row, err := qtx.tx.Get(qtx.key(spaceDelayed, t.place))
	if err != nil || row == nil {
		return err
	}
	due, e, err := parseDelayed(row, t.place)
	if err != nil || due != t.due {
		return err
	}
	now, err := qtx.now()
	if err != nil {
		return err
	}
	qtx.txSize += qtx.itemTxSize(&e, false)
	qtx.removeDelayed(t.place, due, &e)
	if e.expires != 0 && e.expires <= now {
		return qtx.expire(t.place, &e)
	}
	qtx.addReady(t.place, &e)
	return nil
}
