package fdbpq

import (
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

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
			if err := p.eviction.run(&p, results[:i+1]); err != nil {
				return nil, err
			}
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

// openForPush begins to add items to the queue. The caller has the memory, as a Work may push often.
func (q Queue) openForPush(tx kv.Tx, p *pusher) error {
	qtx, err := q.open(tx)
	if err != nil {
		return err
	}
	p.full = q.full
	return p.open(qtx)
}
