package fdbpq

import (
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// ErrRequeue: the item does not go back to a queue from this one.
var ErrRequeue = errors.New("requeue refused")

// Requeued is the result of a Requeue.
type Requeued struct {
	Pushed        // with Err the dead letter stays where it is
	Found  bool   // the queue has the item
	To     string // the queue that it was pushed to
}

// Requeue takes a dead letter out of the queue and pushes it to the one that it comes from,
// which to names unless it is "".
//
// An item goes back only where dead letters come from to this queue now: a right to items of
// one queue gives none to push to another.
func (q Queue) Requeue(tx kv.Tx, id ID, to string) (Requeued, error) {
	from, item, err := q.beginWithItem(tx, id)
	if err != nil || item == nil {
		return Requeued{}, err
	}
	if to == "" {
		to = item.Dead.Origin
	}
	result := Requeued{Found: true, To: sameTenant(q.name, to)}
	if result.Err = comesFrom(item, to); result.Err != nil {
		return result, nil
	}
	p, refused, err := deadLetters{from}.requeuer(to, q.full)
	if refused != nil || err != nil {
		result.Err = refused
		return result, err
	}
	if result.Pushed, err = (deadLetters{from}).requeue(p, item, 0); err != nil || result.Err != nil {
		return result, err
	}
	result.Events = from.happened()
	return result, from.done()
}

// comesFrom returns why an item is no dead letter of a queue, nil if it is one.
func comesFrom(l *layout.Item, to string) error {
	switch {
	case !l.IsDead():
		return fmt.Errorf("%w: the item is no dead letter", ErrRequeue)
	case l.Dead.Origin != to || to == "":
		return fmt.Errorf("%w: the item is a dead letter of queue %q, not of %q", ErrRequeue, l.Dead.Origin, to)
	}
	return nil
}

// requeuer is what pushes dead letters of the queue to the one that they come from; refused says
// why that does not take them from here.
func (d deadLetters) requeuer(to string, full error) (p *pusher, refused, err error) {
	to = sameTenant(d.name, to)
	if refused, err = d.goBack(to); refused != nil || err != nil {
		return nil, refused, err
	}
	home, err := d.work.queue(to)
	if err != nil {
		return nil, nil, err
	}
	home.making = d.making
	p, err = d.work.pusher(to)
	if errors.Is(err, ErrNoQueue) {
		return nil, err, nil
	}
	if err != nil {
		return nil, nil, err
	}
	p.full = full
	return p, nil, p.readCounts(nil)
}

// goBack returns why a queue does not get its dead letters back from this one, nil if it does.
func (d deadLetters) goBack(to string) (refused, err error) {
	switch {
	case to == d.name:
		return fmt.Errorf("%w: the item is in queue %q already", ErrRequeue, ownName(to)), nil
	case d.name == to+DeadLetterSuffix:
		return nil, nil
	}
	home, err := d.work.queue(to)
	if err != nil || home.there() && home.state.config.DeadLetter == ownName(d.name) {
		return nil, err
	}
	return fmt.Errorf("%w: the dead letters of queue %q do not go to %q now: its dead_letter has to name that", ErrRequeue, ownName(to), ownName(d.name)), nil
}

// requeue takes an item out of the queue and pushes it to another one.
func (d deadLetters) requeue(p *pusher, item *layout.Item, delay time.Duration) (Pushed, error) {
	if err := (contents{&d.queueRows}).load(&item.Envelope, item.Place); err != nil {
		return Pushed{}, err
	}
	again := NewItem{Payload: item.Payload, Headers: item.Headers, Delay: delay}
	pushed, err := p.add(&again, item.Elsewhere(), item.ReturnPriority, &handOver{from: d.queueTx, item: item})
	if err == nil && pushed.Err == nil {
		p.evict(nil) // none of them is the item itself: that was refused
	}
	return pushed, err
}
