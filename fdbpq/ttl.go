package fdbpq

// expire drops an item past its TTL, or moves it to the dead-letter queue.
func (qtx *queueTx) expire(l *located) error {
	if qtx.state.config.DeadLetterExpired && !l.isDead() {
		if dlq, err := qtx.deadLetterQueue(); err != nil || dlq != nil {
			if err == nil {
				err = qtx.moveToDeadLetters(dlq, l, DeadExpired)
			}
			return err
		}
	}
	qtx.emit(Event{Type: EventExpired, ID: l.id(l.place), Priority: l.returnPriority})
	qtx.change(l, nil)
	return nil
}

// ttlDue ends an item when its TTL is over, unless it is leased.
func (qtx *queueTx) ttlDue(t timer) error {
	l, err := qtx.locate(qtx.tx, qtx.state, ID{t.place})
	if err != nil || l == nil || l.state == StateLeased || l.expires != t.due {
		return err
	}
	qtx.txSize += qtx.itemTxSize(&l.envelope, false)
	return qtx.expire(l)
}
