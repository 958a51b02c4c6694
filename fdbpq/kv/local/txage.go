package local

import (
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

var errTooOld = fmt.Errorf("%w: transaction is older than %v", kv.ErrUnavailable, kv.MaxTxAge)

// checkAge fails when the transaction has read for longer than FoundationDB would
// let it.
func (t *tx) checkAge() error {
	if t.snap != nil && t.db.opts.Now().Sub(t.began) > kv.MaxTxAge {
		t.tooOld = true
		return errTooOld
	}
	return nil
}
