package fdbpq

import (
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// PopRecipe is Pop as the recipe documents it: it reads the head serializably, so it
// conflicts with every other pop and every push at its end of the queue. It is a
// reference for measurements and for users of the library; pqd does not call it.
func (q Queue) PopRecipe(tx kv.Tx, sel Selection) (Popped, error) {
	if err := sel.check(); err != nil {
		return Popped{}, err
	}
	qtx, err := q.begin(tx)
	if err != nil || qtx == nil {
		return Popped{Reason: ReasonUnknown}, err
	}
	if qtx.state.paused {
		return Popped{Reason: ReasonPaused}, nil
	}
	qtx.snapshot = tx
	sel.PopID = ""
	return qtx.popNew(&sel, 0, nil)
}
