package desk

import (
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/tenants"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
)

// itemRows estimates the bytes that an item takes in the store beside its content.
const itemRows = 512

// NewRoom returns a function that says whether a transaction may add new items of some bytes. It ends with the
// admission of the queue's tenant.
func NewRoom(store func(bytes int) error) func(to *tenants.Admission, items, bytes int) error {
	return func(to *tenants.Admission, items, bytes int) error {
		if err := store(bytes + items*itemRows); err != nil {
			return StoreFull(err)
		}
		if f := to.Admit(items, bytes+items*fdbpq.ItemBytes); f != nil {
			return f
		}
		return nil
	}
}

// StoreFull refuses new items for which the store has no room.
func StoreFull(err error) error {
	return &failure.Failure{Code: 429, Text: err.Error(), Reason: protocol.ReasonStoreFull}
}
