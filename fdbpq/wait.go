package fdbpq

import (
	"context"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// PopWait pops like Pop, or like Lease when lease is not 0, and waits for
// something to take until ctx ends. Those of this process that wait for the
// same are served in the order they came; only the first of them looks at the
// queue, and only when something has arrived.
func (s *Store) PopWait(ctx context.Context, queue string, sel Selection, lease time.Duration) (Popped, error) {
	if err := sel.check(); err != nil {
		return Popped{}, err
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
		var taken Popped
		var arrivals *kv.Watch
		err := session.Update(ctx, func(tx kv.Tx) (err error) {
			if lease == 0 {
				taken, err = q.Pop(tx, sel)
			} else {
				taken, err = q.Lease(tx, sel, lease)
			}
			if err == nil && len(taken.Items) == 0 && !taken.More {
				arrivals = q.Arrivals(tx)
			}
			return err
		})
		if err != nil || len(taken.Items) > 0 {
			return taken, err
		}
		if taken.More {
			continue
		}
		select {
		case <-arrivals.Done():
		case <-ctx.Done():
			arrivals.Cancel()
			return taken, ctx.Err()
		}
	}
}

// lines are the waiting lines of a process.
type lines struct {
	mu    sync.Mutex
	lines map[lineKey][]chan struct{} // the first may look at the queue
}

// lineKey tells lines apart: who waits for different bands does not wait for
// each other.
type lineKey struct {
	queue string
	band  Band
}

// join enters a line. turn is closed when it is the caller's turn; leave lets
// the next one forward.
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
