package fdbpq

import (
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// A hold is a lease without an end, for a program that hands items to another store: its holder alone ends it, when the
// other side has the items or never gets them. No timer ends it, and no other program can settle, revoke, move or remove a held
// item. It neither began nor ends at a time, so no search for old leases, or for leases that have run out, finds it.

// Holding names items that are held. Its holder stores it, and so finds them again.
type Holding struct {
	Holder     string   // what it calls itself
	Generation int64    // of the queue, see [Queue.Generation]: a purge has ended the items of an earlier one
	Items      [][]byte // the places of the items, in the order in which they were popped
}

// Hold pops items, and holds them until [Queue.Drop] or [Queue.Release]. They have no lease that anybody could settle. If
// the Work has ended other holds of the queue, Hold pops only as many items as still fit into the transaction.
func (q Queue) Hold(tx kv.Tx, sel Selection, holder string) (Popped, Holding, error) {
	if err := CheckHolder(holder); err != nil {
		return Popped{}, Holding{}, err
	}
	sel.PopID, sel.Repeated, sel.Holders = "", false, []string{holder}
	if err := sel.check(); err != nil {
		return Popped{}, Holding{}, err
	}
	qtx, err := q.begin(tx)
	if err != nil {
		return Popped{}, Holding{}, err
	}
	if qtx == nil {
		return Popped{Reason: ReasonUnknown}, Holding{}, nil
	}
	if err := qtx.state.refuses(&sel, layout.NoEnd); err != nil {
		return Popped{}, Holding{}, err
	}
	if qtx.state.paused {
		return Popped{Reason: ReasonPaused}, Holding{}, qtx.done()
	}
	qtx.txSize, qtx.ended = qtx.ended, 0
	popped, err := qtx.pops.pop(&sel, layout.NoEnd, nil)
	if err != nil {
		return Popped{}, Holding{}, err
	}
	popped.Leased = 0
	of := Holding{Holder: holder, Generation: qtx.state.generation, Items: make([][]byte, len(popped.Items))}
	for i := range popped.Items {
		of.Items[i] = popped.Items[i].Lease.place.Append(nil)
		popped.Items[i].Lease = nil
	}
	return popped, of, nil
}

// Held reads items that are held, as Hold has returned them: as many as the selection has room for, from the first on. A
// purge has ended them all. The transaction depends on them.
func (q Queue) Held(tx kv.Tx, of Holding, sel Selection) (popped Popped, err error) {
	if err := sel.check(); err != nil {
		return popped, err
	}
	qtx, err := q.begin(tx)
	if err != nil || qtx == nil {
		return popped, err
	}
	h := qtx.holds
	items, err := h.items(&of)
	bytes := 0
	for i, item := range items {
		if bytes += int(item.Size); i > 0 && (i >= sel.Limit || !sel.fits(i+1, bytes)) {
			break
		}
		stored, err := qtx.contents.stored(tx, item, whole)
		if err != nil {
			return popped, err
		}
		popped.Items = append(popped.Items, stored.Item)
	}
	if err != nil || len(items) == 0 {
		return popped, err
	}
	return popped, qtx.reasons.complete(&popped, *sel.Band)
}

// Drop ends held items, which the other side has. Items that a purge has ended are gone already.
func (q Queue) Drop(tx kv.Tx, of Holding) error {
	_, err := q.endHold(tx, &of, func(h holds, item *layout.Item) error {
		h.txSize += itemTxSize(h.name, &item.Envelope, false)
		if item.Chunks == 0 {
			h.txSize -= int(item.Size) // which is not written
		}
		return h.end(item, finish{how: FinishHandedOver, next: of.Holder})
	})
	return err
}

// Release returns held items to their places, as if no pop had taken them; an item past its TTL expires instead. With the
// first kilobyte of a reason why the other side cannot have them, they become dead letters, if the queue has a
// dead-letter queue.
func (q Queue) Release(tx kv.Tx, of Holding, reason string) ([]Event, error) {
	reason = cutReason(reason)
	return q.endHold(tx, &of, func(h holds, item *layout.Item) error {
		item.Tries, item.Over = item.Tries-1, true
		if reason != "" {
			dead, err := h.deadLetters.take(item, reason)
			if err != nil || dead {
				return err
			}
		}
		_, err := h.leases.reinstate(item, 0)
		return err
	})
}

// endHold ends each item of a holding.
func (q Queue) endHold(tx kv.Tx, of *Holding, end func(holds, *layout.Item) error) ([]Event, error) {
	qtx, err := q.begin(tx)
	if err != nil || qtx == nil {
		return nil, err
	}
	h := qtx.holds
	items, err := h.items(of)
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		if err := end(h, item); err != nil {
			return nil, err
		}
	}
	qtx.ended += qtx.txSize
	return qtx.happened(), qtx.done()
}

// holds finds held items of a queue.
type holds struct{ *queueTx }

// items reads the items of a holding that no purge has ended.
func (h holds) items(of *Holding) ([]*layout.Item, error) {
	if of.Generation != h.state.generation || len(of.Items) == 0 {
		return nil, nil
	}
	places, rows := make([]layout.Place, len(of.Items)), make([][]byte, len(of.Items))
	for i, name := range of.Items {
		p, err := layout.ParsePlace(name)
		if err != nil {
			return nil, fmt.Errorf("damaged hold of %q: not the place of an item: %w", of.Holder, err)
		}
		places[i], rows[i] = p, p.Append(h.prefix(layout.SpaceLeased))
	}
	values, err := h.tx.GetAll(rows)
	if err != nil {
		return nil, err
	}
	items := make([]*layout.Item, len(values))
	for i, value := range values {
		if value != nil {
			if items[i], err = layout.ParseItem(layout.SpaceLeased, value, places[i]); err != nil {
				return nil, err
			}
		}
		if items[i] == nil || !items[i].Held() || items[i].Holder != of.Holder {
			return nil, fmt.Errorf("damaged hold: %q does not hold the item at %v", of.Holder, places[i])
		}
	}
	return items, nil
}
