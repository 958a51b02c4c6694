package pops

import (
	"errors"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/protocol"
)

// selection returns the selection of pops that one read serves.
func (t *transaction) selection(todo []*pop) fdbpq.Selection {
	sel := todo[0].ask.Selection(&t.Limit, t.Desk.Queue.Name())
	if len(todo) > 1 {
		sel.Limit, sel.Holders = len(todo), holdersOf(todo)
		sel.MaxBytes = int(max(1, int64(t.left.Bytes)-t.bytes))
	}
	first := todo[0]
	if first.most > 0 {
		sel.Limit = min(sel.Limit, first.most)
	}
	if first.careful && (sel.MaxBytes == 0 || sel.MaxBytes > aloneBytes) {
		sel.MaxBytes = aloneBytes
	}
	return sel
}

// holdersOf returns the names of the holders of pops that ask for one item each, nil if no holder has a name.
func holdersOf(todo []*pop) (holders []string) {
	for i, r := range todo {
		if r.ask.Holder != "" && holders == nil {
			holders = make([]string, len(todo))
		}
		if holders != nil {
			holders[i] = r.ask.Holder
		}
	}
	return holders
}

// popNothing has a repeated pop get nothing for good, unless an earlier attempt got items. why is the answer.
func (t *transaction) popNothing(tx kv.Tx, r *pop, why *failure.Failure) (int, error) {
	lease, err := t.leaseOf(tx, r)
	if err != nil {
		return 0, err
	}
	taken, err := t.queue.PopNothing(tx, r.ask.Selection(&t.Limit, t.Desk.Queue.Name()), lease)
	if err != nil {
		return 0, err
	}
	if len(taken.Items) == 0 {
		r.Failure, r.final = why, true
		return 1, nil
	}
	if r.ask.Bundle && t.Limit.Bundled(t.Desk.Queue.Name(), taken.Items) < len(taken.Items) {
		r.Failure = codec.ErrTooManyToRepeat
		return 1, nil
	}
	for i := range taken.Items {
		if t.Limit.Unanswerable(t.Desk.Queue.Name(), &taken.Items[i]) != nil {
			r.Failure = codec.ErrTooLargeToRepeat
			return 1, nil
		}
	}
	t.items += len(taken.Items)
	r.found, r.ready, r.leased = taken.Items, taken.Ready, taken.Leased
	return 1, nil
}

// leaseOf returns how long a pop leases items, 0 when it pops them for good. A pop for good that has to be confirmed
// leases them, too.
func (t *transaction) leaseOf(tx kv.Tx, r *pop) (time.Duration, error) {
	if r.ask.Lease > 0 {
		return r.ask.Lease, nil
	}
	config, err := t.queue.Config(tx)
	if r.confirms = config.Lease == 0 && r.ask.Confirm > 0; r.confirms {
		return r.ask.Confirm, err
	}
	return time.Duration(config.Lease), err
}

// reserved says why the store does not serve a pop now, or nil. Pops for good make room, unless it has to remember what
// they popped.
func (t *transaction) reserved(tx kv.Tx, r *pop) (*failure.Failure, error) {
	why := t.Reserve()
	if why == nil || r.peeks {
		return nil, nil
	}
	if last := t.Last(); last != nil {
		return failure.Explain(desk.StoreFull(last)), nil
	}
	lease, err := t.leaseOf(tx, r)
	if err != nil || lease == 0 && r.ask.ID == "" && r.gives == nil {
		return nil, err
	}
	return failure.Explain(desk.StoreFull(why)), nil
}

// popOrLease removes or leases the selected items. An item that does not fit into an answer fails the transaction, so
// the item stays.
func (t *transaction) popOrLease(tx kv.Tx, r *pop, sel fdbpq.Selection) (taken fdbpq.Popped, err error) {
	queue := t.queue
	lease, err := t.leaseOf(tx, r)
	if err != nil {
		return taken, err
	}
	if lease > 0 {
		taken, err = queue.Lease(tx, sel, lease)
	} else {
		taken, err = queue.Pop(tx, sel)
	}
	if err != nil {
		return taken, err
	}
	for i := range taken.Items {
		f := t.Limit.Unanswerable(queue.Name(), &taken.Items[i])
		if f != nil && len(taken.Items) > sel.Limit { // those of the first attempt
			return taken, codec.ErrTooLargeToRepeat
		}
		if f != nil && i > 0 {
			r.most = i
			return taken, errCut
		}
		if f != nil {
			return taken, f
		}
	}
	if !r.ask.Bundle {
		return taken, nil
	}
	switch n := t.Limit.Bundled(queue.Name(), taken.Items); {
	case n == len(taken.Items):
	case n == 0:
		return taken, codec.ErrBundleRoom
	case len(taken.Items) > sel.Limit: // those of the first attempt, however many are asked for
		return taken, codec.ErrTooManyToRepeat
	default:
		r.most = n
		return taken, errCut
	}
	return taken, nil
}

// hasRoom reports whether the transaction has room for any items of a bundle, beside the items that it has.
func (t *transaction) hasRoom(r *pop) bool {
	return r.ask.Bundle &&
		t.items+r.ask.Limit <= t.left.Requests+protocol.MaxBundle && t.bytes+int64(t.Limit.BundleRoom()) <= bundlesBytes
}

// bundlesBytes bounds the items of several bundles in one transaction.
const bundlesBytes = 2 << 20

// errCut makes a transaction run again, with at most pop.most items in the answer.
var errCut = errors.New("batch ends at an item that does not fit into an answer")

// mayAsk returns why the queue refuses a pop or a peek.
func (t *transaction) mayAsk(tx kv.Tx, r *pop) error {
	sel := fdbpq.Selection{End: r.ask.End, Band: &r.ask.Band}
	if r.peeks {
		return t.queue.MayPeek(tx, &sel)
	}
	lease, err := t.leaseOf(tx, r)
	if err != nil {
		return err
	}
	return t.queue.MayPop(tx, &sel, lease)
}

// refusedByKeys reports whether the configuration of the queue refuses the pop.
func refusedByKeys(err error) bool {
	return errors.Is(err, fdbpq.ErrLeaseRequired) || errors.Is(err, fdbpq.ErrOnlyMin)
}
