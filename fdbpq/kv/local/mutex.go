package local

import (
	"context"
	"sync/atomic"
)

// mutex is a mutual exclusion lock whose waiters can give up. Pebble blocks all commits
// while flushes fall behind, and a transaction must not wait longer than its context.
type mutex struct {
	held    atomic.Bool
	waiting atomic.Int32
	wake    chan struct{} // holds at most one token: a waiter should try again
}

func newMutex() *mutex { return &mutex{wake: make(chan struct{}, 1)} }

func (m *mutex) lock(ctx context.Context) error {
	if m.held.CompareAndSwap(false, true) {
		return nil
	}
	// unlock looks for waiters after it has released the lock, and a waiter tries again
	// after it has registered: one of them sees the other.
	m.waiting.Add(1)
	defer m.waiting.Add(-1)
	for !m.held.CompareAndSwap(false, true) {
		select {
		case <-m.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (m *mutex) unlock() {
	m.held.Store(false)
	if m.waiting.Load() > 0 {
		select {
		case m.wake <- struct{}{}:
		default:
		}
	}
}
