package fdbpq

import "github.com/pqbridge/pqbridge/fdbpq/internal/layout"

// expiries ends items whose TTL is over.
type expiries struct{ *queueTx }

// expire drops an item past its TTL, or moves it to the dead-letter queue.
func (ex expiries) expire(l *layout.Item) error {
	if ex.state.config.DeadLetterExpired {
		if taken, err := ex.deadLetters.take(l, DeadExpired); taken || err != nil {
			return err
		}
	}
	ex.emit(Event{Type: EventExpired, ID: idOf(l), Priority: l.ReturnPriority, Deliveries: l.Deliveries()})
	return ex.end(l, finish{how: FinishExpired})
}

// due ends an item when its TTL is over, unless it is leased.
func (ex expiries) due(t layout.Timer) error {
	l, err := ex.locate(ex.tx, ID{t.Place})
	if err != nil || l == nil || l.State == layout.StateLeased || l.Expires != t.Due {
		return err
	}
	ex.txSize += itemTxSize(ex.name, &l.Envelope, false)
	return ex.expire(l)
}
