package fdbpq

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Why an item became a dead letter, unless Terminate gave another reason.
const (
	DeadMaxDeliveries = "max_deliveries"
	DeadInterruptions = "interruptions"
	DeadExpired       = "expired"
	DeadTerminated    = "terminated"
)

// ErrNoDeadLetterQueue: the queue has no dead-letter queue, and the store's options
// forbid to make one, or its name would be too long.
var ErrNoDeadLetterQueue = errors.New("no dead-letter queue")

// DeadLetter says which queue a dead letter came from, by its own name, why and when.
type DeadLetter struct {
	Reason, Origin, OriginID string

	At         time.Time // by the wall clock of the process that buried it; zero: not known
	Deliveries int64     // that it had in its queue

	Interruptions int64 // that it had there
}

// isDead reports whether the item is a dead letter. Its deliveries are not limited,
// and Terminate drops it: dead letters do not move on to a further queue. Being dead
// is a property of items: other items of a dead-letter queue are like any.
func (e *envelope) isDead() bool { return e.dead != (DeadLetter{}) }

// cause is what an item failed of: the reason of its last attempt. A dead letter that did not die
// of an attempt has that of its death, and so has one whose last attempt gave none.
func (d DeadLetter) cause(attempts Attempts) string {
	if d.Reason != "" && d.Reason != DeadMaxDeliveries && d.Reason != DeadInterruptions {
		return d.Reason
	}
	return cmp.Or(attempts.reason(), d.Reason)
}

// shownDead is how the item died, nil if it is no dead letter.
func (e *envelope) shownDead() *DeadLetter {
	if !e.isDead() {
		return nil
	}
	return &e.dead
}

// died is how an imported item died, the zero DeadLetter if it did not.
func (item *Import) died() (d DeadLetter) {
	if item.Dead != nil {
		d = *item.Dead
	}
	return d
}

// deadLetters is what a queue does about its dead letters.
type deadLetters struct{ *queueTx }

// open opens the queue's dead-letter queue within the transaction; nil
// when there is none and none may be made. It is the configured one as long as that
// accepts the queue's dead letters, and otherwise the default one.
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
	dlq, err := d.pusher(name)
	if errors.Is(err, ErrNoQueue) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("dead-letter queue %q: %w", name, err)
	}
	return dlq, nil
}

// makes reports whether dead letters go to their default queue, and make it if need be; "" is none. A tenant's queues
// count in pairs, see [CountsWith]: what would begin another pair is made by its own requests alone.
func (d deadLetters) makes(name string) (bool, error) {
	if name == "" || tenantOf(d.name) == "" || CountsWith(name) != "" {
		return name != "", nil
	}
	dlq, err := d.queue(name)
	return err == nil && dlq.there(), err
}

// Counted reports whether the queue is none more of its tenant's: it exists, or the one does with which it counts.
func (q Queue) Counted(r kv.Reader) (bool, error) {
	s, err := q.readState(r)
	if with := CountsWith(q.name); err == nil && s == nil && with != "" {
		s, err = q.store.Queue(with).readState(r)
	}
	return s != nil, err
}

// taken reports whether the configuration of another queue of the tenant accepts dead letters of this one.
func (d deadLetters) taken(by string) (bool, error) {
	other, err := d.queue(sameTenant(d.name, by))
	return err == nil && other.there() && listed(other.state.config.DeadLettersFrom, ownName(d.name)), err
}

// errNoDeadLetters says what to do where there is no dead-letter queue.
func errNoDeadLetters(queue string) error {
	name := ownName(queue) + DeadLetterSuffix
	if defaultDeadLetters(queue) != "" {
		return fmt.Errorf("%w: make the queue %q", ErrNoDeadLetterQueue, name)
	}
	return fmt.Errorf("%w: %s would have %d bytes, allowed are %d: choose another queue with dead_letter", ErrNoDeadLetterQueue, name, len(name), MaxDeadLetterName)
}

// prepareDeadLetters refuses a dead-letter queue to which dead letters may not go.
func prepareDeadLetters(qtx *queueTx, next *queueState) error {
	c := &next.config
	if c.DeadLetter != "" && c.DeadLetter != qtx.state.config.DeadLetter {
		return deadLetters{qtx}.mayGoTo(c.DeadLetter)
	}
	if c.DeadLetterExpired && c.DeadLetter == "" {
		return deadLetters{qtx}.needed("dead_letter_expired")
	}
	return nil
}

// needed refuses a field of the configuration that needs the default dead-letter queue, if there is none.
func (d deadLetters) needed(field string) error {
	made, err := d.makes(defaultDeadLetters(d.name))
	if err == nil && !made {
		err = configError("%s: %w", field, errNoDeadLetters(d.name))
	}
	return err
}

// mayGoTo returns an error when the named queue may not be the dead-letter queue of this
// one: a right to configure one queue gives none on another.
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

