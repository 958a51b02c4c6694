package local

import (
	"context"
	"slices"
	"sync"
	"time"
)

// mutex is a mutual exclusion lock whose waiters can give up. Pebble blocks all commits while flushes fall behind,
// and a transaction must not wait longer than its context.
//
// After an unlock the first goroutine to come gets the lock. That is the cheapest order, since a waiter has to wake
// up first. But a waiter that has waited for starvedAfter is passed the lock, in the order of the waiters. So a
// waiter waits for a bounded number of others, and needs no luck.
type mutex struct {
	mu      sync.Mutex
	held    bool
	waiting []*waiter
}

// waiter waits for the lock. wake holds a token when it should look again.
type waiter struct {
	since time.Time
	wake  chan struct{}
	has   bool // it was passed the lock
}

const starvedAfter = time.Millisecond

func newMutex() *mutex { return new(mutex) }

func (m *mutex) lock(ctx context.Context) error {
	m.mu.Lock()
	if !m.held {
		m.held = true
		m.mu.Unlock()
		return nil
	}
	w := &waiter{since: time.Now(), wake: make(chan struct{}, 1)}
	m.waiting = append(m.waiting, w)
	m.mu.Unlock()
	for {
		var over error
		select {
		case <-w.wake:
		case <-ctx.Done():
			over = ctx.Err()
		}
		if m.take(w, over != nil) {
			return over
		}
	}
}

// take ends the wait of a goroutine that gets the lock, or gives up.
func (m *mutex) take(w *waiter, givesUp bool) (ended bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case givesUp && w.has:
		m.release()
	case givesUp:
		m.remove(w)
		if !m.held {
			m.wakeFirst() // its own token may have been for the lock
		}
	case w.has:
	case m.held:
		return false
	default:
		m.held = true
		m.remove(w)
	}
	return true
}

func (m *mutex) remove(w *waiter) {
	at := slices.Index(m.waiting, w)
	m.waiting = slices.Delete(m.waiting, at, at+1)
}

func (m *mutex) unlock() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.release()
}

func (m *mutex) release() {
	if len(m.waiting) > 0 && time.Since(m.waiting[0].since) >= starvedAfter {
		first := m.waiting[0]
		first.has = true
		m.wakeFirst()
		m.remove(first)
		return
	}
	m.held = false
	m.wakeFirst()
}

func (m *mutex) wakeFirst() {
	if len(m.waiting) == 0 {
		return
	}
	select {
	case m.waiting[0].wake <- struct{}{}:
	default:
	}
}

// waiters is how many wait for the lock.
func (m *mutex) waiters() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.waiting)
}
