//go:build fdb

package fdb

import (
	"context"
	"fmt"
	"sync"
	"time"

	apple "github.com/apple/foundationdb/bindings/go/src/fdb"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// commitGrace is how long a commit that is under way may take after its context ended.
// Commits take milliseconds, so nearly all results arrive within this time; the others
// become ErrUnknown.
const commitGrace = time.Second

// errAbandoned is the error of reads after the end of the transaction's context.
var errAbandoned = apple.Error{Code: codeTransactionCancelled}

// Update runs fn in a transaction and commits it.
func (db *DB) Update(ctx context.Context, fn func(kv.Tx) error) error {
	return db.run(ctx, func(t *tx) error {
		if err := fn(t); err != nil || t.failure != nil {
			return err
		}
		return t.commit()
	})
}

// View runs fn in a transaction that only reads. All of its reads are of one version, so
// it needs no commit and records no read conflicts.
func (db *DB) View(ctx context.Context, fn func(kv.Reader) error) error {
	return db.run(ctx, func(t *tx) error { return fn(&t.snapshot) })
}

// run repeats a transaction until it succeeds or fails for good.
func (db *DB) run(ctx context.Context, attempt func(*tx) error) error {
	if err := db.enter(); err != nil {
		return err
	}
	defer db.active.Done()
	r, err := db.begin(ctx)
	if err != nil {
		return err
	}
	defer r.end()
	for {
		t := newTx(r)
		err := attempt(t)
		t.ended = true
		if err != nil || t.failure != nil {
			t.endWatches()
		}
		if t.failure == nil {
			return err
		}
		if err := r.rerun(t.failure); err != nil {
			return err
		}
	}
}

// run is a transaction of the client library, which all runs of a closure use.
//
// The library has no contexts. A reset ends the transaction's waits, and a cancel prevents
// new ones. A cancel alone has no effect while the library searches for its version that
// speaks the cluster's protocol. So kill does both, and every call that may wait begins
// under the lock.
type run struct {
	db      *DB
	ctx     context.Context
	tr      apple.Transaction
	forget  func() bool // stops waiting for the end of ctx
	closing *time.Timer // ends a commit after the end of ctx

	mu         sync.Mutex
	dead       bool
	committing bool
}

func (db *DB) begin(ctx context.Context) (*run, error) {
	if ctx.Err() != nil {
		return nil, unavailable(ctx.Err())
	}
	tr, err := db.connection.database.CreateTransaction()
	if err != nil {
		return nil, unavailable(err)
	}
	r := &run{db: db, ctx: ctx, tr: tr}
	r.forget = context.AfterFunc(ctx, r.contextEnded)
	return r, nil
}

func (r *run) contextEnded() {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.dead:
	case r.committing:
		r.closing = time.AfterFunc(commitGrace, r.abandon)
	default:
		r.kill()
	}
}

func (r *run) abandon() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.dead {
		r.kill()
	}
}

// kill ends all that the transaction waits for. r.mu is held.
func (r *run) kill() {
	r.dead = true
	r.tr.Reset()
	r.tr.Cancel()
}

// end ends the run. The reset frees the library's memory for the transaction, which the
// garbage collector does not know. Watches of a committed transaction stay.
func (r *run) end() {
	r.forget()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing != nil {
		r.closing.Stop()
	}
	r.dead = true
	r.tr.Reset()
}

// failure is how a store's call failed.
type failure struct {
	err error // of the bindings
	at  stage
}

// commit sends the commit and waits for its result.
func (r *run) commit() *failure {
	r.mu.Lock()
	if r.dead {
		r.mu.Unlock()
		return &failure{errAbandoned, reading}
	}
	r.committing = true
	future := r.tr.Commit()
	r.mu.Unlock()

	err := future.Get()

	r.mu.Lock()
	r.committing = false
	r.mu.Unlock()
	if err != nil {
		return &failure{err, committing}
	}
	return nil
}

// rerun returns nil when the closure has to run again, after a pause that grows with the
// number of failures, and otherwise the error of the transaction.
func (r *run) rerun(f *failure) error {
	switch judge(code(f.err), f.at) {
	case unknown:
		r.db.unknown.Add(1)
		return fmt.Errorf("%w: %w", kv.ErrUnknown, f.err)
	case tooLarge:
		return fmt.Errorf("%w: %w", kv.ErrTooLarge, f.err)
	case hopeless:
		return r.unavailable(f.err)
	}
	if code(f.err) == codeNotCommitted {
		r.db.conflicts.Add(1)
	}
	if r.backOff(f.err) != nil {
		return r.unavailable(f.err)
	}
	return nil
}

// unavailable returns the error of a transaction after its last failure.
func (r *run) unavailable(last error) error {
	ended := r.ctx.Err()
	switch {
	case ended == nil:
		return unavailable(last)
	case code(last) == codeTransactionCancelled: // the end of the context has cancelled it
		return unavailable(ended)
	}
	return fmt.Errorf("%w: %w, after: %w", kv.ErrUnavailable, ended, last)
}

// backOff waits for the library's back-off time and resets the transaction for another
// run.
func (r *run) backOff(err error) error {
	r.mu.Lock()
	if r.dead || r.ctx.Err() != nil {
		r.mu.Unlock()
		return errAbandoned
	}
	future := r.tr.OnError(apple.Error{Code: code(err)})
	r.mu.Unlock()
	return future.Get()
}
