package fdbpq

import (
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// reasons completes the answers of pops and peeks: with the number of ready items, or with the
// reason why no item was found.
type reasons struct{ *queueRows }

// complete sets Ready or Reason, of a pop or a peek from a band, from the queue's counters.
func (rs reasons) complete(popped *Popped, band Band) error {
	r, s := rs.snapshot, rs.state
	if len(popped.Items) > 0 {
		ready, err := r.Get(layout.CounterKey(rs.name, s.generation, layout.CounterReady))
		popped.Ready = max(0, int64(kv.DecodeInteger(ready))+rs.tally.Ready)
		return err
	}
	n, err := countsOf(rs.name, r, s.generation)
	n = n.with(&rs.tally)
	switch {
	case err != nil:
	case n.Ready > 0:
		return rs.someReady(popped, n.Ready, band)
	case n.Leased > 0:
		popped.Reason = ReasonLeased
	case n.Delayed > 0:
		popped.Reason = ReasonDelayed
	default:
		popped.Reason = ReasonEmpty
	}
	return err
}

// someReady sets the reason why a pop or a peek from a band gets no item of a queue with n ready items.
func (rs reasons) someReady(popped *Popped, n int64, band Band) error {
	spent, err := rs.rates.spent(bucketRow(rs.name), rs.state.config.Rate)
	if err != nil || spent {
		popped.Reason = ReasonRate
		return err
	}
	if rs.state.takesTurns() {
		popped.Reason = ReasonBlocked
		return nil
	}
	popped.Reason = ReasonEmpty // they are past their TTL
	if band == AllPriorities {
		return nil
	}
	inside, err := readyItems(rs.name, rs.snapshot, rs.state, Min, band, rs.state.config.Ties)(1, 1)
	if err == nil && len(inside) == 0 {
		popped.Reason, popped.Ready = ReasonBand, n
	}
	return err
}

// completeLater completes a pop that gets no item, and retries after a time if a rate is the reason.
func (rs reasons) completeLater(popped *Popped, band Band, retry time.Duration) error {
	err := rs.complete(popped, band)
	if popped.Reason == ReasonRate {
		popped.Retry = retry
	}
	return err
}
