package fdbpq

import (
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// pops completes pops and peeks: with items, or with the reason why there are none.
type pops struct{ *queueTx }

// complete sets Ready or Reason, of a pop or a peek from a band, from the queue's counters.
func (p pops) complete(popped *Popped, band Band) error {
	r, s := p.snapshot, p.state
	if len(popped.Items) > 0 {
		ready, err := r.Get(layout.CounterKey(p.name, s.generation, layout.CounterReady))
		popped.Ready = max(0, int64(kv.DecodeInteger(ready))+p.tally.Ready)
		return err
	}
	n, err := countsOf(p.name, r, s.generation)
	n = n.with(&p.tally)
	switch {
	case err != nil:
	case n.Ready > 0:
		return p.someReady(popped, n.Ready, band)
	case n.Leased > 0:
		popped.Reason = ReasonLeased
	case n.Delayed > 0:
		popped.Reason = ReasonDelayed
	default:
		popped.Reason = ReasonEmpty
	}
	return err
}

// someReady says why a pop or a peek from a band gets none of the queue's n ready items.
func (p pops) someReady(popped *Popped, n int64, band Band) error {
	spent, err := rates{&p.queueRows}.spent(bucketRow(p.name), p.state.config.Rate)
	if err != nil || spent {
		popped.Reason = ReasonRate
		return err
	}
	if p.state.takesTurns() {
		popped.Reason = ReasonBlocked
		return nil
	}
	popped.Reason = ReasonEmpty // they are past their TTL
	if band == AllPriorities {
		return nil
	}
	inside, err := readyItems(p.name, p.snapshot, p.state, Min, band, p.state.config.Ties)(1, 1)
	if err == nil && len(inside) == 0 {
		popped.Reason, popped.Ready = ReasonBand, n
	}
	return err
}

// completeLater is complete for a pop that a rate allows no item before a time.
func (p pops) completeLater(popped *Popped, band Band, retry time.Duration) error {
	err := p.complete(popped, band)
	if popped.Reason == ReasonRate {
		popped.Retry = retry
	}
	return err
}
