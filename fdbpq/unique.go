package fdbpq

import (
	"strings"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// A unique value has one row, which names the item by its id. A push depends on that row and on
// the rows of the item. The transaction that ends the item clears the row blindly, so pops and
// settlements read nothing more. The item repeats its value: a row whose item does not have the
// value does not count.

// unique keeps the row of each unique value.
type unique struct{ *queueRows }

// reservedUnique begins the unique values that no push may have: the store gives them itself.
const reservedUnique = "\x00"

// changed gives a unique value to an item, or ends the claim of an item to its value.
func (u unique) changed(before, after *layout.Item) {
	if before.Unique == after.Unique {
		return
	}
	if before.Unique != "" {
		u.tx.Clear(u.row(before.Unique))
	}
	if after.Unique != "" {
		u.tx.Set(u.row(after.Unique), after.Home().Append(nil))
	}
}

func (u unique) row(value string) []byte {
	return uniqueRow(u.name, u.state.generation, value)
}

// uniqueRow returns the key of a unique value in one generation of a queue.
func uniqueRow(queue string, generation int64, value string) []byte {
	return tuple.AppendBytes(layout.GenerationPrefix(layout.SpaceUnique, queue, generation), []byte(value))
}

// endClaim ends the claim of an item that is leased, if its push said so.
func endClaim(e *layout.Envelope) {
	if e.UntilLeased {
		e.Unique, e.UntilLeased = "", false
	}
}

// claimOf is the claim of an item as it is shown. Claims to reserved values are not shown.
func claimOf(e *layout.Envelope) (value string, untilLeased bool) {
	if strings.HasPrefix(e.Unique, reservedUnique) {
		return "", false
	}
	return e.Unique, e.UntilLeased
}
