package fdbpq

// times is what a queue does about the delays and TTLs of items.
type times struct{ *queueTx }

// expire drops an item past its TTL, or moves it to the dead-letter queue.
func (ti times) expire(l *located) error {
	if ti.state.config.DeadLetterExpired && !l.isDead() {
		if dlq, err := (deadLetters{ti.queueTx}).open(); err != nil || dlq != nil {
			if err == nil {
				err = deadLetters{ti.queueTx}.bury(dlq, l, DeadExpired)
			}
			return err
		}
	}
	ti.emit(Event{Type: EventExpired, ID: l.id(l.place), Priority: l.returnPriority})
	ti.change(l, nil)
	return nil
}

// ttlDue ends an item when its TTL is over, unless it is leased.
func (ti times) ttlDue(t timer) error {
	l, err := ti.locate(ti.tx, ID{t.place})
	if err != nil || l == nil || l.state == StateLeased || l.expires != t.due {
		return err
	}
	ti.txSize += itemTxSize(ti.name, &l.envelope, false)
	return ti.expire(l)
}

// delayDue makes an item ready when its delay is over.
func (ti times) delayDue(t timer) error {
	row, err := ti.tx.Get(ti.key(spaceDelayed, t.place))
	if err != nil || row == nil {
		return err
	}
	l, err := parseItemRow(spaceDelayed, row, t.place)
	if err != nil || l.due != t.due {
		return err
	}
	now, err := ti.now()
	if err != nil {
		return err
	}
	ti.txSize += itemTxSize(ti.name, &l.envelope, false)
	if l.expires != 0 && l.expires <= now {
		return ti.expire(l)
	}
	ready := *l
	ti.change(l, ready.from(0))
	return nil
}
