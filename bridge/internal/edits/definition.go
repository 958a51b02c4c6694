package edits

import (
	"bytes"

	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
)

// definition is a change of something lasting, such as the settings of a key.
type definition struct{ change }

// changedBy is the act of a request that changes a definition unless its body is empty.
func (d *definition) changedBy(body []byte) (done bool, details []any) {
	if body = bytes.TrimSpace(body); len(body) == 0 {
		return false, nil
	}
	return true, []any{"change", fdbpq.ReasonText(string(body))}
}

// fits reports whether a transaction has room for this many bytes, and otherwise refuses the request.
func (d *definition) fits(at *desk.ChangeTx, bytes int) bool {
	if err := at.Room(0, bytes); err != nil {
		d.Failure = failure.Explain(err)
	}
	return d.Failure == nil
}
