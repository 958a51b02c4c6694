package fdbpq

import (
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Reason says why a pop or a peek found no items.
type Reason string

const (
	ReasonUnknown Reason = "unknown" // no such queue
	ReasonPaused  Reason = "paused"
	ReasonRate    Reason = "rate"    // the queue's rate allows no delivery now
	ReasonBlocked Reason = "blocked" // ready items wait for others of their key, or for its rate, or it is paused
	ReasonLeased  Reason = "leased"  // there are only leased items, and perhaps delayed ones
	ReasonDelayed Reason = "delayed"
	ReasonEmpty   Reason = "empty"
)

// complete sets Ready or Reason from the queue's counters.
func (qtx *queueTx) complete(popped *Popped) error {
	r, s := qtx.snapshot, qtx.state
	if len(popped.Items) > 0 {
		ready, err := r.Get(counterKey(qtx.name, s.generation, counterReady))
		popped.Ready = max(0, int64(kv.DecodeInteger(ready))+qtx.tally.ready)
		return err
	}
	n, err := countsOf(qtx.name, r, s.generation)
	n = n.with(&qtx.tally)
	if err == nil && n.Ready > 0 {
		empty, err := rates{qtx}.spent(bucketRow(qtx.name), s.config.Rate)
		if err != nil || empty {
			popped.Reason = ReasonRate
			return err
		}
	}
	switch {
	case n.Ready > 0 && s.takesTurns():
		popped.Reason = ReasonBlocked
	case n.Leased > 0:
		popped.Reason = ReasonLeased
	case n.Delayed > 0:
		popped.Reason = ReasonDelayed
	default:
		popped.Reason = ReasonEmpty
	}
	return err
}

// completeLater is complete for a pop that a rate allows no item before a time.
func (qtx *queueTx) completeLater(popped *Popped, retry time.Duration) error {
	err := qtx.complete(popped)
	if popped.Reason == ReasonRate {
		popped.Retry = retry
	}
	return err
}
