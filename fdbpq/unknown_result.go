package fdbpq

import (
	"context"
	"errors"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

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
