package storetime

import (
	"context"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Stamp returns the store with store time in each of its transactions that writes anything. So a process
// that goes on with the store, and knows how long ago the last of them was, knows the time that had come by then.
// The time is later than all that the transaction has used.
func (c *Clock) Stamp(db kv.DB) kv.DB { return stamped{db, c} }

type stamped struct {
	kv.DB
	clock *Clock
}

func (s stamped) Update(ctx context.Context, fn func(kv.Tx) error) error {
	return s.DB.Update(ctx, func(tx kv.Tx) error {
		t := writes{Tx: tx}
		if err := fn(&t); err != nil || !t.any {
			return err
		}
		s.clock.Write(tx, s.clock.Now())
		return nil
	})
}

// writes notes whether a transaction writes: one that only reads is to stay so.
type writes struct {
	kv.Tx
	any bool
}

func (t *writes) Set(key, value []byte) {
	t.any = true
	t.Tx.Set(key, value)
}

func (t *writes) Clear(key []byte) {
	t.any = true
	t.Tx.Clear(key)
}

func (t *writes) ClearRange(begin, end []byte) {
	t.any = true
	t.Tx.ClearRange(begin, end)
}

func (t *writes) Add(key []byte, delta int64) {
	t.any = true
	t.Tx.Add(key, delta)
}

func (t *writes) Max(key []byte, value uint64) {
	t.any = true
	t.Tx.Max(key, value)
}
