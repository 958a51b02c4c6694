package fdbpq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

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

// sessionRetention is how long the sessions of a process without heartbeats are kept,
// far longer than a transaction can take.
const sessionRetention = time.Hour

// retireRows bounds how many rows one transaction of RetireSessions reads.
const retireRows = 1000

// RetireSessions clears the sessions of processes without a heartbeat for an hour, in
// one bounded transaction that starts at the given row. It returns the row at which
// the next one has to start, nil after the last one.
func (s *Store) RetireSessions(ctx context.Context, from []byte) (next []byte, err error) {
	begin, end := tuple.Range(row(spaceSession))
	if from != nil {
		begin = from
	}
	err = s.db.Update(ctx, func(tx kv.Tx) error {
		next = nil
		now, err := s.now(tx.Snapshot())
		if err != nil {
			return err
		}
		rows, err := tx.Snapshot().Range(begin, end, kv.RangeOptions{Limit: retireRows})
		if err != nil {
			return err
		}
		if len(rows) == retireRows {
			next = append(rows[len(rows)-1].Key, 0)
		}
		return retire(tx, rows, now)
	})
	if err != nil {
		return nil, fmt.Errorf("retire sessions: %w", err)
	}
	return next, nil
}

func retire(tx kv.Tx, rows []kv.Pair, now int64) error {
	prefix := len(row(spaceSession))
	var process []byte // that the current rows belong to
	for _, pair := range rows {
		_, slot, err := tuple.ConsumeBytes(pair.Key[prefix:])
		if err != nil {
			return fmt.Errorf("damaged session row: %w", err)
		}
		owner := pair.Key[:len(pair.Key)-len(slot)]
		if bytes.Equal(owner, process) {
			continue
		}
		process = owner
		if len(slot) > 0 {
			// A process without a heartbeat, or whose first rows were in the previous
			// transaction.
			alive, err := tx.Get(owner)
			if err != nil {
				return err
			}
			if alive == nil {
				tx.Set(owner, tuple.AppendInt(nil, now))
			}
			continue
		}
		alive, _, err := tuple.ConsumeInt(pair.Value)
		if err != nil {
			return fmt.Errorf("damaged process row: %w", err)
		}
		if now-alive > int64(sessionRetention) {
			tx.Conflict(owner)
			tx.Clear(owner)
			tx.ClearRange(tuple.Range(owner))
		}
	}
	return nil
}

// resolveTimeout bounds how long Update resolves an unknown result, even when its
// context has ended. Only tests change it.
var resolveTimeout = 10 * time.Second

// resolvePause is the first pause between attempts to resolve while the store is
// unavailable; it doubles.
const resolvePause = time.Millisecond

// resolve finds out whether an attempt took effect. If not, it makes sure that the
// attempt never will.
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
			if row == nil && s.rowExists {
				return errRetired
			}
			if done = kv.DecodeInteger(row) == attempt; !done {
				tx.Set(s.row(), kv.EncodeInteger(void))
			}
			return nil
		})
		away := errors.Is(err, kv.ErrUnavailable)
		if !away && !errors.Is(err, kv.ErrUnknown) || ctx.Err() != nil {
			s.rowExists = s.rowExists || err == nil
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

// errRetired: RetireSessions has cleared the session's row, because this process was
// silent for too long. The result cannot be found out.
var errRetired = errors.New("the row of the session is gone: the process was silent for too long")
