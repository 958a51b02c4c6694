package fdbpq

import (
	"bytes"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// term returns until when a task of the store is that of one process, and whether it is this one.
// In a store that only this process has open, another one's term is over.
func (s *Store) term(tx kv.Tx, space string) (own bool, until int64, err error) {
	value, err := tx.Get(layout.Row(space))
	if err != nil || value == nil {
		return false, 0, err
	}
	r := tuple.Read(value)
	own, until = bytes.Equal(r.Bytes(), s.process[:]), r.Int()
	if r.Err() != nil {
		return false, 0, fmt.Errorf("damaged row of a term: %w", r.Err())
	}
	if !own && s.exclusive {
		return false, 0, nil
	}
	return own, until, nil
}

// take makes a task that of this process until a time.
func (s *Store) take(tx kv.Tx, space string, until int64) {
	tx.Set(layout.Row(space), tuple.AppendInt(tuple.AppendBytes(nil, s.process[:]), until))
}
