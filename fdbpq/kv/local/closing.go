package local

import (
	"sync"
)

// lifetime counts active transactions, and admits none once the store is closed.
type lifetime struct {
	mu     sync.Mutex
	active int
	closed bool
	idle   chan struct{} // closed when the store is closed and no transaction is active
}

func (l *lifetime) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.active++
	return true
}

func (l *lifetime) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.active--
	if l.closed && l.active == 0 {
		close(l.idle)
	}
}

// close returns when no transaction is active. It returns false the second time.
func (l *lifetime) close() bool {
	l.mu.Lock()
	again := l.closed
	l.closed = true
	if !again && l.active == 0 {
		close(l.idle)
	}
	l.mu.Unlock()
	if again {
		return false
	}
	<-l.idle
	return true
}
