package fdbpq

import (
	"context"
	"errors"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// heartbeatEvery is the interval at which a process writes store time, and reads
// timers that other processes may have set.
const heartbeatEvery = time.Second

// heartbeat writes store time.
type heartbeat struct {
	store *Store
}

// beat writes this process's estimate of store time.
func (p heartbeat) beat(ctx context.Context) error {
	err := p.store.db.Update(ctx, func(tx kv.Tx) error {
		now, err := p.store.now(tx.Snapshot())
		if err != nil {
			return err
		}
		p.store.writeStoreTime(tx, now)
		tx.Set(p.store.processRow(), tuple.AppendInt(nil, now))
		return nil
	})
	if errors.Is(err, kv.ErrUnknown) {
		return nil // the next beat writes it again
	}
	return err
}

// writeStoreTime writes now as store time.
func (s *Store) writeStoreTime(tx kv.Tx, now int64) {
	tx.Max(row(spaceTime), uint64(now))
	tx.Set(row(spaceWall), kv.EncodeInteger(uint64(s.clock.wall().UnixNano())))
}
