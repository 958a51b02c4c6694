package fdbpq

import "github.com/pqbridge/pqbridge/fdbpq/kv"

// leaseDue returns an item to its queue when its lease has run out.
func (qtx *queueTx) leaseDue(t timer) error {
	row, err := qtx.tx.Get(qtx.key(spaceLeased, t.place))
	if err != nil || row == nil {
		return err
	}
	l, err := parseItemRow(spaceLeased, row, t.place)
	if err != nil || l.due != t.due {
		return err
	}
	qtx.txSize += itemTxSize(qtx.name, &l.envelope, false)
	return retries{qtx}.runOut(l)
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
		if l.extraAnswers > 0 {
			fewer := *l
			fewer.extraAnswers--
			qtx.change(l, &fewer)
			return nil
		}
		if l.fence-l.deliveries >= MaxReturns {
			l.since = givenBack
			_, err := qtx.putBack(l, 0)
			return err
		}
		if err := (rates{qtx}).giveBack(l); err != nil {
			return err
		}
		l.deliveries--
		l.since = givenBack
		_, err := qtx.reinstate(l, 0)
		return err
	})
}

// putBack returns an item to its queue when its lease ends, or moves it to the
// dead-letter queue when it has had all of its deliveries. The item is ready from a time on,
// if it is not past. putBack returns it as it is then, nil if it has left the queue.
func (qtx *queueTx) putBack(l *located, due int64) (*located, error) {
	if limit := qtx.state.config.MaxDeliveries; limit > 0 && l.deliveries >= limit && !l.isDead() {
		if dlq, err := (deadLetters{qtx}).open(); err != nil || dlq != nil {
			if err == nil {
				err = deadLetters{qtx}.bury(dlq, l, DeadMaxDeliveries)
			}
			return nil, err
		}
	}
	return qtx.reinstate(l, due)
}

// reinstate makes an item ready again, or delays it, whatever its deliveries.
func (qtx *queueTx) reinstate(l *located, due int64) (*located, error) {
	if due > 0 || l.expires != 0 {
		now, err := qtx.now()
		if err != nil {
			return nil, err
		}
		if l.expires != 0 && l.expires <= now {
			return nil, times{qtx}.expire(l)
		}
		if due <= now {
			due = 0
		}
	}
	back := *l
	back.extraAnswers, back.since, back.holder = 0, min(l.since, 0), ""
	qtx.change(l, back.at(l.returnPriority).from(due))
	return &back, nil
}
