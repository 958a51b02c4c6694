package fdbpq

import (
	"strings"

	"github.com/pqbridge/pqbridge/internal/tuple"
)

// unique is what a queue does about unique values.
type unique struct{ *queueTx }

// changed makes an item the one with its unique value, or ends its claim to that.
func (u unique) changed(before, after *located) {
	if before.unique == after.unique {
		return
	}
	if before.unique != "" {
		u.tx.Clear(u.row(before.unique))
	}
	if after.unique != "" {
		u.tx.Set(u.row(after.unique), after.home().append(nil))
	}
}

func (u unique) row(value string) []byte {
	return uniqueRow(u.name, u.state.generation, value)
}

// uniqueRow returns the key of a unique value in one generation of a queue.
func uniqueRow(queue string, generation int64, value string) []byte {
	return tuple.AppendBytes(generationPrefix(spaceUnique, queue, generation), []byte(value))
}

// endClaim ends the claim of an item to its value when it is leased, if that is agreed.
func endClaim(e *envelope) {
	if e.untilLeased {
		e.unique, e.untilLeased = "", false
	}
}

// claimOf is what the claim of an item looks like. One to a reserved value is nobody's business.
func claimOf(e *envelope) (value string, untilLeased bool) {
	if strings.HasPrefix(e.unique, reservedUnique) {
		return "", false
	}
	return e.unique, e.untilLeased
}
