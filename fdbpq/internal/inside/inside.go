// Package inside is what packages beside fdbpq need of a store that no program does: clocks, the name of the process,
// tasks that one process at a time has, and how a check reads rows. No other package can name its types, so nothing of it is a promise.
//
// It guarantees:
//   - A task is that of one process at a time: who takes it in a transaction that has asked for its term conflicts
//     with all others that take it.
//   - A process that dies holds up a task for its term at most.
package inside

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/damage"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/internal/storetime"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Store is a store as one process has it open.
type Store struct {
	DB        kv.DB
	Clock     *storetime.Clock
	Process   [16]byte // name of this one
	Exclusive bool     // no other process can have it open
	Damaged   damage.Rows
	Later     Later

	Fires atomic.Bool // this process fires schedules, or waits for its turn

	// Of tests: another version of the tz database than that of this program, and other bounds of the due
	// schedules that wait.
	Zones string
	Late  *[4]int
}

// Term returns until when a task of the store is that of one process, and whether it is this one.
// In a store that only this process has open, another one's term is over.
func (s *Store) Term(r kv.Reader, space string) (own bool, until int64, err error) {
	value, err := r.Get(layout.Row(space))
	if err != nil || value == nil {
		return false, 0, err
	}
	row := tuple.Read(value)
	own, until = bytes.Equal(row.Bytes(), s.Process[:]), row.Int()
	if row.Err() != nil {
		return false, 0, fmt.Errorf("damaged row of a term: %w", row.Err())
	}
	if !own && s.Exclusive {
		return false, 0, nil
	}
	return own, until, nil
}

// Take makes a task that of this process until a time.
func (s *Store) Take(tx kv.Tx, space string, until int64) {
	tx.Set(layout.Row(space), tuple.AppendInt(tuple.AppendBytes(nil, s.Process[:]), until))
}

// stepTimeout bounds how long a step waits for the store, so that an outage is reported.
const stepTimeout = 5 * time.Second

// Step runs a part of a task that goes on, and reports whether it succeeded. It reports its error as a problem, unless
// ctx has ended.
func Step(ctx context.Context, problem func(error), work func(context.Context) error) bool {
	limited, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	err := work(limited)
	if err != nil && ctx.Err() == nil {
		problem(err)
	}
	return err == nil
}

// Fraction is a number from 0 up to 1, the same for all who ask for that of a text.
func Fraction(of []byte) float64 {
	sum := sha256.Sum256(of)
	return float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53)
}
