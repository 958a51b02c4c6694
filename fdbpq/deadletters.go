package fdbpq

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// ErrNoDeadLetterQueue: the queue has no dead-letter queue, and the store's options
// forbid to make one, or its name would be too long.
var ErrNoDeadLetterQueue = errors.New("no dead-letter queue")

// ErrRequeue: the item does not go back from this queue to the other.
var ErrRequeue = errors.New("requeue refused")

// Requeued is the result of a Requeue.
type Requeued struct {
	Pushed        // with Err the dead letter stays where it is
	Found  bool   // the queue has the item
	To     string // the queue that it was pushed to
}

// Bury pushes a message that the queue cannot take to its dead-letter queue, with the reason. It keeps the priority, the
// headers and the payload. The result is that of a push to the dead-letter queue. Its Err says why there is
// no dead letter: the queue takes no items (see [Queue.Full]), there are too many bytes (ErrContent), or
// there is no dead-letter queue (ErrNoDeadLetterQueue). ErrNoQueue: there is no such queue.
func (q Queue) Bury(tx kv.Tx, item NewItem, reason string) (Pushed, error) {
	qtx, err := q.begin(tx)
	if err != nil {
		return Pushed{}, err
	}
	switch content := checkContent(item.Headers, item.Payload); {
	case qtx == nil:
		return Pushed{}, ErrNoQueue
	case q.full != nil:
		return Pushed{Err: q.full}, nil
	case content != nil:
		return Pushed{Err: content}, nil
	}
	dlq, err := qtx.deadLetters.open()
	if err != nil {
		return Pushed{}, err
	}
	if dlq == nil {
		return Pushed{Err: errNoDeadLetters(q.name)}, nil
	}
	buried := layout.Item{Envelope: layout.Envelope{PushedAt: dlq.pushed}}
	priority := qtx.state.config.Priority
	if item.HasPriority {
		priority = item.Priority
	}
	seq := dlq.assign(&buried, priority)
	id := idOf(&buried)
	buried.Dead = layout.Death{Reason: cutReason(reason), Origin: ownName(q.name), OriginID: id.String(), At: time.Unix(0, dlq.pushed)}
	if err := dlq.lay(&buried, seq, item.Headers, item.Payload); err != nil {
		return Pushed{}, err
	}
	return Pushed{ID: id, Seq: seq, Priority: priority}, qtx.done()
}

// Requeue takes a dead letter out of the queue and pushes it to the queue in which it died. to names that queue,
// or is empty.
//
// An item goes back only to a queue whose dead letters go to this queue now: a right to items of
// one queue gives no right to push to another.
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
	p, refused, err := from.deadLetters.requeuer(to, q.full)
	if refused != nil || err != nil {
		result.Err = refused
		return result, err
	}
	if result.Pushed, err = from.deadLetters.requeue(p, item, 0); err != nil || result.Err != nil {
		return result, err
	}
	result.Events = from.happened()
	return result, from.done()
}

// comesFrom returns the reason why an item is no dead letter of a queue, nil for a dead letter of it.
func comesFrom(l *layout.Item, to string) error {
	switch {
	case !l.IsDead():
		return fmt.Errorf("%w: the item is no dead letter", ErrRequeue)
	case l.Dead.Origin != to || to == "":
		return fmt.Errorf("%w: the item is a dead letter of queue %q, not of %q", ErrRequeue, l.Dead.Origin, to)
	}
	return nil
}

// errNoDeadLetters says what to do where there is no dead-letter queue.
func errNoDeadLetters(queue string) error {
	name := ownName(queue) + DeadLetterSuffix
	if defaultDeadLetters(queue) != "" {
		return fmt.Errorf("%w: make the queue %q", ErrNoDeadLetterQueue, name)
	}
	return fmt.Errorf("%w: %s would have %d bytes, allowed are %d: choose another queue with dead_letter", ErrNoDeadLetterQueue, name, len(name), MaxDeadLetterName)
}

// deadLetters moves items to the dead-letter queue of their queue, and back.
type deadLetters struct{ *queueTx }

// open opens the queue's dead-letter queue within the transaction: the configured queue as long as it accepts the
// queue's dead letters, and otherwise the default queue. It returns nil where that queue is missing, and may not be made.
func (d deadLetters) open() (*pusher, error) {
	name := defaultDeadLetters(d.name)
	if chosen := d.state.config.DeadLetter; chosen != "" {
		takes, err := d.taken(chosen)
		if err != nil {
			return nil, err
		}
		if takes {
			name = sameTenant(d.name, chosen)
		}
	}
	if made, err := d.makes(name); err != nil || !made {
		return nil, err
	}
	dlq, err := newPusher(d.work, name)
	if errors.Is(err, ErrNoQueue) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("dead-letter queue %q: %w", name, err)
	}
	return dlq, nil
}

// makes reports whether dead letters go to their default queue, and make it if need be. Without a name there is no such
// queue. A tenant's queues count in pairs, see [CountsWith]: only its own requests make a queue that begins another pair.
func (d deadLetters) makes(name string) (bool, error) {
	if name == "" || tenantOf(d.name) == "" || CountsWith(name) != "" {
		return name != "", nil
	}
	dlq, err := d.work.queue(name)
	return err == nil && dlq.there(), err
}

// taken reports whether the configuration of another queue of the tenant accepts dead letters of this one.
func (d deadLetters) taken(by string) (bool, error) {
	other, err := d.work.queue(sameTenant(d.name, by))
	return err == nil && other.there() && listed(other.state.config.DeadLettersFrom, ownName(d.name)), err
}

