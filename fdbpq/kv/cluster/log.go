package cluster

import (
	"context"
	"errors"
)

var (
	// ErrMoved: the last entry is not the entry that the append named. This call has appended nothing, and never
	// will. It does not say which entry is the last: the refusal may rest on an entry that never commits.
	ErrMoved = errors.New("cluster: the log has moved on")

	// ErrFull: the log has no room for the entry. This call has appended nothing, and
	// never will.
	ErrFull = errors.New("cluster: the log is full")

	// ErrNoLog: there is no log, or another one has its name. The call did nothing.
	ErrNoLog = errors.New("cluster: there is no such log")

	// ErrNoEntry: nothing was found under the number. It proves nothing: the entry may
	// have been purged, and a server that lags may not have it yet.
	ErrNoEntry = errors.New("cluster: no such entry")
)

// Log is a replicated sequence of entries, numbered from 1 without gaps. A store has one
// log in each generation; a new generation begins when the log has lost entries. Methods
// may be called from any number of goroutines. Errors other than the errors of this package
// mean that the log could not be reached, or did not answer in time.
type Log interface {
	// Create makes the log, empty, unless it exists.
	Create(ctx context.Context) error

	// State describes the log. The answer may be old: numbers only grow, unless the
	// log lost its end.
	State(ctx context.Context) (LogState, error)

	// Append appends entry as number after+1 if after is the number of the last entry;
	// 0 stands for an empty log. When it returns nil, the entry is there, as durable as
	// the log makes any. After ErrMoved, ErrFull and ErrNoLog this call has appended
	// nothing. After any other error it may have, or may still do so later; an entry
	// that lands late lands as number after+1 or not at all.
	Append(ctx context.Context, after uint64, entry []byte) error

	// Read returns entries from number first on, in order and without gaps: at least
	// one, at most most of them, or ErrNoEntry. Every entry that it returns has been
	// committed, but it may miss the newest.
	Read(ctx context.Context, first uint64, most int) ([][]byte, error)

	// Confirm returns an entry as the leader of the log has it, or ErrNoEntry. Read may ask a server whose disk has
	// damaged the entry.
	Confirm(ctx context.Context, number uint64) ([]byte, error)

	// Complete adds the replicas that the log lacked when it was made, because their servers were away. It fails
	// until they are there.
	Complete(ctx context.Context) error

	// Purge removes the entries below number first. The last entry always stays.
	Purge(ctx context.Context, first uint64) error

	// End ends the log for good; if there is none, it makes a log that has ended. Once it
	// has returned nil, no append to this generation succeeds, whichever entry it names
	// and whenever it was sent. The entries are gone.
	End(ctx context.Context) error

	// Generation returns the log of another generation of the store, which may not exist.
	Generation(n uint64) Log

	// Newest is the newest generation of the store that has a log, ended or not; 0: none.
	Newest(ctx context.Context) (uint64, error)

	// MaxEntry is how many bytes an entry may have.
	MaxEntry() int
}

// LogState describes a log.
type LogState struct {
	// Identity tells this log from a log that was made later under the same name. It
	// never changes.
	Identity string

	Ended       bool   // by End: the other fields do not matter then
	First, Last uint64 // numbers of its entries; Last is First-1 when it is empty
	Bytes       uint64 // that it takes, with the bytes that others take of its room
	MaxBytes    uint64 // that it may take; 0: no limit
}

// is reports whether the log is unchanged; the room that others take does not count.
func (s LogState) is(before LogState) bool {
	s.Bytes = before.Bytes
	return s == before
}
