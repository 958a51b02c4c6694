package bridge

import (
	"errors"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// mayAsk returns why the queue refuses a pop or a peek.
func (t *popTransaction) mayAsk(tx kv.Tx, r *pop) error {
	sel := fdbpq.Selection{End: r.ask.end, Band: &r.ask.band}
	if r.peeks {
		return t.queue.MayPeek(tx, &sel)
	}
	lease, err := t.leaseOf(tx, r)
	if err != nil {
		return err
	}
	return t.queue.MayPop(tx, &sel, lease)
}

// refusedByKeys reports whether the error is the configuration's answer to a pop, which
// did nothing.
func refusedByKeys(err error) bool {
	return errors.Is(err, fdbpq.ErrLeaseRequired) || errors.Is(err, fdbpq.ErrOnlyMin)
}