// needed refuses a field of the configuration that needs the default dead-letter queue, if dead letters cannot go there.
func (d deadLetters) needed(field string) error {
	made, err := d.makes(defaultDeadLetters(d.name))
	if err == nil && !made {
		err = configError("%s: %w", field, errNoDeadLetters(d.name))
	}
	return err
}

// mayGoTo returns an error when the named queue may not be the dead-letter queue of this
// queue: a right to configure one queue gives no right on another.
func (d deadLetters) mayGoTo(name string) error {
	if name == ownName(d.name) {
		return configError("dead_letter is %q: a queue cannot be its own dead-letter queue", name)
	}
	if name == ownName(d.name)+DeadLetterSuffix {
		return d.needed("dead_letter")
	}
	takes, err := d.taken(name)
	if err == nil && !takes {
		err = configError("dead_letter is %q: that queue does not accept dead letters of %q, its dead_letters_from has to name it first", name, ownName(d.name))
	}
	return err
}

// create makes the dead-letter queue of a new queue where pushes make no queues: no dead letter
// could make it.
func (d deadLetters) create() error {
	if !d.store.refuseUnknown || d.state.config.DeadLetter != "" || strings.HasSuffix(d.name, DeadLetterSuffix) {
		return nil
	}
	dlq, err := d.work.queue(d.name + DeadLetterSuffix)
	if err == nil {
		err = dlq.orCreate()
	}
	return err
}

// take moves an item to the queue's dead-letter queue, or has it wait there for room, and reports whether it did. Dead letters
// stay, and so do the items of a queue without a dead-letter queue.
func (d deadLetters) take(l *layout.Item, reason string) (taken bool, err error) {
	if l.IsDead() {
		return false, nil
	}
	dlq, err := d.open()
	if err != nil || dlq == nil {
		return false, err
	}
	death := layout.Death{Reason: reason, At: time.Unix(0, dlq.pushed), Deliveries: l.Deliveries(), Interruptions: l.Interruptions}
	if !d.store.room.take(l.Size) {
		return true, d.wait(l, death)
	}
	return true, d.bury(dlq, l, death)
}

// wait keeps a dead item in its queue until there is room for its dead letter. Its key and its unique value are free from now on.
func (d deadLetters) wait(l *layout.Item, death layout.Death) error {
	now, err := d.now()
	if err != nil {
		return err
	}
	dying := *l
	dying.State, dying.Due, dying.Since, dying.Over = layout.StateLeased, int64(layout.NoEnd), now, true
	dying.Tries, dying.ExtraAnswers, dying.TokensBack, dying.Charged, dying.Holder = endingsOf(l).Failures, 0, 0, 0, ""
	dying.Unique, dying.UntilLeased, dying.Dead = "", false, death
	d.change(l, &dying)
	return nil
}

// due buries a dead item that has waited for room.
func (d deadLetters) due(l *layout.Item) error {
	dlq, err := d.open()
	if err != nil {
		return err
	}
	if dlq == nil { // it was deleted meanwhile, and may not be made: the item stays, or expires, as it would have without one
		living := *l
		living.Dead, living.Since = layout.Death{}, layout.GivenBack
		d.change(l, living.At(l.ReturnPriority).From(0))
		return nil
	}
	d.store.room.take(l.Size) // the sweep has asked whether there is room
	return d.bury(dlq, l, l.Dead)
}

// bury moves an item to a dead-letter queue, where it gets a new place and id.
func (d deadLetters) bury(dlq *pusher, l *layout.Item, death layout.Death) error {
	id := idOf(l)
	if err := d.contents.load(l); err != nil {
		return err
	}
	if l.Chunks > 0 {
		d.txSize += itemTxSize(d.name, &l.Envelope, true)
	}
	buried := layout.Item{Envelope: l.Elsewhere()}
	seq := dlq.assign(&buried, l.ReturnPriority)
	if err := d.end(l, finish{how: FinishDead, reason: death.Reason, next: ownName(dlq.name), nextID: idOf(&buried)}); err != nil {
		return err
	}
	death.Origin, death.OriginID = ownName(d.name), id.String()
	buried.Dead = death
	if err := dlq.lay(&buried, seq, l.Headers, l.Payload); err != nil {
		return err
	}
	d.emit(Event{
		Type: EventDead, ID: id, Priority: l.ReturnPriority, Deliveries: death.Deliveries, Endings: endingsOf(l),
		Reason: death.Reason, Cause: DeadLetter(buried.Dead).cause(Attempts(l.Attempts)), DeadLetter: dlq.name,
	})
	return nil
}

// requeuer is what pushes dead letters of the queue to the queue in which they died; refused is the reason why that
// queue does not take them.
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
	p, err = newPusher(d.work, to)
	if errors.Is(err, ErrNoQueue) {
		return nil, err, nil
	}
	if err != nil {
		return nil, nil, err
	}
	p.full = full
	return p, nil, p.readCounts(nil)
}

// goBack returns the reason why a queue does not get dead letters back from this queue, nil if it gets them.
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
	return fmt.Errorf("%w: the dead letters of queue %q do not go to %q now: expected its dead_letter to name that queue", ErrRequeue, ownName(to), ownName(d.name)), nil
}

// requeue takes an item out of the queue and pushes it to another one.
func (d deadLetters) requeue(p *pusher, item *layout.Item, delay time.Duration) (Pushed, error) {
	if err := d.contents.load(item); err != nil {
		return Pushed{}, err
	}
	again := NewItem{Payload: item.Payload, Headers: item.Headers, Delay: delay}
	pushed, err := p.add(&again, item.Elsewhere(), item.ReturnPriority, &handOver{from: d.queueTx, item: item})
	if err == nil && pushed.Err == nil {
		err = p.eviction.run(p, nil) // other items alone: an item that would evict itself was refused
	}
	return pushed, err
}
