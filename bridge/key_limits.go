package bridge

import (
	"errors"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// mayAsk returns why the queue's configuration refuses a pop or a peek.
func (t *popTransaction) mayAsk(tx kv.Tx, r *pop) error {
	config, err := t.queue.Config(tx)
	if err != nil {
		return err
	}
	sel := fdbpq.Selection{End: r.ask.end, Band: &r.ask.band}
	if r.peeks {
		return config.RefusesEnd(&sel)
	}
	return config.Refuses(&sel, max(r.ask.lease, time.Duration(config.Lease)))
}

// refusedByKeys reports whether the error is the configuration's answer to a pop, which
// did nothing.
func refusedByKeys(err error) bool {
	return errors.Is(err, fdbpq.ErrLeaseRequired) || errors.Is(err, fdbpq.ErrOnlyMin)
}
