// Package recipe pops in the ways of FoundationDB's priority-queue recipe. It is for programs that
// use queues as a library, and stands on what fdbpq offers everybody. pqd does not use it: its
// bridges coordinate over NATS.
package recipe

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Pops are the pops of one process from the queues of a store.
type Pops struct {
	store *fdbpq.Store
	lines lines
}

// New returns the pops from the queues of a store. Those that wait for each other share it.
func New(store *fdbpq.Store) *Pops { return &Pops{store: store} }

// Plain is Pop as the recipe documents it: it reads the head serializably, so it
// conflicts with every other pop and every push at its end of the queue. It is a
// reference for measurements.
func Plain(q fdbpq.Queue, tx kv.Tx, sel fdbpq.Selection) (fdbpq.Popped, error) {
	return q.Pop(serializable{tx}, sel)
}

// serializable is a transaction whose commit depends on all that it reads.
type serializable struct{ kv.Tx }

func (tx serializable) Snapshot() kv.Reader { return tx.Tx }

// Wait pops like Pop, or like Lease when lease is not 0, and waits for items until
// ctx ends. Calls for the same queue and band are served in their order; only the first
// one reads the queue, and only after an arrival or when a rate allows a delivery again.
func (p *Pops) Wait(ctx context.Context, queue string, sel fdbpq.Selection, lease time.Duration) (fdbpq.Popped, error) {
	if sel.Repeated {
		return fdbpq.Popped{}, errors.New("a pop that waits cannot be final")
	}
	turn, leave := p.lines.join(lineOf(queue, sel.Band))
	defer leave()
	select {
	case <-turn:
	case <-ctx.Done():
		return fdbpq.Popped{}, ctx.Err()
	}
	session := p.store.Session()
	defer session.Release()
	q := p.store.Queue(queue)
	for {
		var popped fdbpq.Popped
		var arrivals *kv.Watch
		err := session.Update(ctx, func(tx kv.Tx) (err error) {
			if lease == 0 {
				popped, err = q.Pop(tx, sel)
			} else {
				popped, err = q.Lease(tx, sel, lease)
			}
			if err == nil && len(popped.Items) == 0 && !popped.More && !popped.Final {
				arrivals = q.Arrivals(tx)
			}
			return err
		})
		if err != nil || len(popped.Items) > 0 || popped.Final {
			return popped, err
		}
		if popped.More {
			continue
		}
		if err := wait(ctx, popped.Retry, arrivals); err != nil {
			return popped, err
		}
	}
}

// wait returns when another pop may find something.
func wait(ctx context.Context, retry time.Duration, arrivals *kv.Watch) error {
	var again <-chan time.Time
	if retry > 0 {
		timer := time.NewTimer(retry)
		defer timer.Stop()
		again = timer.C
	}
	select {
	case <-arrivals.Done():
		return nil
	case <-again:
		arrivals.Cancel()
		return nil
	case <-ctx.Done():
		arrivals.Cancel()
		return ctx.Err()
	}
}

// lines are the waiting calls of a process, first come, first served.
type lines struct {
	mu    sync.Mutex
	lines map[lineKey][]chan struct{} // the first one may read the queue
}

// lineKey identifies a line. Calls for different bands do not wait for each other.
type lineKey struct {
	queue string
	band  fdbpq.Band
}

func lineOf(queue string, band *fdbpq.Band) lineKey {
	if band == nil {
		band = &fdbpq.AllPriorities
	}
	return lineKey{queue: queue, band: *band}
}

// Waiting is how many calls of Wait stand in the line of a queue and a band, nil for all
// priorities.
func (p *Pops) Waiting(queue string, band *fdbpq.Band) int {
	p.lines.mu.Lock()
	defer p.lines.mu.Unlock()
	return len(p.lines.lines[lineOf(queue, band)])
}

// join enters a line. turn is closed when the caller is the first; leave leaves the
// line.
func (l *lines) join(key lineKey) (turn <-chan struct{}, leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines == nil {
		l.lines = make(map[lineKey][]chan struct{})
	}
	own := make(chan struct{})
	l.lines[key] = append(l.lines[key], own)
	if len(l.lines[key]) == 1 {
		close(own)
	}
	return own, func() { l.leave(key, own) }
}

func (l *lines) leave(key lineKey, own chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.lines[key]
	for i, turn := range line {
		if turn != own {
			continue
		}
		line = append(line[:i], line[i+1:]...)
		switch {
		case len(line) == 0:
			delete(l.lines, key)
		case i == 0:
			close(line[0])
			l.lines[key] = line
		default:
			l.lines[key] = line
		}
		return
	}
}
