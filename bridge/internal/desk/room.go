package desk

import (
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/tenants"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
)

// rowBytes estimates the bytes of the rows of an item beside its content.
const rowBytes = 512

// Room says why a transaction may not add new items of some bytes, or returns nil. The room that the tenant gives is kept until
// its admission ends.
type Room func(to *tenants.Admission, items, bytes int) error

// NewRoom returns a Room that asks first the store, then the tenant.
func NewRoom(store func(bytes int) error) Room {
	return func(to *tenants.Admission, items, bytes int) error {
		if err := store(bytes + items*rowBytes); err != nil {
			return StoreFull(err)
		}
		if f := to.Admit(items, bytes+items*fdbpq.ItemBytes); f != nil {
			return f
		}
		return nil
	}
}

// EndRoom ends the admission of a transaction with a result. What the transaction would have added counts on only if it may have
// happened: the transaction may run again, and no tenant notices why.
func EndRoom(to *tenants.Admission, result error) {
	if result != nil && !failure.IsOutage(result) {
		to.Undo()
	}
	to.End()
}

// StoreFull refuses new items for which the store has no room.
func StoreFull(err error) error {
	return &failure.Failure{Code: 429, Text: err.Error(), Reason: protocol.ReasonStoreFull}
}
