package fdbpq

import (
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Pushed is the result of the push of one item.
type Pushed struct {
	ID        ID
	Seq       int64 // number in push order
	Priority  int64
	Duplicate bool  // no item was added: ID and Seq are those of the item with this message id or unique value
	Evicted   bool  // the queue was full, and this item was its least urgent one
	Err       error // this item was refused, without effect on the others

	Events []Event // of items that this push evicted from a full queue, perhaps this one, or found past their TTL
}

// pusher assigns places within one transaction.
type pusher struct {
	*queueTx
	full        error       // why no new items are added
	pushed      int64       // wall clock of this transaction
	counted     Counts      // of the queue, without what the Work has not written yet, if a limit depends on it
	added       layout.Item // the last item that was added
	victims     []layout.Item
	dropsItself bool // the item that is about to be added is a victim, too
	itself      int  // its number among them
}

// pusher is what adds items to a queue of the Work.
func (w *Work) pusher(queue string) (*pusher, error) {
	qtx, err := w.queue(queue)
	if err != nil {
		return nil, err
	}
	p := new(pusher)
	return p, p.open(qtx)
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

// open begins to add items to a queue. ErrNoQueue: there is no such queue,
// and the store's options forbid to make it.
func (p *pusher) open(qtx *queueTx) error {
	if !qtx.there() && qtx.store.refuseUnknown {
		return ErrNoQueue
	}
	if err := qtx.stageNew(); err != nil {
		return err
	}
	if _, err := qtx.highest(); err != nil {
		return err
	}
	if qtx.wall == 0 {
		qtx.wall = qtx.store.inside.Clock.Wall().UnixNano()
	}
	p.queueTx, p.pushed = qtx, qtx.wall
	return nil
}

// prepare makes the queue with its first item, and has it keep items with keys, or with
// unique values, from the first one on.
func (p *pusher) prepare(e *layout.Envelope) error {
	first := e.Key != "" && !p.state.keyed || e.Unique != "" && !p.state.unique
	if first {
		changed := *p.state
		changed.keyed, changed.unique = changed.keyed || e.Key != "", changed.unique || e.Unique != ""
		p.state = &changed
	}
	if p.missing {
		return p.create(p.state)
	}
	if first {
		return p.writeState(p.state)
	}
	return nil
}

// readCounts reads the counters if a limit depends on them.
func (p *pusher) readCounts(items []NewItem) error {
	depends := p.store.limited(&p.state.config)
	for i := range items {
		depends = depends || items[i].MsgID != ""
	}
	if !depends {
		return nil
	}
	_, err := p.countsSoFar()
	if err == nil {
		p.counted = Counts{}.with(p.stored)
	}
	return err
}

// assign gives a new item, which is ready, the place behind all of its priority, and returns
// its number in push order.
func (p *pusher) assign(l *layout.Item, priority int64) (seq int64) {
	seq = p.assigned.count + 1
	l.IDPriority = priority
	l.Place.Suffix = layout.NewSuffix(seq)
	l.At(priority).From(0)
	return seq
}

// delay returns the item's delay; NotBefore is by this process's wall clock.
func (p *pusher) delay(item *NewItem) time.Duration {
	if !item.NotBefore.IsZero() {
		return item.NotBefore.Sub(p.store.inside.Clock.Wall())
	}
	return item.Delay
}

// timesOf sets the end of the item's TTL and returns the end of its delay, 0 for
// none.
func (p *pusher) timesOf(item *NewItem, e *layout.Envelope) (due int64, err error) {
	ttl := item.TTL
	if ttl == 0 {
		ttl = time.Duration(p.state.config.TTL)
	}
	delay := p.delay(item)
	if ttl <= 0 && delay <= 0 {
		return 0, nil
	}
	now, err := p.now()
	if err != nil {
		return 0, err
	}
	if ttl > 0 {
		e.Expires = now + int64(ttl)
	}
	if delay > 0 {
		due = now + int64(delay)
	}
	return due, nil
}
