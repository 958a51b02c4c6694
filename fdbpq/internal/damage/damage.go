// Package damage lets a process work past rows that it cannot read.
//
// It guarantees:
//   - An error is damage only if it is about the content of the store. One about its availability is not, so that
//     an outage never makes a process leave out a row.
//   - A process that notes the row of a damage leaves it out from then on. It forgets the row when it ends, so that
//     a repaired store needs no other repair.
//   - What a process notes is bounded, however much damage there is.
package damage

import (
	"errors"
	"fmt"
	"sync"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Error is an error about the row of a timer, or of the index of schedules, that retries would not mend.
type Error struct {
	Key   []byte // of the row
	Queue string // "": it cannot be read
	Err   error
}

func (e *Error) Error() string { return fmt.Sprintf("timer of queue %q: %v", e.Queue, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// Of returns an error about the work that a row asks for as an Error, unless the store is unavailable.
func Of(key []byte, queue string, err error) error {
	if err == nil || errors.Is(err, kv.ErrUnavailable) || errors.Is(err, kv.ErrUnknown) || errors.Is(err, kv.ErrClosed) {
		return err
	}
	return &Error{Key: key, Queue: queue, Err: err}
}

// MaxRows bounds the rows that a process leaves out. A store with more damage needs an operator first.
const MaxRows = 1000

// Rows are the rows that this process leaves out. Its methods may be called from any number of goroutines.
type Rows struct {
	mu   sync.Mutex
	keys map[string]bool
}

// Note leaves out the damaged row that err names from now on. Other errors name no row, and change nothing.
func (r *Rows) Note(err error) {
	damage := (*Error)(nil)
	if !errors.As(err, &damage) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keys == nil {
		r.keys = make(map[string]bool)
	}
	if len(r.keys) < MaxRows {
		r.keys[string(damage.Key)] = true
	}
}

// Noted reports whether an error is a damage whose row is left out, so that others can go on.
func (r *Rows) Noted(err error) bool {
	damage := (*Error)(nil)
	return errors.As(err, &damage) && r.Has(damage.Key)
}

// Has reports whether a row is left out.
func (r *Rows) Has(key []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keys[string(key)]
}

// Len is the number of rows that are left out.
func (r *Rows) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.keys)
}
