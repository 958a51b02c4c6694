// Package session runs transactions that take effect exactly once, even when the store cannot
// tell whether a commit succeeded.
package session

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

// Pool has the sessions of one process. Slots are reused, so a process leaves only as many rows
// as it ever had sessions at the same time.
type Pool struct {
	db    kv.DB
	space []byte // prefix of the rows of all processes
	row   []byte // the process's last heartbeat. The keys of its sessions begin with it
	mu    sync.Mutex
	free  []*Session
	made  int
}

// NewPool returns the pool of a process. The keys of its rows begin with the space and the name
// of the process, which no other one has.
func NewPool(db kv.DB, space, process []byte) *Pool {
	return &Pool{db: db, space: space, row: tuple.AppendBytes(bytes.Clone(space), process)}
}

// Beat writes when the process was last alive.
func (p *Pool) Beat(tx kv.Tx, now int64) { tx.Set(p.row, tuple.AppendInt(nil, now)) }

// Session runs transactions that take effect exactly once, one at a time.
//
// A store may not know whether a transaction committed. Each attempt therefore
// writes its number to the session's row, in the same transaction. After an unknown
// result the session reads the row. If it has the number, the attempt took effect.
// Otherwise the session writes a new number, so that the attempt, if it is still
// under way, conflicts and cannot commit any more.
type Session struct {
	pool      *Pool
	row       []byte // its key
	attempt   uint64
	rowExists bool // the row was written; Retire may have cleared it
}

// maxOthers bounds the processes of which Others tells.
const maxOthers = 256

// Others returns the names of the other processes that have written a heartbeat since a time, and whether these are all.
func (p *Pool) Others(r kv.Reader, since int64) (names [][]byte, all bool, err error) {
	begin, end := tuple.Range(p.space)
	for range maxOthers {
		rows, err := r.Range(begin, end, kv.RangeOptions{Limit: 1})
		if err != nil || len(rows) == 0 {
			return names, err == nil, err
		}
		name, slot, err := tuple.ConsumeBytes(rows[0].Key[len(p.space):])
		if err != nil {
			return nil, false, fmt.Errorf("damaged session row: %w", err)
		}
		owner := rows[0].Key[:len(rows[0].Key)-len(slot)]
		begin = tuple.PrefixEnd(owner)
		if len(slot) > 0 || bytes.Equal(owner, p.row) {
			continue // it has not written a heartbeat, or is this one
		}
		at, _, err := tuple.ConsumeInt(rows[0].Value)
		if err != nil {
			return nil, false, fmt.Errorf("damaged heartbeat: %w", err)
		}
		if at >= since {
			names = append(names, name)
		}
	}
	return names, false, nil
}

// Session returns a session for exclusive use until it is released.
func (p *Pool) Session() *Session {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		s := p.free[n-1]
		p.free = p.free[:n-1]
		return s
	}
	p.made++
	return &Session{pool: p, row: tuple.AppendInt(bytes.Clone(p.row), int64(p.made-1))}
}

// Release gives the session back.
func (s *Session) Release() {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	s.pool.free = append(s.pool.free, s)
}

// Update runs fn and commits its writes exactly once: variables that fn sets have the
// values of the run that committed. It returns kv.ErrUnknown only when the store
// stays unavailable for ResolveTimeout.
func (s *Session) Update(ctx context.Context, fn func(kv.Tx) error) error {
	for {
		s.attempt++
		attempt := s.attempt
		written := false
		err := s.pool.db.Update(ctx, func(tx kv.Tx) error {
			attemptTx := attemptTx{Tx: tx, row: s.row, attempt: attempt}
			err := fn(&attemptTx)
			written = attemptTx.written
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

// attemptTx writes the session's row with the first write of its transaction, so that
// transactions without writes stay without.
type attemptTx struct {
	kv.Tx
	row     []byte
	attempt uint64
	written bool
}

func (t *attemptTx) writeAttempt() {
	if t.written {
		return
	}
	t.written = true
	t.Tx.Conflict(t.row)
	t.Tx.Set(t.row, kv.EncodeInteger(t.attempt))
}

func (t *attemptTx) Set(key, value []byte) {
	t.writeAttempt()
	t.Tx.Set(key, value)
}

func (t *attemptTx) Clear(key []byte) {
	t.writeAttempt()
	t.Tx.Clear(key)
}

func (t *attemptTx) ClearRange(begin, end []byte) {
	t.writeAttempt()
	t.Tx.ClearRange(begin, end)
}

func (t *attemptTx) Add(key []byte, delta int64) {
	t.writeAttempt()
	t.Tx.Add(key, delta)
}

func (t *attemptTx) Max(key []byte, value uint64) {
	t.writeAttempt()
	t.Tx.Max(key, value)
}

// retention is how long the sessions of a process without heartbeats are kept,
// far longer than a transaction can take.
const retention = time.Hour

// retireRows bounds how many rows one transaction of Retire reads.
const retireRows = 1000

// Retire clears the sessions of processes without a heartbeat for an hour, in one bounded
// transaction that starts at the given row. It returns the row at which the next one has to
// start, nil after the last one. now is the time that the processes write.
func (p *Pool) Retire(ctx context.Context, from []byte, now func(kv.Reader) (int64, error)) (next []byte, err error) {
	begin, end := tuple.Range(p.space)
	if from != nil {
		begin = from
	}
	err = p.db.Update(ctx, func(tx kv.Tx) error {
		next = nil
		now, err := now(tx.Snapshot())
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
		return retire(tx, rows, len(p.space), now)
	})
	if err != nil {
		return nil, fmt.Errorf("retire sessions: %w", err)
	}
	return next, nil
}

func retire(tx kv.Tx, rows []kv.Pair, prefix int, now int64) error {
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
		if now-alive > int64(retention) {
			tx.Conflict(owner)
			tx.Clear(owner)
			tx.ClearRange(tuple.Range(owner))
		}
	}
	return nil
}

// ResolveTimeout bounds how long Update resolves an unknown result, even when its
// context has ended. Only tests change it.
var ResolveTimeout = 10 * time.Second

// resolvePause is the first pause between attempts to resolve while the store is
// unavailable; it doubles.
const resolvePause = time.Millisecond

// resolve finds out whether an attempt took effect. If not, it makes sure that the
// attempt never will.
func (s *Session) resolve(ctx context.Context, attempt uint64) (done bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ResolveTimeout)
	defer cancel()
	s.attempt++
	void := s.attempt
	for pause := resolvePause; ; pause *= 2 {
		err = s.pool.db.Update(ctx, func(tx kv.Tx) error {
			row, err := tx.Get(s.row)
			if err != nil {
				return err
			}
			if row == nil && s.rowExists {
				return errRetired
			}
			if done = kv.DecodeInteger(row) == attempt; !done {
				tx.Set(s.row, kv.EncodeInteger(void))
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

// errRetired: Retire has cleared the session's row, because this process was
// silent for too long. The result cannot be found out.
var errRetired = errors.New("the row of the session is gone: the process was silent for too long")
