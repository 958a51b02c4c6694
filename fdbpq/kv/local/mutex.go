package local

import (
	"context"
	"sync/atomic"
)

// mutex is a mutual exclusion lock whose waiters can give up. The store stalls
// all commits while it cannot keep up with writing to the disk; a transaction
// must not wait for that any longer than its caller does.
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
	// Whoever unlocks looks for waiters after it let go, and a waiter tries
	// again after it said that it waits: one of them sees the other.
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
