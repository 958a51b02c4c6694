package local

import (
	"context"
	"slices"
	"sync"
)

// mutex is a mutual exclusion lock that is passed on in the order of its waiters, who can
// give up. Pebble blocks all commits while flushes fall behind, and a transaction must not
// wait longer than its context. A commit that has to run alone waits for those before it,
// and not for luck.
type mutex struct {
	mu      sync.Mutex
	held    bool
	waiting []chan struct{} // each is closed when its waiter holds the lock
}

func newMutex() *mutex { return new(mutex) }

func (m *mutex) lock(ctx context.Context) error {
	m.mu.Lock()
	if !m.held {
		m.held = true
		m.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	m.waiting = append(m.waiting, turn)
	m.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	m.mu.Lock()
	at := slices.Index(m.waiting, turn)
	if at >= 0 {
		m.waiting = slices.Delete(m.waiting, at, at+1)
	}
	m.mu.Unlock()
	if at < 0 {
		m.unlock() // it was passed on at the same time
	}
	return ctx.Err()
}

func (m *mutex) unlock() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.waiting) == 0 {
		m.held = false
		return
	}
	close(m.waiting[0])
	m.waiting = slices.Delete(m.waiting, 0, 1)
}

// waiters is how many wait for the lock.
func (m *mutex) waiters() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.waiting)
}
