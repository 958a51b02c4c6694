package local

import (
	"fmt"
	"sync/atomic"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// failure is why no transaction may succeed any more.
type failure struct {
	reason atomic.Pointer[error] // nil: they may
	fatal  func(error)
}

// err returns the reason, or nil.
func (f *failure) err() error {
	if reason := f.reason.Load(); reason != nil {
		return *reason
	}
	return nil
}

// set makes all transactions fail from now on.
func (f *failure) set(err error) {
	if f.reason.CompareAndSwap(nil, &err) {
		f.fatal(err)
	}
}

// exit ends the process by a panic that cannot be recovered.
func exit(err error) {
	go panic(fmt.Errorf("kv/local: answered writes may be lost, ending the process: %w", err))
	select {}
}

// unavailable is the error of a transaction that certainly did not commit, and may be tried again.
func unavailable(err error) error { return fmt.Errorf("%w: %w", kv.ErrUnavailable, err) }
