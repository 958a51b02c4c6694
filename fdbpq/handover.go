package fdbpq

import (
	"errors"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
)

// A push can acknowledge a leased item in its own transaction, so an item of one queue
// becomes an item of another one exactly once, wherever its consumer crashes.
// It conflicts with other settlements and pops of the leased item, and not within its own
// queue. All reasons to refuse it are checked before the first write: no part of a transaction
// can be undone while other pushes of its batch hold. The queue of the lease has to agree, or
// a right to push to one queue would become a right to acknowledge items of another one.

// ErrHandOver: the queue of the lease does not let pushes to this queue acknowledge its
// items.
var ErrHandOver = errors.New("hand-over refused")

// ErrTenants is an ErrHandOver that no configuration allows.
var ErrTenants = fmt.Errorf("%w: the leased item is another tenant's, and stays there", ErrHandOver)

// handOver is a leased item that a push is to acknowledge.
type handOver struct {
	from  *queueTx
	item  *layout.Item
	spent *int64 // see Lease
}

// openHandOver finds the item of a lease, and changes nothing. It returns why the push is
// refused: *LostError, or ErrHandOver. Without a lease it returns nil.
func openHandOver(qtx *queueTx, lease *Lease) (h *handOver, refused, err error) {
	if lease == nil {
		return nil, nil, nil
	}
	from, err := qtx.work.queue(lease.Queue)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case !from.there():
		return nil, &LostError{Reason: LostGone}, nil
	case from.state.generation != lease.generation: // a purge keeps results
		return nil, from.results.lost(*lease, ""), nil
	}
	item, err := from.leases.item(*lease, new(layout.Item))
	switch {
	case err != nil:
		return nil, nil, err
	case item == nil:
		return nil, from.results.lost(*lease, ""), nil
	case item.Fence != lease.Fence:
		return nil, &LostError{Reason: LostTaken}, nil
	case tenantOf(from.name) != tenantOf(qtx.name):
		return nil, ErrTenants, nil
	case !listed(from.state.config.HandOver, ownName(qtx.name)):
		return nil, fmt.Errorf("%w: the hand_over of queue %q has to name %q", ErrHandOver, ownName(from.name), ownName(qtx.name)), nil
	}
	return &handOver{from: from, item: item, spent: lease.Spent}, nil, nil
}

// acknowledge deletes the item, as Ack does: its work goes on as an item of the queue by which it is handed over. A push without a
// hand-over has no item to delete.
func (h *handOver) acknowledge(by string, as ID) error {
	if h == nil {
		return nil
	}
	if err := h.from.end(h.item, finish{how: FinishHandedOver, next: ownName(by), nextID: as}); err != nil {
		return err
	}
	if err := h.from.disuse.use(); err != nil {
		return err
	}
	pays := h.from.rates.paysFor(h.item, h.spent)
	return h.from.rates.settle(&pays)
}

// replacedBy reports whether an item takes no more room than the item handed over: it has no more bytes, and no other key
// or value.
func (h *handOver) replacedBy(item *NewItem) bool {
	return h != nil && item.size() <= h.item.Size &&
		(item.Key == "" || item.Key == h.item.Key) && (item.claims() == "" || item.claims() == h.item.Unique)
}

// hands reports whether an item of the queue that is pushed to is the item handed over.
func (h *handOver) hands(item *layout.Item, by *queueTx) bool {
	return h != nil && h.from == by && h.item.Place == item.Place
}

// keptFrom is the reason to refuse an item that would be evicted at once, if it is handed
// over.
func (h *handOver) keptFrom(reason error) error {
	if h == nil {
		return nil
	}
	return reason
}
