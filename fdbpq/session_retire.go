package fdbpq

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

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
