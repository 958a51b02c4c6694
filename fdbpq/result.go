package fdbpq

import (
	"errors"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Result is what became of an item whose push asked for that.
type Result struct {
	Finish     Finish
	Kept       Kept   // whether Body is what the holder said
	Body       []byte // of AckWith
	Finished   int64  // store time
	Deliveries int64
	Reason     string // why it is dead
	Next       string // the queue of the same tenant in which it went on, or the holder that took it to another store
	NextID     string // its id in that queue
}

var (
	// ErrPending: the item has not ended.
	ErrPending = errors.New("the item has no result yet")

	// ErrUnkept: the item has not ended, and its queue will not keep what becomes of it: its push has not asked for that.
	ErrUnkept = errors.New("the item will leave no result")
)

// Result returns what became of an item, nil for an unknown id: there never was such an item, or it ended without a result, or longer ago
// than that is kept, or by a purge. An item that has not ended is ErrPending or ErrUnkept.
func (q Queue) Result(r kv.Reader, id ID) (*Result, error) {
	qtx, err := q.view(r)
	if err != nil || qtx == nil {
		return nil, err
	}
	living, err := qtx.locate(r, id)
	switch {
	case err != nil:
		return nil, err
	case living != nil && idOf(living) != id: // it was moved here, and no item had this id
		return nil, nil
	case living != nil && living.Asks == 0:
		return nil, ErrUnkept
	case living != nil:
		return nil, ErrPending
	case !qtx.state.results:
		return nil, nil
	}
	return resultOf(qtx.results, r, id)
}

// Finishes returns a watch that fires when the queue keeps a result, or was purged. Created in the transaction that found no result, it
// misses none, except where the options of the store say that it is exclusive: there events tell of results.
func (q Queue) Finishes(tx kv.Tx) *kv.Watch {
	return tx.Watch(layout.QueueRow(layout.SpaceFinishes, q.name))
}

// Finished returns those of some items whose results the queue keeps, although their time may be over.
func (q Queue) Finished(r kv.Reader, ids ...ID) (finished []ID, err error) {
	keys := make([][]byte, len(ids))
	for i, id := range ids {
		keys[i] = layout.KeptKey(q.name, id.place.Suffix)
	}
	rows, err := r.GetAll(keys)
	for i, row := range rows {
		if row != nil {
			finished = append(finished, ids[i])
		}
	}
	return finished, err
}

// resultOf is what became of an item that is not there any more, nil if that is not kept.
func resultOf(rs results, r kv.Reader, id ID) (*Result, error) {
	suffix := id.place.Suffix
	kept, err := rs.read(r, suffix)
	if err != nil || kept == nil || kept.IDPriority != id.place.Priority {
		return nil, err
	}
	now, err := rs.now()
	if err != nil || kept.Since(suffix).End() <= now {
		return nil, err // a timer is about to forget it
	}
	if kept.Chunks > 0 {
		keys := make([][]byte, kept.Chunks)
		for n := range keys {
			keys[n] = layout.KeptPart(rs.name, suffix, int64(n))
		}
		parts, err := r.GetAll(keys)
		if err != nil {
			return nil, err
		}
		if kept.Body = joined(parts); int64(len(kept.Body)) != kept.Size {
			return nil, fmt.Errorf("damaged result: its %d parts have %d bytes instead of %d", kept.Chunks, len(kept.Body), kept.Size)
		}
	}
	result := &Result{
		Finish: Finish(kept.How), Kept: KeptWhole, Body: kept.Body, Finished: kept.Finished, Deliveries: kept.Deliveries,
		Reason: kept.Reason, Next: kept.Next, NextID: kept.NextID,
	}
	if kept.Dropped {
		result.Kept = KeptDropped
	}
	return result, nil
}
