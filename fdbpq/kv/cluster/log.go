package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/takeover"
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

	// ErrNoPart means that the disk of a member has no part of the log, not even one that lacks entries.
	ErrNoPart = errors.New("cluster: this disk has no part of the log")

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

const (
	truncateEvery = 2 * time.Second
	completeEvery = 10 * time.Second
)

// logRoom keeps room in the log.
type logRoom struct{ *member }

// run removes entries that the log need not keep, while this member is active and until ctx ends.
func (r logRoom) run(ctx context.Context) {
	var completed time.Time
	for pause(ctx, truncateEvery) == nil {
		if r.self.now().role != peers.Active {
			continue
		}
		if time.Since(completed) > completeEvery {
			completed = time.Now()
			if err := attempt(ctx, r.log().Complete); err != nil && ctx.Err() == nil {
				r.slog.Info("kv/cluster: replicas of the log are missing", "err", err)
			}
		}
		var state LogState
		err := attempt(ctx, func(ctx context.Context) (err error) {
			state, err = r.log().State(ctx)
			return err
		})
		if errors.Is(err, ErrNoLog) || err == nil && (state.Ended || state.Last != r.self.now().read) {
			r.probe(ctx)
			continue
		}
		if err != nil {
			if ctx.Err() == nil {
				r.slog.Warn("kv/cluster: reading the state of the log failed", "err", err)
			}
			continue
		}
		r.self.observe(state)
		r.purge(ctx, state)
	}
}

// purge removes entries that the log need not keep.
func (r logRoom) purge(ctx context.Context, state LogState) {
	all, _ := r.peers.Heard()
	first := expendable(state, r.self.now().heartbeat(time.Now()), all, len(r.options.Members), time.Now())
	if first <= state.First {
		return
	}
	err := attempt(ctx, func(ctx context.Context) error { return r.log().Purge(ctx, first) })
	if err != nil && ctx.Err() == nil {
		r.slog.Warn("kv/cluster: purging the log failed", "err", err)
	}
}

// makeRoom purges a log that has no room for the entry with which a candidate becomes
// active. The active member, which would purge it, has ended.
func (r logRoom) makeRoom(ctx context.Context) {
	state, err := r.log().State(ctx)
	if err != nil {
		return // the candidate tries again
	}
	r.purge(ctx, state)
}

// probe makes the active member append to a log that seems to have lost entries, or to have entries of another
// member: the append finds out. Without it a member that has nothing to write would stay active.
func (r logRoom) probe(ctx context.Context) {
	term := r.self.current()
	if term == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, truncateEvery)
	defer cancel()
	_ = term.View(ctx, func(reader kv.Reader) error { // only the result of the append counts
		_, err := reader.Get([]byte{0})
		return err
	})
}

// attemptFor is how long one call of the log may take.
const attemptFor = 5 * time.Second

// readEntry reads one entry of the log.
func readEntry(ctx context.Context, log Log, number uint64) (entry []byte, err error) {
	err = attempt(ctx, func(ctx context.Context) error {
		found, err := log.Read(ctx, number, 1)
		if err == nil {
			entry = found[0]
		}
		return err
	})
	return entry, err
}

// attempt gives a call of the log a time of its own.
func attempt(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, attemptFor)
	defer cancel()
	return call(ctx)
}

// pause waits for d, and returns an error if ctx ends before.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// signal puts a token into a channel that has room for one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Results of an append whose entry is not in the log.
var (
	// errForeign: another entry has its place. The entry certainly is not in the log and never will be.
	errForeign = errors.New("another member has written to the log")

	// errUnknownResult: it cannot be known any more whether the entry is in the log.
	errUnknownResult = errors.New("it is not known whether the log has it")
)

// retryPause is how long put waits at most before the next attempt.
const retryPause = 200 * time.Millisecond

// put appends an entry behind entry number after, and returns once its result is certain: nil if it is in the log;
// ErrFull, ErrNoLog or errForeign if it never will be; errUnknownResult if that can no longer be found out. Until then it
// repeats the append byte by byte, because only an entry under the number is proof: a refusal may rest on an entry
// that never commits, and a server that lags says "no such entry".
func put(ctx context.Context, log Log, after uint64, entry []byte, identity string) error {
	sent := false       // an earlier attempt may still land
	var short time.Time // since when the log ends before entry number after
	for {
		err := attempt(ctx, func(ctx context.Context) error { return log.Append(ctx, after, entry) })
		switch {
		case err == nil:
			return nil
		case !sent && (errors.Is(err, ErrFull) || errors.Is(err, ErrNoLog)):
			return err
		case errors.Is(err, ErrMoved), errors.Is(err, ErrFull), errors.Is(err, ErrNoLog):
		default:
			sent = true
		}
		switch found, err := readEntry(ctx, log, after+1); {
		case err == nil && bytes.Equal(found, entry):
			return nil
		case err == nil:
			if _, damaged := chain.DecodeRecord(found); errors.Is(damaged, chain.ErrDamaged) {
				return fmt.Errorf("%w: entry %d of the log: %w", errUnknownResult, after+1, damaged)
			}
			return errForeign
		}
		var state LogState
		err = attempt(ctx, func(ctx context.Context) (err error) {
			state, err = log.State(ctx)
			return err
		})
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("%w: %w", errUnknownResult, ctx.Err())
		case err == nil && state.Ended:
			return fmt.Errorf("%w: %w", errUnknownResult, errEnded)
		case err == nil && state.Identity != identity:
			return fmt.Errorf("%w: the log was deleted and made again", errUnknownResult)
		case err == nil && state.First > after+1:
			return fmt.Errorf("%w: its place was purged", errUnknownResult)
		}
		if err != nil || state.Last >= after {
			short = time.Time{}
		} else if short.IsZero() {
			short = time.Now()
		} else if time.Since(short) > takeover.SteadyFor {
			return fmt.Errorf("%w: the log ends at entry %d, and had entry %d", errUnknownResult, state.Last, after)
		}
		if pause(ctx, rand.N(retryPause)) != nil {
			return fmt.Errorf("%w: %w", errUnknownResult, ctx.Err())
		}
	}
}
