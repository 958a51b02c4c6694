package fdbpq

import (
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Why an item was given up, unless its holder said something else.
const (
	DeadMaxDeliveries = "max_deliveries"
	DeadExpired       = "expired"
	DeadTerminated    = "terminated"
)

// bury moves an item that stands in no space any more to the queue's
// dead-letter queue, where it gets a place and an id of its own. The dead items
// of a dead-letter queue are dropped: there is no second grave.
func (c *change) bury(p place, e *envelope, reason string) error {
	event := Event{Type: EventDead, ID: e.id(p), Priority: p.priority, Deliveries: e.deliveries, Reason: reason}
	if c.state.dead {
		c.note(event)
		c.drop(p, e)
		return nil
	}
	event.DeadLetter = c.state.config.DeadLetterQueue(c.name)
	if err := c.loadContent(e, p); err != nil {
		return err
	}
	headers, payload := e.headers, e.payload
	if e.chunks > 0 {
		c.spent += c.weight(e, true)
	}
	c.drop(p, e)
	grave, err := c.store.Queue(event.DeadLetter).grave(c)
	if err != nil {
		return fmt.Errorf("dead-letter queue %q: %w", event.DeadLetter, err)
	}
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
	grave.count++
	grave.tally.bytes += buried.size
	grave.addReady(at, &buried)
	grave.finish()
	c.note(event)
	return nil
}

// grave opens the dead-letter queue within c's transaction.
func (q Queue) grave(c *change) (*pusher, error) {
	s, err := q.create(c.tx)
	if err != nil {
		return nil, err
	}
	if s, err = q.markDead(c.tx, s); err != nil {
		return nil, err
	}
	grave := q.change(c.tx, s)
	grave.clock = c.clock
	return grave.newPusher()
}

// markDead makes a dead-letter queue of a queue, unless it is one.
func (q Queue) markDead(tx kv.Tx, s *state) (*state, error) {
	if s.dead {
		return s, nil
	}
	marked := *s
	marked.dead = true
	return &marked, q.write(tx, &marked)
}
