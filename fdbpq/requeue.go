package fdbpq

import (
	"errors"
	"fmt"

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
		to = item.dead.Origin
	}
	result := Requeued{Found: true, To: to}
	if result.Err, err = (deadLetters{from}).goesBack(item, to); result.Err != nil || err != nil {
		return result, err
	}
	if err := (contents{from}).load(&item.envelope, item.place); err != nil {
		return result, err
	}
	p, err := from.pusher(to)
	if errors.Is(err, ErrNoQueue) {
		result.Err = err
		return result, nil
	}
	if err != nil {
		return result, err
	}
	p.full = q.full
	again := NewItem{Payload: item.payload, Headers: item.headers, Key: item.key, attempts: item.attempts}
	if err := p.readCounts([]NewItem{again}); err != nil {
		return result, err
	}
	result.Pushed, err = p.add(&again, item.returnPriority, &handOver{from: from, item: item})
	if err != nil || result.Err != nil {
		return result, err
	}
	p.evict(nil) // none of them is the item itself: that was refused
	result.Events = from.happened()
	return result, from.done()
}

// goesBack returns why an item does not go to a queue again, nil if it does.
func (d deadLetters) goesBack(item *located, to string) (refused, err error) {
	switch {
	case !item.isDead():
		return fmt.Errorf("%w: the item is no dead letter", ErrRequeue), nil
	case item.dead.Origin != to || to == "":
		return fmt.Errorf("%w: the item is a dead letter of queue %q, not of %q", ErrRequeue, item.dead.Origin, to), nil
	case to == d.name:
		return fmt.Errorf("%w: the item is in queue %q already", ErrRequeue, to), nil
	case d.name == to+DeadLetterSuffix:
		return nil, nil
	}
	home, err := d.queue(to)
	if err != nil || home.there() && home.state.config.DeadLetter == d.name {
		return nil, err
	}
	return fmt.Errorf("%w: the dead letters of queue %q do not go to %q now: its dead_letter has to name that", ErrRequeue, to, d.name), nil
}
