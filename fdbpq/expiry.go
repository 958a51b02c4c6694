package fdbpq

// expiries ends items whose TTL is over.
type expiries struct{ *queueTx }

// expire drops an item past its TTL, or moves it to the dead-letter queue.
func (ex expiries) expire(l *located) error {
	if ex.state.config.DeadLetterExpired {
		if taken, err := (deadLetters{ex.queueTx}).take(l, DeadExpired); taken || err != nil {
			return err
		}
	}
	ex.emit(Event{Type: EventExpired, ID: idOf(l), Priority: l.returnPriority, Deliveries: l.deliveries()})
	ex.change(l, nil)
	return nil
}

// due ends an item when its TTL is over, unless it is leased.
func (ex expiries) due(t timer) error {
	l, err := ex.locate(ex.tx, ID{t.place})
	if err != nil || l == nil || l.state == StateLeased || l.expires != t.due {
		return err
	}
	ex.txSize += itemTxSize(ex.name, &l.envelope, false)
	return ex.expire(l)
}
