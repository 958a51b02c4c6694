package fdbpq

import (
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// leaseDue returns an item to its queue when its lease has run out.
func (qtx *queueTx) leaseDue(t timer) error {
	row, err := qtx.tx.Get(qtx.key(spaceLeased, t.place))
	if err != nil || row == nil {
		return err
	}
	l, err := parseLeased(row, t.place)
	if err != nil || l.due != t.due {
		return err
	}
	qtx.txSize += qtx.itemTxSize(&l.envelope, false)
	qtx.loseLease(t.place, &l)
	return qtx.putBack(t.place, &l, 0)
}

func (qtx *queueTx) loseLease(p place, l *leasedItem) {
	qtx.emit(Event{Type: EventLeaseLost, ID: l.id(p), Priority: p.priority, Deliveries: l.deliveries})
}

// MaxReturns bounds how many leases of an item can be returned without counting as
// deliveries.
const MaxReturns = 64

// Return reports that one answer with this lease did not reach its consumer. The item
// goes back to the queue, and the lease does not count as a delivery. If repeated pops
// have answered the same lease, another answer may have arrived, so only the last
// report has an effect. After MaxReturns uncounted leases every one counts, since
// consumers can forge reports.
func (q Queue) Return(tx kv.Tx, lease Lease) (Settled, error) {
	return q.settle(tx, lease, whileItLasts, func(qtx *queueTx, l *located) error {
		leased := l.asLeased()
		if leased.extraAnswers > 0 {
			leased.extraAnswers--
			qtx.set(spaceLeased, l.place, leased.append(qtx.buffers.value[:0]))
			return nil
		}
		if leased.fence-leased.deliveries >= MaxReturns {
			leased.since = givenBack
			return qtx.putBack(l.place, leased, 0)
		}
		qtx.removeLeased(l.place, leased)
		leased.deliveries--
		if err := qtx.giveBackTokens(leased); err != nil {
			return err
		}
		leased.since = givenBack
		return qtx.reinstate(l.place, leased, 0)
	})
}

// putBack returns an item to its queue when its lease ends, or moves it to the
// dead-letter queue when it has had all of its deliveries.
func (qtx *queueTx) putBack(p place, l *leasedItem, delay time.Duration) error {
	qtx.removeLeased(p, l)
	e := &l.envelope
	if limit := qtx.state.config.MaxDeliveries; limit > 0 && e.deliveries >= limit && !e.isDead() {
		if dlq, err := qtx.deadLetterQueue(); err != nil || dlq != nil {
			if err == nil {
				err = qtx.moveToDeadLetters(dlq, qtx.relocate(p, e, l.returnPriority), e, DeadMaxDeliveries)
			}
			return err
		}
	}
	return qtx.reinstate(p, l, delay)
}

// reinstate makes an item ready again, or delays it, whatever its deliveries.
func (qtx *queueTx) reinstate(p place, l *leasedItem, delay time.Duration) error {
	e := &l.envelope
	e.extraAnswers, e.since = 0, min(e.since, 0)
	to := qtx.relocate(p, e, l.returnPriority)
	if delay <= 0 && e.expires == 0 {
		qtx.addReady(to, e)
		return nil
	}
	now, err := qtx.now()
	if err != nil {
		return err
	}
	switch {
	case e.expires != 0 && e.expires <= now:
		return qtx.expire(to, e)
	case delay > 0:
		qtx.addDelayed(to, now+int64(delay), e, qtx.holdsKey(e))
	default:
		qtx.addReady(to, e)
	}
	return nil
}
