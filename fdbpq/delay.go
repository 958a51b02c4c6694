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

// addDelayed keeps an item away from pops until due.
func (qtx *queueTx) addDelayed(at place, due int64, e *envelope) {
	qtx.set(spaceDelayed, at, e.append(tuple.AppendInt(qtx.buffers.value[:0], due)))
	qtx.setTimer(due, timerDelay, at)
	qtx.setExpiry(at, e)
	if e.begun() && qtx.state.config.KeyOrder {
		qtx.keyHeld(at, e) // it is not done; what a push delays keeps nobody waiting
	}
	qtx.tally.delayed++
}

// addReadyAt makes an item ready at a time, at once if that is 0.
func (qtx *queueTx) addReadyAt(at place, due int64, e *envelope) {
	if due != 0 {
		qtx.addDelayed(at, due, e)
	} else {
		qtx.addReady(at, e)
	}
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
