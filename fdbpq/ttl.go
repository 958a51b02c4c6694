package fdbpq

// expire drops an item past its TTL, or moves it to the dead-letter queue. The item
// is in no space any more.
func (qtx *queueTx) expire(p place, e *envelope) error {
	if qtx.state.config.DeadLetterExpired && !e.isDead() {
		if dlq, err := qtx.deadLetterQueue(); err != nil || dlq != nil {
			if err == nil {
				err = qtx.moveToDeadLetters(dlq, p, e, DeadExpired)
			}
			return err
		}
	}
	qtx.emit(Event{Type: EventExpired, ID: e.id(p), Priority: p.priority})
	qtx.drop(p, e)
	return nil
}

// setExpiry sets the timer of a TTL. Leased items have none.
func (qtx *queueTx) setExpiry(p place, e *envelope) {
	if e.expires != 0 {
		qtx.tally.expiring++
		qtx.setTimer(e.expires, timerExpiry, p)
	}
}

func (qtx *queueTx) clearExpiry(p place, e *envelope) {
	if e.expires != 0 {
		qtx.tally.expiring--
		qtx.clearTimer(e.expires, timerExpiry, p)
	}
}

// ttlDue ends an item when its TTL is over, unless it is leased.
func (qtx *queueTx) ttlDue(t timer) error {
	l, err := qtx.locate(qtx.tx, qtx.state, ID{t.place})
	if err != nil || l == nil || l.state == StateLeased || l.expires != t.due {
		return err
	}
	qtx.txSize += qtx.itemTxSize(&l.envelope, false)
	qtx.remove(l)
	return qtx.expire(l.place, &l.envelope)
}
