package fdbpq

import (
	"errors"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Who removes or cancels an item ends its lease, too, and the holder hears of that from its next settlement. The events of the operation
// say whose lease has ended, so a bridge can tell the holder at once.

// Removed is the result of a Remove.
type Removed struct {
	Found    bool  // there was such an item
	Priority int64 // the last one that it had, or was moved to
	Events   []Event
}

// Remove removes an item, whatever its state. A lease of the item is lost. ErrHeld: a link holds the item.
func (q Queue) Remove(tx kv.Tx, id ID) (Removed, error) {
	qtx, l, err := q.beginAt(tx, id)
	if err != nil || l == nil {
		return Removed{}, err
	}
	removed := Removed{Found: true, Priority: l.ReturnPriority}
	if err := qtx.withdrawals.end(l, finish{how: FinishRemoved}); err != nil {
		return Removed{}, err
	}
	removed.Events = qtx.happened()
	return removed, qtx.done()
}

// Cancellation says how an item is cancelled.
type Cancellation struct {
	Reason string // for the result, of which the first kilobyte is kept, and for the holder of a lease
	Spare  bool   // a leased item goes on: ErrWorked
}

// Cancelled is the result of a Cancel.
type Cancelled struct {
	Found      bool // there is such an item, or the queue keeps what became of it
	Priority   int64
	Deliveries int64
	Finish     Finish    // FinishCancelled, or how the item had ended before
	Finished   time.Time // by this process's wall clock, of an end before; zero: this Cancel has ended the item
	Events     []Event
}

// ErrWorked: a cancellation spares leased items, and this one is leased.
var ErrWorked = errors.New("the item is leased")

// Cancel ends an item, whatever its state: it leaves its queue, and its result, if its push has asked for one, says that it was cancelled,
// and why. A lease of the item is lost. Of an item that has ended before, Cancel says how, if the queue keeps that, and changes nothing.
// A store without room for new items keeps no reason. ErrHeld: a link holds the item.
func (q Queue) Cancel(tx kv.Tx, id ID, c Cancellation) (Cancelled, error) {
	qtx, l, err := q.beginAt(tx, id)
	switch {
	case err != nil || qtx == nil:
		return Cancelled{}, err
	case l == nil:
		return qtx.withdrawals.before(id)
	case c.Spare && l.State == layout.StateLeased && !l.Held() && !l.Dying():
		return Cancelled{}, ErrWorked
	}
	done := Cancelled{Found: true, Priority: l.ReturnPriority, Deliveries: l.Deliveries(), Finish: FinishCancelled}
	if err := qtx.withdrawals.end(l, finish{how: FinishCancelled, reason: cutReason(c.Reason)}); err != nil {
		return Cancelled{}, err
	}
	done.Events = qtx.happened()
	return done, qtx.done()
}

// withdrawals end items from outside.
type withdrawals struct{ *queueTx }

// before says how an item has ended that is not there any more.
func (ws withdrawals) before(id ID) (Cancelled, error) {
	if !ws.state.results {
		return Cancelled{}, nil
	}
	kept, err := ws.results.of(ws.tx, id)
	if err != nil || kept == nil {
		return Cancelled{}, err
	}
	return Cancelled{
		Found: true, Priority: id.place.Priority, Deliveries: kept.Deliveries, Finish: Finish(kept.How), Finished: ws.store.Display(kept.Finished),
	}, nil
}

// end ends an item, and says whose lease has ended by that.
func (ws withdrawals) end(l *layout.Item, how finish) error {
	if l.Held() {
		return ErrHeld
	}
	kind := EventRemoved
	if how.how == FinishCancelled {
		kind = EventCancelled
	}
	e := Event{Type: kind, ID: idOf(l), Priority: l.ReturnPriority, Deliveries: l.Deliveries(), Reason: how.reason}
	if l.State == layout.StateLeased {
		e.Holder, e.Fence = l.Holder, l.Fence
	}
	if kind == EventCancelled || e.Holder != "" {
		ws.emit(e)
	}
	return ws.queueTx.end(l, how)
}
