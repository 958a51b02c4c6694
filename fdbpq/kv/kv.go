// Package kv is the interface between the queue core and the store of its rows: an ordered map of byte strings with
// serializable, optimistic transactions. It is the part of FoundationDB's contract that the core uses. An engine
// that passes kvtest can store queues.
//
// # Transactions
//
// A transaction is a closure. It may run several times before it commits once. So it must have no effect outside
// the transaction that a second run would repeat, and it must wait for nothing but the transaction: while a closure
// runs again, an engine may make other transactions wait for it.
//
// Committed transactions are serializable in the order they commit, phantoms included: a transaction runs again if
// anything that it read outside [Tx.Snapshot] has changed before its commit. All reads of one run see one
// consistent state of the store, overlaid with the transaction's own writes.
//
// # Durability
//
// When Update or View returns, with or without an error of the closure's own, everything the closure read and wrote
// is durable: no answer depends on state that a crash could lose.
//
// # Ownership
//
// Keys and values passed to a transaction belong to the caller again when the call returns; slices that a
// transaction returns belong to the caller.
package kv

import (
	"context"
	"encoding/binary"
	"errors"
	"time"
)

// Limits of a transaction. They are FoundationDB's, and every engine enforces them: code that passes on one engine
// must not fail on another.
const (
	MaxKeySize   = 10_000          // bytes of a key
	MaxValueSize = 100_000         // bytes of a value
	MaxTxSize    = 10_000_000      // bytes of all keys, values and conflict ranges
	MaxTxAge     = 5 * time.Second // from the first read to the commit
)

var (
	// ErrUnknown: the commit was sent and its result did not come back. It may
	// have taken effect, may still do so, or may never do so.
	ErrUnknown = errors.New("kv: commit result unknown")

	// ErrUnavailable: the store could not serve the transaction in time.
	// Certainly nothing was committed, and nothing will be.
	ErrUnavailable = errors.New("kv: store unavailable")

	// ErrDamaged: the transaction needs data that cannot be read, because files of the store are damaged. Certainly
	// nothing was committed, and trying again does not help.
	ErrDamaged = errors.New("kv: store damaged")

	// ErrTooLarge: a key, a value or the whole transaction exceeds a limit.
	// Nothing was committed.
	ErrTooLarge = errors.New("kv: too large")

	// ErrClosed: the store was closed. Nothing was committed.
	ErrClosed = errors.New("kv: store closed")
)

// DB is an ordered, transactional key-value store. Its methods may be called
// from any number of goroutines.
type DB interface {
	// Update runs fn and commits what it wrote. It reruns fn after conflicts
	// and other failures that certainly committed nothing, until ctx ends. An
	// error of fn ends the transaction without effect and is returned as it is.
	// Every other error wraps one of this package's. Update never reruns fn
	// after an unknown result.
	Update(ctx context.Context, fn func(Tx) error) error

	// View runs fn on one consistent state of the store. It may rerun fn when
	// that state has become too old to read.
	View(ctx context.Context, fn func(Reader) error) error

	// Close waits for transactions under way and releases the store. Later
	// calls, and watches still pending, end with ErrClosed.
	Close() error
}

// Brief is a DB to which long values cost more than a further read: it writes them again with each version of their row. What
// changes often should have values of no more bytes than Brief returns, and keep the rest in rows of its own.
type Brief interface{ Brief() int }

// BriefOf returns Brief of a DB, MaxValueSize for one to which long values cost no more.
func BriefOf(db DB) int {
	if brief, is := db.(Brief); is {
		return brief.Brief()
	}
	return MaxValueSize
}

// Pair is a key and its value.
type Pair struct {
	Key, Value []byte
}

// RangeOptions bounds a range read.
type RangeOptions struct {
	Limit    int  // pairs at most; must be positive
	MaxBytes int  // stop after the pair that reaches this many bytes of keys and values; 0: no such bound
	Reverse  bool // from the end of the range
}

// Reader reads one consistent state of the store. Its methods must be called
// from the closure's goroutine.
type Reader interface {
	// Get returns the value of key, or nil when there is none. An empty value
	// is not nil.
	Get(key []byte) ([]byte, error)

	// GetAll returns the values of keys in their order, nil for those that
	// have none. Engines over a network read them at the same time.
	GetAll(keys [][]byte) ([][]byte, error)

	// Range returns the pairs with begin <= key < end in the order of their keys, or in the opposite order. The
	// commit depends on the part of the range that was read: up to the last pair returned if a bound cut the read
	// short, otherwise all of it.
	Range(begin, end []byte, opts RangeOptions) ([]Pair, error)
}

// Tx is a read-write transaction. Writes take effect together at the commit or
// not at all; a write that breaks a limit makes the commit fail.
type Tx interface {
	Reader

	// Prefetch says which keys the transaction is about to read one after
	// another, so that an engine over a network can ask for them at the same
	// time. It is a hint: the reads follow, and nothing depends on it.
	Prefetch(keys ...[]byte)

	// PrefetchRange does the same for a range that is about to be read with these options.
	PrefetchRange(begin, end []byte, opts RangeOptions)

	// Snapshot returns a reader of the same state, own writes included. The commit does not depend on its reads.
	Snapshot() Reader

	// Conflict makes the commit depend on key as a read of it would.
	Conflict(key []byte)

	Set(key, value []byte)
	Clear(key []byte)
	ClearRange(begin, end []byte)

	// Add adds delta to the little-endian integer at key, which is 0 when
	// absent. It does not conflict with other Adds.
	Add(key []byte, delta int64)

	// Max raises the little-endian unsigned integer at key to value if it is
	// lower or absent. It does not conflict with other Maxes.
	Max(key []byte, value uint64)

	// Watch waits for a change of key's value by a later write of this transaction, or after it. It becomes active at the commit. If
	// the transaction does not commit, or its closure runs again, the watch ends at once. The commit does not depend on
	// the key, but it may if the transaction itself gives the key another value.
	Watch(key []byte) *Watch
}

// Watch reports that the value of a key may have changed.
type Watch struct {
	done   <-chan struct{}
	cancel func()
}

// NewWatch is for engines: done is closed when the watch ends, cancel ends it.
func NewWatch(done <-chan struct{}, cancel func()) *Watch {
	return &Watch{done: done, cancel: cancel}
}

// Done is closed when the key's value has changed, and also when the engine can no longer tell (lost connection,
// too many watches, Close, Cancel): read the key again. A change back to the old value may go unnoticed.
func (w *Watch) Done() <-chan struct{} { return w.done }

// Cancel ends the watch and frees its resources. It may be called repeatedly.
func (w *Watch) Cancel() { w.cancel() }

// EncodeInteger returns v as Add and Max keep it.
func EncodeInteger(v uint64) []byte {
	return binary.LittleEndian.AppendUint64(nil, v)
}

// DecodeInteger reads what Add and Max keep; a missing row counts as 0.
func DecodeInteger(b []byte) uint64 {
	var buf [8]byte
	copy(buf[:], b)
	return binary.LittleEndian.Uint64(buf[:])
}
