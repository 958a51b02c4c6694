package fdbpq

import (
	"errors"
	"fmt"
	"sync"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// timerError is a timer's error that retries would not mend.
type timerError struct {
	key   []byte
	queue string
	err   error
}

func (e *timerError) Error() string { return fmt.Sprintf("timer of queue %q: %v", e.queue, e.err) }

func (e *timerError) Unwrap() error { return e.err }

// isDamage reports whether an error is about the store's content, and not about its
// availability.
func isDamage(err error) bool {
	return !errors.Is(err, kv.ErrUnavailable) && !errors.Is(err, kv.ErrUnknown) && !errors.Is(err, kv.ErrClosed)
}

// damagedTimers are timers that this process ignores.
type damagedTimers struct {
	mu   sync.Mutex
	keys map[string]bool
}

// maxDamagedTimers bounds their number. A store with more damage needs an operator
// first.
const maxDamagedTimers = 1000

func (d *damagedTimers) add(key []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.keys == nil {
		d.keys = make(map[string]bool)
	}
	if len(d.keys) < maxDamagedTimers {
		d.keys[string(key)] = true
	}
}

func (d *damagedTimers) has(key []byte) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.keys[string(key)]
}

func (d *damagedTimers) len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.keys)
}
