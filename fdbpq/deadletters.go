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

// deadLetters moves items to the dead-letter queue of their queue, and back.
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
	dlq, err := d.work.pusher(name)
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
	dlq, err := d.work.queue(name)
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
	other, err := d.work.queue(sameTenant(d.name, by))
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
	dlq, err := d.work.queue(d.name + DeadLetterSuffix)
	if err == nil {
		err = dlq.orCreate()
	}
	return err
}

// take moves an item to the queue's dead-letter queue, and reports whether it did. Dead letters
// stay, and so do the items of a queue that has none.
func (d deadLetters) take(l *layout.Item, reason string) (taken bool, err error) {
	if l.IsDead() {
		return false, nil
	}
	dlq, err := d.open()
	if err != nil || dlq == nil {
		return false, err
	}
	return true, d.bury(dlq, l, reason)
}

// bury moves an item to a dead-letter queue, where it gets a new place and id.
func (d deadLetters) bury(dlq *pusher, l *layout.Item, reason string) error {
	id := idOf(l)
	if err := (contents{&d.queueRows}).load(&l.Envelope, l.Place); err != nil {
		return err
	}
	if l.Chunks > 0 {
		d.txSize += itemTxSize(d.name, &l.Envelope, true)
	}
	d.change(l, nil)
	buried := layout.Item{Envelope: l.Elsewhere()}
	buried.Dead = layout.Death{
		Reason: reason, Origin: ownName(d.name), OriginID: id.String(), At: time.Unix(0, dlq.pushed),
		Deliveries: l.Deliveries(), Interruptions: l.Interruptions,
	}
	if err := dlq.lay(&buried, dlq.assign(&buried, l.ReturnPriority), l.Headers, l.Payload); err != nil {
		return err
	}
	d.emit(Event{
		Type: EventDead, ID: id, Priority: l.ReturnPriority, Deliveries: l.Deliveries(), Endings: endingsOf(l),
		Reason: reason, Cause: DeadLetter(buried.Dead).cause(Attempts(l.Attempts)), DeadLetter: dlq.name,
	})
	return nil
}

// lay adds a dead letter, which has its place, to a dead-letter queue.
func (dlq *pusher) lay(buried *layout.Item, seq int64, headers, payload []byte) error {
	if err := (contents{&dlq.queueRows}).write(&buried.Envelope, buried.Place, headers, payload); err != nil {
		return err
	}
	if _, err := dlq.timesOf(&NewItem{}, &buried.Envelope); err != nil {
		return err
	}
	if err := dlq.prepare(&buried.Envelope); err != nil {
		return err
	}
	dlq.issue(seq)
	dlq.change(nil, buried)
	return nil
}
