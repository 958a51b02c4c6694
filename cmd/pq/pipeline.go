package main

import (
	"errors"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/protocol"
)

// pipeline pushes many items without waiting for each answer, and stops at the
// first that fails.
type pipeline struct {
	session  *session.Session
	queue    *client.Queue
	pending  []sent           // unanswered, in the order in which they were sent
	bytes    int              // of their payloads
	room     int              // pipelineBytes, but in tests of it
	done     int64            // acknowledged, all of the first ones
	came     bool             // some item may be in the queue, also one behind a failure
	last     map[int64]uint64 // by priority, the last place in push order
	disorder int64            // items that stand before their predecessor
	doubles  int64            // items that were pushed before
	placed   bool             // items have places, whatever their order
	each     func(client.Pushed) error
	misfit   func(placement, error) error // takes items that do not fit into the queue; nil: they are failures
	progress func(done int64)
	err      error
}

// sent is an item on its way.
type sent struct {
	*client.Future
	item placement
	size int
}

// placement is an item that gets a place, with its name for people.
type placement struct {
	*client.Import
	name string
}

// pipelineDepth is how many items may be unanswered. It stays well below what
// a bridge takes of all its clients, so that none is refused and sent again out
// of order.
const pipelineDepth = 2048

// pipelineBytes is how many bytes of payloads may be unanswered: an item may have a megabyte.
const pipelineBytes = 64 << 20

func newPipeline(s *session.Session, q *client.Queue) *pipeline {
	return &pipeline{
		session: s, queue: q, room: pipelineBytes, last: make(map[int64]uint64),
		each: func(client.Pushed) error { return nil }, progress: func(int64) {},
	}
}

// push sends an item. It returns the error of this or of an earlier item, and sends no more
// items after an error.
func (p *pipeline) push(payload []byte, options ...client.PushOption) error {
	return p.send(placement{}, len(payload), func() (*client.Future, error) { return p.queue.PushAsync(p.session.Context, payload, options...) })
}

// place is push for an item that has a place.
func (p *pipeline) place(i *client.Import, name string) error {
	p.placed = true
	return p.send(placement{i, name}, len(i.Payload), func() (*client.Future, error) { return p.queue.ImportAsync(p.session.Context, i) })
}

func (p *pipeline) send(i placement, size int, item func() (*client.Future, error)) error {
	if p.err != nil {
		return p.err
	}
	for len(p.pending) >= pipelineDepth || p.bytes+size > p.room && len(p.pending) > 0 {
		if p.await((len(p.pending) + 1) / 2); p.err != nil {
			return p.err
		}
	}
	f, err := item()
	if err != nil {
		p.fail(i, err)
		return p.err
	}
	p.pending = append(p.pending, sent{f, i, size})
	p.bytes += size
	return nil
}

// finish waits for the answers that are missing. The error is the first one.
func (p *pipeline) finish() error {
	p.await(len(p.pending))
	return p.err
}

// laterError is finish, without an error that push or place has returned already.
func (p *pipeline) laterError() error {
	if p.err != nil {
		_ = p.finish() // it is the same
		return nil
	}
	return p.finish()
}

// await waits for the answers to the first n pending items.
func (p *pipeline) await(n int) {
	for _, f := range p.pending[:n] {
		p.bytes -= f.size
		pushed, err := f.Result()
		if err != nil {
			p.came = p.came || !errors.As(err, new(*client.Error)) || errors.Is(err, client.ErrUnknownResult)
			p.fail(f.item, err)
			continue
		}
		p.came = true
		if p.err != nil {
			continue // what comes after a failure is not counted
		}
		p.done++
		p.note(pushed)
		p.err = p.each(pushed)
	}
	p.pending = append(p.pending[:0], p.pending[n:]...)
	p.progress(p.done)
}

// fail notes the first failure. An item that does not fit is none where these are taken.
func (p *pipeline) fail(i placement, err error) {
	switch {
	case p.err != nil:
	case p.misfit != nil && doesNotFit(err):
		p.err = p.misfit(i, err)
	default:
		p.err = err
	}
}

// doesNotFit reports whether it is for the item alone that it was refused.
func doesNotFit(err error) bool {
	var refused *client.Error
	return errors.As(err, &refused) && (refused.Code == protocol.CodeBadRequest || refused.Code == protocol.CodeTooLarge)
}

// note compares an item's place with that of its predecessor.
func (p *pipeline) note(pushed client.Pushed) {
	if pushed.Duplicate {
		p.doubles++
		return
	}
	if p.placed {
		return
	}
	if pushed.Seq < p.last[pushed.Priority] {
		p.disorder++
		return
	}
	p.last[pushed.Priority] = pushed.Seq
}
