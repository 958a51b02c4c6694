package fdbpq

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// PopWait pops like Pop, or like Lease when lease is not 0, and waits for items until
// ctx ends. Calls of this process for the same queue and band are served in their
// order; only the first one reads the queue, and only after an arrival or when a rate
// allows a delivery again. It is for users of the library; pqd does not call it.
func (s *Store) PopWait(ctx context.Context, queue string, sel Selection, lease time.Duration) (Popped, error) {
	if err := sel.check(); err != nil {
		return Popped{}, err
	}
	if sel.Repeated {
		return Popped{}, errors.New("a pop that waits cannot be final")
	}
	turn, leave := s.lines.join(lineKey{queue: queue, band: *sel.Band})
	defer leave()
	select {
	case <-turn:
	case <-ctx.Done():
		return Popped{}, ctx.Err()
	}
	session := s.Session()
	defer session.Release()
	q := s.Queue(queue)
	for {
		var popped Popped
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
		if err := popped.wait(ctx, arrivals); err != nil {
			return popped, err
		}
	}
}

// wait returns when another pop may find something.
func (p *Popped) wait(ctx context.Context, arrivals *kv.Watch) error {
	var again <-chan time.Time
	if p.Retry > 0 {
		timer := time.NewTimer(p.Retry)
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
	band  Band
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
