package fdbpq

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// ErrTime: a delay or a TTL is out of bounds.
var ErrTime = errors.New("time out of bounds")

// Push adds items to the queue in their order, and makes the queue if need be.
// Pushes conflict neither with each other nor with pops.
func (q Queue) Push(tx kv.Tx, items ...NewItem) ([]Pushed, error) {
	q.PrefetchPush(tx, items...)
	var p pusher
	if err := q.openForPush(tx, &p); err != nil {
		return nil, err
	}
	results := make([]Pushed, len(items))
	if err := p.readCounts(items); err != nil {
		return nil, err
	}
	for i := range items {
		pushed, err := p.push(&items[i])
		if err != nil {
			return nil, err
		}
		if results[i] = pushed; pushed.Err == nil && !pushed.Duplicate {
			p.evict(results[:i+1])
		}
		results[i].Events = p.happened()
	}
	return results, p.done()
}

// PrefetchPush says which items the transaction is about to push, so that an engine over a
// network reads what the push depends on at the same time.
func (q Queue) PrefetchPush(tx kv.Tx, items ...NewItem) {
	var known *queueTx
	if q.work != nil {
		known = q.work.known(q.name)
	}
	var guess *queueState
	if known == nil {
		tx.Prefetch(layout.QueueRow(layout.SpaceState, q.name), layout.QueueRow(layout.SpaceHigh, q.name))
		guess = q.store.queueStates.guess(q.name)
	} else {
		guess = known.state
	}
	counts, time := q.store.limited(&guess.config), guess.config.TTL > 0
	for i := range items {
		item := &items[i]
		if item.MsgID != "" {
			tx.Prefetch(msgIDRow(q.name, item.MsgID))
			counts, time = true, true
		}
		if item.Unique != "" {
			tx.Prefetch(uniqueRow(q.name, guess.generation, item.claims()))
		}
		if item.Delay > 0 || item.TTL > 0 || !item.NotBefore.IsZero() {
			time = true
		}
		if lease := item.HandOver; lease != nil {
			q.store.Queue(lease.Queue).PrefetchLeases(tx, *lease)
		}
	}
	if counts && (known == nil || known.stored == nil) {
		tx.Prefetch(layout.CounterKeys(q.name, guess.generation, q.store.countersOf(&guess.config))...)
	}
	if time && (known == nil || known.storeTime == 0) {
		tx.Prefetch(layout.Row(layout.SpaceTime))
	}
}

func (p *pusher) push(item *NewItem) (Pushed, error) {
	priority := item.Priority
	if !item.HasPriority {
		priority = p.state.config.Priority
	}
	if err := cmp.Or(checkMsgID(item.MsgID), CheckKey(item.Key), CheckWeight(item.Key, item.Weight), item.checkUnique()); err != nil {
		return Pushed{Err: err}, nil
	}
	if item.MsgID != "" {
		first, err := ids{&p.queueRows}.first(item.MsgID)
		if err != nil {
			return Pushed{}, err
		}
		if first != nil {
			return p.pushAgain(item, first)
		}
	}
	handOver, refused, err := p.openHandOver(item.HandOver)
	if refused != nil || err != nil {
		return Pushed{Err: refused}, err
	}
	unique := item.claims()
	if unique != "" {
		living, err := p.claimant(unique, handOver)
		if err != nil {
			return Pushed{}, err
		}
		if living != nil {
			return p.resolve(item, priority, living, handOver)
		}
	}
	return p.add(item, layout.Envelope{Unique: unique, UntilLeased: item.UniqueUntilLeased, Key: item.Key}, priority, handOver)
}

// add adds an item to the queue unless its limits forbid that, in place of one that is handed
// over if there is one. e is what the item has besides its content and its times.
func (p *pusher) add(item *NewItem, e layout.Envelope, priority int64, handOver *handOver) (Pushed, error) {
	if refused, err := p.checkLimits(item, &e, priority, handOver); refused != nil || err != nil {
		return Pushed{Err: refused}, err
	}
	l := layout.Item{Envelope: e}
	l.PushedAt = p.pushed
	seq := p.assign(&l, priority)
	if err := (contents{&p.queueRows}).write(&l.Envelope, l.Place, item.Headers, item.Payload); err != nil {
		return Pushed{Err: err}, nil
	}
	if err := p.prepare(&l.Envelope); err != nil {
		return Pushed{}, err
	}
	if err := handOver.acknowledge(); err != nil {
		return Pushed{}, err
	}
	p.issue(seq)
	due, err := p.timesOf(item, &l.Envelope)
	if err != nil {
		return Pushed{}, err
	}
	if item.Weight != 0 && p.state.config.Fair != "" && due == 0 { // a pop forgets it with the last ready item
		p.tx.Set(fair{&p.queueRows}.weightRow(item.Key), tuple.AppendInt(nil, item.Weight))
	}
	p.change(nil, l.From(due))
	p.added = l
	pushed := Pushed{ID: ID{l.Place}, Seq: seq, Priority: priority}
	if item.MsgID != "" {
		err = ids{&p.queueRows}.remember(item.MsgID, pushed.ID)
	}
	return pushed, err
}

// pushAgain answers the push of an item that was pushed before. A lease that it hands
// over is acknowledged if it is still valid: the item has been delivered again since.
func (p *pusher) pushAgain(item *NewItem, first *rememberedPush) (Pushed, error) {
	handOver, refused, err := p.openHandOver(item.HandOver)
	if err != nil {
		return Pushed{}, err
	}
	if errors.Is(refused, ErrHandOver) {
		return Pushed{Err: refused}, nil
	}
	if err := handOver.acknowledge(); err != nil {
		return Pushed{}, err
	}
	seq, err := first.id.place.Count()
	return Pushed{ID: first.id, Seq: seq, Priority: first.id.place.Priority, Duplicate: true}, err
}

// checkLimits returns why the item may not be pushed, nil if it may.
func (p *pusher) checkLimits(item *NewItem, e *layout.Envelope, priority int64, handOver *handOver) (refused, err error) {
	if p.full != nil && (handOver == nil || item.size() > handOver.item.Size) {
		return p.full, nil
	}
	if full := p.store.room.full(); full != nil && !handOver.replacedBy(item) {
		return full, nil
	}
	delay := p.delay(item)
	if delay > MaxDelay {
		return fmt.Errorf("%w: delay of %s, allowed are up to %s", ErrTime, delay, MaxDelay), nil
	}
	if item.TTL > MaxDelay {
		return fmt.Errorf("%w: TTL of %s, allowed are up to %s", ErrTime, item.TTL, MaxDelay), nil
	}
	if refused, err := p.makeRoom(amountOf(item.size()+e.WithOverhead()), priority, delay > 0, handOver); refused != nil || err != nil {
		return refused, err
	}
	if item.MsgID != "" {
		return ids{&p.queueRows}.room(item.MsgID, p.counted.Remembered), nil
	}
	return nil, nil
}
