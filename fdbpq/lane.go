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

// lanes hands out lane slots. Slots are used again, lowest first, so a process
// leaves as many rows behind as it ever ran transactions at a time.
type lanes struct {
	process [16]byte
	mu      sync.Mutex
	free    []*Lane
	made    int
}

// Lane runs transactions that take effect exactly once, one at a time.
//
// A store may answer that it does not know whether a transaction committed.
// Each attempt therefore writes its number to the lane's own row, in the same
// transaction. After an unknown result the row tells: it holds the number, then
// the attempt took effect and its results stand; or a void number is put there
// first, on which the attempt, should it still be under way, can only conflict.
type Lane struct {
	store   *Store
	slot    int
	attempt uint64
	kept    bool // the row exists, unless somebody retired this process
}

// Lane returns a lane that nobody else uses until it is released.
func (s *Store) Lane() *Lane {
	s.lanes.mu.Lock()
	defer s.lanes.mu.Unlock()
	if n := len(s.lanes.free); n > 0 {
		l := s.lanes.free[n-1]
		s.lanes.free = s.lanes.free[:n-1]
		return l
	}
	s.lanes.made++
	return &Lane{store: s, slot: s.lanes.made - 1}
}

// Release gives the lane back.
func (l *Lane) Release() {
	l.store.lanes.mu.Lock()
	defer l.store.lanes.mu.Unlock()
	l.store.lanes.free = append(l.store.lanes.free, l)
}

// resolveTimeout is how long Update tries to find out about an unknown result
// when its context has ended. Only tests change it.
var resolveTimeout = 10 * time.Second

// resolvePause is how long it waits at first for a store that is away.
const resolvePause = time.Millisecond

// Update runs fn and commits what it wrote, exactly once: results that fn left
// in its variables are those of the run that committed. Only when the store
// stays away for long does it return kv.ErrUnknown.
func (l *Lane) Update(ctx context.Context, fn func(kv.Tx) error) error {
	for {
		l.attempt++
		attempt := l.attempt
		marked := false
		err := l.store.db.Update(ctx, func(tx kv.Tx) error {
			laneTx := laneTx{Tx: tx, row: l.row(), attempt: attempt}
			err := fn(&laneTx)
			marked = laneTx.marked
			return err
		})
		if err == nil && marked {
			l.kept = true
		}
		if !errors.Is(err, kv.ErrUnknown) {
			return err
		}
		done, resolveErr := l.resolve(ctx, attempt)
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
func (l *Lane) resolve(ctx context.Context, attempt uint64) (done bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolveTimeout)
	defer cancel()
	l.attempt++
	void := l.attempt
	for pause := resolvePause; ; pause *= 2 {
		err = l.store.db.Update(ctx, func(tx kv.Tx) error {
			row, err := tx.Get(l.row())
			if err != nil {
				return err
			}
			if row == nil && l.kept {
				return errRetired
			}
			if done = kv.DecodeInteger(row) == attempt; !done {
				tx.Set(l.row(), kv.EncodeInteger(void))
			}
			return nil
		})
		away := errors.Is(err, kv.ErrUnavailable)
		if !away && !errors.Is(err, kv.ErrUnknown) || ctx.Err() != nil {
			l.kept = l.kept || err == nil
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

// errRetired: this process was silent for so long that its lanes were cleared,
// and with them the trace of what it last did.
var errRetired = errors.New("the lane's row was retired")

func (l *Lane) row() []byte {
	return tuple.AppendInt(l.store.processRow(), int64(l.slot))
}

// processRow is the row that says when this process was last alive; those of
// its lanes begin with it.
func (s *Store) processRow() []byte {
	return tuple.AppendBytes(row(spaceLane), s.lanes.process[:])
}

// laneTx writes the lane's row with the first write of its transaction, so
// that a transaction that only reads stays one.
type laneTx struct {
	kv.Tx
	row     []byte
	attempt uint64
	marked  bool
}

func (t *laneTx) mark() {
	if t.marked {
		return
	}
	t.marked = true
	t.Tx.Conflict(t.row)
	t.Tx.Set(t.row, kv.EncodeInteger(t.attempt))
}

func (t *laneTx) Set(key, value []byte) {
	t.mark()
	t.Tx.Set(key, value)
}

func (t *laneTx) Clear(key []byte) {
	t.mark()
	t.Tx.Clear(key)
}

func (t *laneTx) ClearRange(begin, end []byte) {
	t.mark()
	t.Tx.ClearRange(begin, end)
}

func (t *laneTx) Add(key []byte, delta int64) {
	t.mark()
	t.Tx.Add(key, delta)
}

func (t *laneTx) Max(key []byte, value uint64) {
	t.mark()
	t.Tx.Max(key, value)
}
