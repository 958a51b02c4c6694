package fdbpq

import (
	"context"
	"errors"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/tuple"
)

// heartbeatEvery is how often a process moves store time forward, and how
// soon it notices timers that other processes set.
const heartbeatEvery = time.Second

// pulse moves store time forward.
type pulse struct {
	store *Store
}

// beat moves store time to this process's estimate.
func (p pulse) beat(ctx context.Context) error {
	err := p.store.db.Update(ctx, func(tx kv.Tx) error {
		now, err := p.store.now(tx.Snapshot())
		if err != nil {
			return err
		}
		p.store.move(tx, now)
		tx.Set(p.store.processRow(), tuple.AppendInt(nil, now))
		return nil
	})
	if errors.Is(err, kv.ErrUnknown) {
		return nil // the next beat says the same
	}
	return err
}

// move writes that store time is now.
func (s *Store) move(tx kv.Tx, now int64) {
	tx.Max(row(spaceTime), uint64(now))
	tx.Set(row(spaceWall), kv.EncodeInteger(uint64(s.clock.wall().UnixNano())))
}
