package fdbpq

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Why an item was given up, unless its holder said something else.
const (
	DeadMaxDeliveries = "max_deliveries"
	DeadExpired       = "expired"
	DeadTerminated    = "terminated"
)

// ErrNoDeadLetterQueue: an item was to be given up, its queue has no dead-letter
// queue, and the store refuses to make one.
var ErrNoDeadLetterQueue = errors.New("no dead-letter queue")

// Dead is a property of items, not of queues: a queue that takes dead letters
// goes on to be one like any other for what is pushed to it.

// isDead tells whether an item was given up before. Then it does not die of its
// deliveries, and is dropped when it is given up again: there is no second grave.
func (e *envelope) isDead() bool { return e.dead != (DeadLetter{}) }

// grave returns the queue that the dead items of c's queue go to, opened within
// its transaction; nil when there is none and none may be made. That is the queue
// which the configuration names as long as that one takes them, and otherwise
// the queue's own.
func (c *change) grave() (*pusher, error) {
	name := c.name + DeadLetterSuffix
	if chosen := c.state.config.DeadLetter; chosen != "" {
		takes, err := c.store.Queue(chosen).takes(c.tx, c.name)
		if err != nil {
			return nil, err
		}
		if takes {
			name = chosen
		}
	}
	grave, err := c.store.Queue(name).admit(c.tx)
	if errors.Is(err, ErrNoQueue) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("dead-letter queue %q: %w", name, err)
	}
	grave.clock = c.clock
	return grave, nil
}

// takes tells whether the queue has agreed to take the dead items of another one.
func (q Queue) takes(r kv.Reader, of string) (bool, error) {
	s, err := q.read(r)
	return s != nil && s.config.takesDeadLetters(of), err
}

// checkDeadLetter says why a queue may not be the dead-letter queue of this one:
// a right to configure one queue gives none on another.
func (q Queue) checkDeadLetter(r kv.Reader, name string) error {
	if name == q.name {
		return configError("dead_letter is %q: a queue cannot be its own dead-letter queue", name)
	}
	if name == q.name+DeadLetterSuffix {
		return nil
	}
	takes, err := q.store.Queue(name).takes(r, q.name)
	if err == nil && !takes {
		err = configError("dead_letter is %q: that queue does not take dead letters of %q, its dead_letters_from has to name it first", name, q.name)
	}
	return err
}

// foundWithGrave makes the queue exist. Where pushes make no queues, its
// dead-letter queue is made along with it, since nothing else would.
func (q Queue) foundWithGrave(tx kv.Tx, s *state) error {
	if err := q.found(tx, s); err != nil {
		return err
	}
	if !q.store.refuseUnknown || s.config.DeadLetter != "" || strings.HasSuffix(q.name, DeadLetterSuffix) {
		return nil
	}
	_, err := q.store.Queue(q.name + DeadLetterSuffix).create(tx)
	return err
}

// bury moves an item that stands in no space any more to a dead-letter queue,
// where it gets a place and an id of its own.
func (c *change) bury(grave *pusher, p place, e *envelope, reason string) error {
	event := Event{
		Type: EventDead, ID: e.id(p), Priority: p.priority, Deliveries: e.deliveries, Reason: reason, DeadLetter: grave.name,
	}
	if err := c.loadContent(e, p); err != nil {
		return err
	}
	headers, payload := e.headers, e.payload
	if e.chunks > 0 {
		c.spent += c.weight(e, true)
	}
	c.drop(p, e)
	at := place{priority: p.priority, tail: newTail(grave.count + 1)}
	buried := envelope{
		pushed: e.pushed,
		home:   p.priority,
		dead:   DeadLetter{Reason: reason, Origin: c.name, OriginID: e.id(p).String()},
	}
	if err := grave.storeContent(&buried, at, headers, payload); err != nil {
		return err
	}
	if _, err := grave.schedule(&NewItem{}, &buried); err != nil {
		return err
	}
	if err := grave.accept(); err != nil {
		return err
	}
	grave.count++
	grave.tally.bytes += buried.size
	grave.addReady(at, &buried)
	grave.finish()
	c.note(event)
	return nil
}

// discardDead drops an item that was dead before and is given up again.
func (c *change) discardDead(p place, e *envelope, reason string) {
	c.note(Event{Type: EventDead, ID: e.id(p), Priority: p.priority, Deliveries: e.deliveries, Reason: reason})
	c.drop(p, e)
}
