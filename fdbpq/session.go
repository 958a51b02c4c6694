package fdbpq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/tuple"
)

// sessions hands out session slots. Slots are used again, lowest first, so a process
// leaves as many rows behind as it ever ran transactions at a time.
type sessions struct {
	process [16]byte
	mu      sync.Mutex
	free    []*Session
	made    int
}

// Session runs transactions that take effect exactly once, one at a time.
//
// A store may answer that it does not know whether a transaction committed.
// Each attempt therefore writes its number to the session's own row, in the same
// transaction. After an unknown result the row tells: it holds the number, then
// the attempt took effect and its results stand; or a void number is put there
// first, on which the attempt, should it still be under way, can only conflict.
type Session struct {
	store   *Store
	slot    int
	attempt uint64
	kept    bool // the row exists, unless somebody retired this process
}

// Session returns a session that nobody else uses until it is released.
func (s *Store) Session() *Session {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	if n := len(s.sessions.free); n > 0 {
		l := s.sessions.free[n-1]
		s.sessions.free = s.sessions.free[:n-1]
		return l
	}
	s.sessions.made++
	return &Session{store: s, slot: s.sessions.made - 1}
}

// Release gives the session back.
func (s *Session) Release() {
	s.store.sessions.mu.Lock()
	defer s.store.sessions.mu.Unlock()
	s.store.sessions.free = append(s.store.sessions.free, s)
}

// resolveTimeout is how long Update tries to find out about an unknown result
// when its context has ended. Only tests change it.
var resolveTimeout = 10 * time.Second

// resolvePause is how long it waits at first for a store that is away.
const resolvePause = time.Millisecond

// Update runs fn and commits what it wrote, exactly once: results that fn left
// in its variables are those of the run that committed. Only when the store
// stays away for long does it return kv.ErrUnknown.
func (s *Session) Update(ctx context.Context, fn func(kv.Tx) error) error {
	for {
		s.attempt++
		attempt := s.attempt
		marked := false
		err := s.store.db.Update(ctx, func(tx kv.Tx) error {
			sessionTx := sessionTx{Tx: tx, row: s.row(), attempt: attempt}
			err := fn(&sessionTx)
			marked = sessionTx.marked
			return err
		})
		if err == nil && marked {
			s.kept = true
		}
		if !errors.Is(err, kv.ErrUnknown) {
			return err
		}
		done, resolveErr := s.resolve(ctx, attempt)
		if resolveErr != nil {
			// Not wrapped: it may be ErrUnavailable, which promises too much.
			return fmt.Errorf("%w; finding out failed: %v", err, resolveErr)
		}
		if done {
			return nil
		}
	}
}

// resolve finds out whether an attempt took effect, and if not makes sure that
// it never will.
func (s *Session) resolve(ctx context.Context, attempt uint64) (done bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolveTimeout)
	defer cancel()
	s.attempt++
	void := s.attempt
	for pause := resolvePause; ; pause *= 2 {
		err = s.store.db.Update(ctx, func(tx kv.Tx) error {
			row, err := tx.Get(s.row())
			if err != nil {
				return err
			}
			if row == nil && s.kept {
				return errRetired
			}
			if done = kv.DecodeInteger(row) == attempt; !done {
				tx.Set(s.row(), kv.EncodeInteger(void))
			}
			return nil
		})
		away := errors.Is(err, kv.ErrUnavailable)
		if !away && !errors.Is(err, kv.ErrUnknown) || ctx.Err() != nil {
			s.kept = s.kept || err == nil
			return done, err
		}
		if away {
			wait := time.NewTimer(pause)
			select {
			case <-wait.C:
			case <-ctx.Done():
			}
			wait.Stop()
		}
	}
}

// errRetired: this process was silent for so long that its sessions were cleared,
// and with them the trace of what it last did.
var errRetired = errors.New("the session's row was retired")

func (s *Session) row() []byte {
	return tuple.AppendInt(s.store.processRow(), int64(s.slot))
}

// processRow is the row that says when this process was last alive; those of
// its sessions begin with it.
func (s *Store) processRow() []byte {
	return tuple.AppendBytes(row(spaceSession), s.sessions.process[:])
}

// sessionTx writes the session's row with the first write of its transaction, so
// that a transaction that only reads stays one.
type sessionTx struct {
	kv.Tx
	row     []byte
	attempt uint64
	marked  bool
}

func (t *sessionTx) mark() {
	if t.marked {
		return
	}
	t.marked = true
	t.Tx.Conflict(t.row)
	t.Tx.Set(t.row, kv.EncodeInteger(t.attempt))
}

func (t *sessionTx) Set(key, value []byte) {
	t.mark()
	t.Tx.Set(key, value)
}

func (t *sessionTx) Clear(key []byte) {
	t.mark()
	t.Tx.Clear(key)
}

func (t *sessionTx) ClearRange(begin, end []byte) {
	t.mark()
	t.Tx.ClearRange(begin, end)
}

func (t *sessionTx) Add(key []byte, delta int64) {
	t.mark()
	t.Tx.Add(key, delta)
}

func (t *sessionTx) Max(key []byte, value uint64) {
	t.mark()
	t.Tx.Max(key, value)
}
