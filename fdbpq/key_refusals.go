package fdbpq

import (
	"errors"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

var (
	// ErrLeaseRequired: the leases of keys are counted, so a pop without one is refused.
	ErrLeaseRequired = errors.New("a lease is required where key_limit, key_order or the limit of a key is set")

	// ErrOnlyMin: pops look at keys, and know the next item of each, and no other.
	ErrOnlyMin = errors.New("only pop.min and peek.min of all priorities work where items wait for others of their key, or keys take turns")
)

// MayPop returns why the queue refuses a pop, one without a lease if that is 0.
func (q Queue) MayPop(r kv.Reader, sel *Selection, lease time.Duration) error {
	s, err := q.readState(r)
	if err != nil || s == nil {
		return err
	}
	return s.refuses(sel, lease)
}

// MayPeek returns why the queue refuses a peek.
func (q Queue) MayPeek(r kv.Reader, sel *Selection) error {
	s, err := q.readState(r)
	if err != nil || s == nil {
		return err
	}
	return s.refusesEnd(sel)
}

func (s *queueState) refuses(sel *Selection, lease time.Duration) error {
	if lease == 0 && s.keyLimited() {
		return ErrLeaseRequired
	}
	return s.refusesEnd(sel)
}

// refusesEnd returns ErrOnlyMin for a selection that needs more than the next item of each
// key. What is configured decides it, and not whether there are keys.
func (s *queueState) refusesEnd(sel *Selection) error {
	c := &s.config
	looks := c.limitsKeys() || c.KeyRate != (Rate{}) || c.Fair != "" || s.keysSet > 0
	if looks && (sel.End != Min || *sel.Band != AllPriorities) {
		return ErrOnlyMin
	}
	return nil
}
