package fdbpq

import (
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
)

// claimant returns the living item with a unique value, nil when there is none. An item
// past its TTL ends here if nothing has ended it yet. The commit depends on the answer, so
// two pushes cannot both be the first. An item that is handed over leaves its value.
func (p *pusher) claimant(value string, h *handOver) (*layout.Item, error) {
	row, err := p.tx.Get(unique{&p.queueRows}.row(value))
	if err != nil || row == nil {
		return nil, err
	}
	home, err := layout.ParsePlace(row)
	if err != nil {
		return nil, fmt.Errorf("damaged row of a unique value: %w", err)
	}
	item, err := p.locate(p.tx, ID{home})
	if err != nil || item == nil || item.Unique != value || h.hands(item, p.queueTx) {
		return nil, err
	}
	if item.Expires == 0 {
		return item, nil
	}
	now, err := p.now()
	if err != nil || item.Expires > now || item.State == layout.StateLeased && item.Due > now {
		return item, err
	}
	if item.State == layout.StateLeased {
		return nil, retries{p.queueTx}.runOut(item)
	}
	return nil, expiries{p.queueTx}.expire(item)
}

// resolve is a push whose unique value a living item has.
func (p *pusher) resolve(item *NewItem, priority int64, living *layout.Item, handOver *handOver) (Pushed, error) {
	if item.MsgID != "" {
		if err := (ids{&p.queueRows}).room(item.MsgID, p.counted.Remembered); err != nil {
			return Pushed{Err: err}, nil
		}
	}
	seq, err := living.Place.Count()
	if err != nil {
		return Pushed{}, err
	}
	pushed := Pushed{ID: idOf(living), Seq: seq, Priority: living.ReturnPriority, Duplicate: true}
	switch {
	case item.OnConflict == ConflictReplace && living.State == layout.StateLeased:
		return Pushed{Err: ErrLeased}, nil
	case item.OnConflict == ConflictReplace && item.Key != living.Key:
		return Pushed{Err: fmt.Errorf("%w: %q", ErrAnotherKey, living.Key)}, nil
	case item.OnConflict == ConflictReplace && p.full != nil && item.size() > living.Size:
		return Pushed{Err: p.full}, nil
	case item.OnConflict == ConflictReplace && item.size() > living.Size && p.excess(p.counted.with(&p.tally)).bytes+item.size()-living.Size > 0:
		return Pushed{Err: p.tooFull(amount{bytes: 1})}, nil
	case item.OnConflict == ConflictReplace:
		if err := checkContent(item.Headers, item.Payload); err != nil {
			return Pushed{Err: err}, nil
		}
		if err := p.replaceContent(living, item); err != nil {
			return Pushed{}, err
		}
	case item.OnConflict == ConflictRaise && priority < living.ReturnPriority:
		p.move(living, priority)
		pushed.Priority = priority
	}
	if err := handOver.acknowledge(); err != nil {
		return Pushed{}, err
	}
	if item.MsgID != "" {
		err = ids{&p.queueRows}.remember(item.MsgID, pushed.ID)
	}
	return pushed, err
}

// replaceContent gives an item that is not leased the content of a push.
func (p *pusher) replaceContent(living *layout.Item, item *NewItem) error {
	fresh := *living
	fresh.Chunks = 0
	if err := (contents{&p.queueRows}).write(&fresh.Envelope, fresh.Place, item.Headers, item.Payload); err != nil {
		return err
	}
	p.change(living, &fresh)
	return nil
}
