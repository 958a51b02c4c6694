package fdbpq

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// sessions is the pool of a process's sessions. Slots are reused, so a process leaves
// only as many rows as it ever had sessions at the same time.
type sessions struct {
	process [16]byte
	mu      sync.Mutex
	free    []*Session
	made    int
}

// Session runs transactions that take effect exactly once, one at a time.
//
// A store may not know whether a transaction committed. Each attempt therefore
// writes its number to the session's row, in the same transaction. After an unknown
// result the session reads the row. If it has the number, the attempt took effect.
// Otherwise the session writes a new number, so that the attempt, if it is still
// under way, conflicts and cannot commit any more.
type Session struct {
	store     *Store
	slot      int
	attempt   uint64
	rowExists bool // the row was written; RetireSessions may have cleared it
}

// Session returns a session for exclusive use until it is released.
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

// Update runs fn and commits its writes exactly once: variables that fn sets have the
// values of the run that committed. It returns kv.ErrUnknown only when the store
// stays unavailable for resolveTimeout.
func (s *Session) Update(ctx context.Context, fn func(kv.Tx) error) error {
	for {
		s.attempt++
		attempt := s.attempt
		written := false
		err := s.store.db.Update(ctx, func(tx kv.Tx) error {
			sessionTx := sessionTx{Tx: tx, row: s.row(), attempt: attempt}
			err := fn(&sessionTx)
			written = sessionTx.written
			return err
		})
		if err == nil && written {
			s.rowExists = true
		}
		if !errors.Is(err, kv.ErrUnknown) {
			return err
		}
		done, resolveErr := s.resolve(ctx, attempt)
		if resolveErr != nil {
			// resolveErr is not wrapped: it may be ErrUnavailable, which says that nothing
			// was committed.
			return fmt.Errorf("%w; resolving it failed: %v", err, resolveErr)
		}
		if done {
			return nil
		}
	}
}

func (s *Session) row() []byte {
	return tuple.AppendInt(s.store.processRow(), int64(s.slot))
}

// processRow is the key of the process's last heartbeat; the keys of its sessions
// begin with it.
func (s *Store) processRow() []byte {
	return tuple.AppendBytes(row(spaceSession), s.sessions.process[:])
}

// sessionTx writes the session's row with the first write of its transaction, so that
// transactions without writes stay without.
type sessionTx struct {
	kv.Tx
	row     []byte
	attempt uint64
	written bool
}

func (t *sessionTx) writeAttempt() {
	if t.written {
		return
	}
	t.written = true
	t.Tx.Conflict(t.row)
	t.Tx.Set(t.row, kv.EncodeInteger(t.attempt))
}

func (t *sessionTx) Set(key, value []byte) {
	t.writeAttempt()
	t.Tx.Set(key, value)
}

func (t *sessionTx) Clear(key []byte) {
	t.writeAttempt()
	t.Tx.Clear(key)
}

func (t *sessionTx) ClearRange(begin, end []byte) {
	t.writeAttempt()
	t.Tx.ClearRange(begin, end)
}

func (t *sessionTx) Add(key []byte, delta int64) {
	t.writeAttempt()
	t.Tx.Add(key, delta)
}

func (t *sessionTx) Max(key []byte, value uint64) {
	t.writeAttempt()
	t.Tx.Max(key, value)
}