// create makes the dead-letter queue of a new queue where pushes make no queues, since nothing
// else would.
func (d deadLetters) create() error {
	if !d.store.refuseUnknown || d.state.config.DeadLetter != "" || strings.HasSuffix(d.name, DeadLetterSuffix) {
		return nil
	}
	dlq, err := d.queue(d.name + DeadLetterSuffix)
	if err == nil {
		err = dlq.orCreate()
	}
	return err
}

// take moves an item to the queue's dead-letter queue, and reports whether it did. Dead letters
// stay, and so do the items of a queue that has none.
func (d deadLetters) take(l *located, reason string) (taken bool, err error) {
	if l.isDead() {
		return false, nil
	}
	dlq, err := d.open()
	if err != nil || dlq == nil {
		return false, err
	}
	return true, d.bury(dlq, l, reason)
}

// bury moves an item to a dead-letter queue, where it gets a new place and id.
func (d deadLetters) bury(dlq *pusher, l *located, reason string) error {
	id := l.id(l.place)
	if err := (contents{d.queueTx}).load(&l.envelope, l.place); err != nil {
		return err
	}
	if l.chunks > 0 {
		d.txSize += itemTxSize(d.name, &l.envelope, true)
	}
	d.change(l, nil)
	buried := located{envelope: l.elsewhere()}
	buried.dead = DeadLetter{Reason: reason, Origin: ownName(d.name), OriginID: id.String(), At: time.Unix(0, dlq.pushed), Deliveries: l.deliveries(), Interruptions: l.interruptions}
	if err := dlq.lay(&buried, dlq.assign(&buried, l.returnPriority), l.headers, l.payload); err != nil {
		return err
	}
	d.emit(Event{Type: EventDead, ID: id, Priority: l.returnPriority, Deliveries: l.deliveries(), Endings: l.ended(), Reason: reason, Cause: buried.dead.cause(l.attempts), DeadLetter: dlq.name})
	return nil
}

// lay adds a dead letter, which has its place, to a dead-letter queue.
func (dlq *pusher) lay(buried *located, seq int64, headers, payload []byte) error {
	if err := (contents{dlq.queueTx}).write(&buried.envelope, buried.place, headers, payload); err != nil {
		return err
	}
	if _, err := dlq.timesOf(&NewItem{}, &buried.envelope); err != nil {
		return err
	}
	if err := dlq.prepare(&buried.envelope); err != nil {
		return err
	}
	dlq.issue(seq)
	dlq.change(nil, buried)
	return nil
}

// Terminate moves the item to the dead-letter queue with the first kilobyte of the
// reason. Like Ack it works after the lease has run out, until the item is popped.
// ErrNoDeadLetterQueue has no effect.
func (q Queue) Terminate(tx kv.Tx, lease Lease, reason string) (Settled, error) {
	said := strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
	reason = cmp.Or(said, DeadTerminated)
	return q.settle(tx, lease, untilTakenAgain, func(qtx *queueTx, l *located) error {
		if l.state == StateLeased {
			now, err := qtx.now()
			if err != nil {
				return err
			}
			attemptLog{qtx}.record(l, &ending{outcome: OutcomeTerminated, reason: said, at: min(now, l.due)})
		}
		if l.isDead() {
			qtx.emit(Event{Type: EventDead, ID: l.id(l.place), Priority: l.returnPriority, Deliveries: l.deliveries(), Endings: l.ended(), Reason: reason, Cause: reason})
			qtx.change(l, nil)
			return nil
		}
		taken, err := deadLetters{qtx}.take(l, reason)
		if err == nil && !taken {
			err = errNoDeadLetters(qtx.name)
		}
		return err
	})
}

const maxReason = 1 << 10

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
	result := Requeued{Found: true, To: sameTenant(q.name, to)}
	if result.Err = item.comesFrom(to); result.Err != nil {
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
func (l *located) comesFrom(to string) error {
	switch {
	case !l.isDead():
		return fmt.Errorf("%w: the item is no dead letter", ErrRequeue)
	case l.dead.Origin != to || to == "":
		return fmt.Errorf("%w: the item is a dead letter of queue %q, not of %q", ErrRequeue, l.dead.Origin, to)
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
	home, err := d.queue(to)
	if err != nil {
		return nil, nil, err
	}
	home.making = d.making
	p, err = d.pusher(to)
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
	home, err := d.queue(to)
	if err != nil || home.there() && home.state.config.DeadLetter == ownName(d.name) {
		return nil, err
	}
	return fmt.Errorf("%w: the dead letters of queue %q do not go to %q now: its dead_letter has to name that", ErrRequeue, ownName(to), ownName(d.name)), nil
}

// requeue takes an item out of the queue and pushes it to another one.
func (d deadLetters) requeue(p *pusher, item *located, delay time.Duration) (Pushed, error) {
	if err := (contents{d.queueTx}).load(&item.envelope, item.place); err != nil {
		return Pushed{}, err
	}
	again := NewItem{Payload: item.payload, Headers: item.headers, Delay: delay}
	pushed, err := p.add(&again, item.elsewhere(), item.returnPriority, &handOver{from: d.queueTx, item: item})
	if err == nil && pushed.Err == nil {
		p.evict(nil) // none of them is the item itself: that was refused
	}
	return pushed, err
}
