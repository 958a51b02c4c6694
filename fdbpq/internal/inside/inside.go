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
	"sync"
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

// The bounds of a check: the violations that it reports, and the rows that it reads at a time.
const (
	maxProblems   = 100
	checkRows     = 1000
	checkRowBytes = 4 << 20
)

// Findings are the violations of invariants that a check of rows has found, a sentence each.
type Findings struct{ Problems []string }

// Problem adds a violation, unless there are many already.
func (f *Findings) Problem(format string, args ...any) {
	if len(f.Problems) < maxProblems {
		f.Problems = append(f.Problems, fmt.Sprintf(format, args...))
	}
}

// Visit checks all rows of a space. An error of check is a violation.
func (f *Findings) Visit(ctx context.Context, db kv.DB, space string, check func(kv.Pair) error) error {
	begin, end := tuple.Range(layout.Row(space))
	for {
		var page []kv.Pair
		err := db.View(ctx, func(r kv.Reader) (err error) {
			page, err = r.Range(begin, end, kv.RangeOptions{Limit: checkRows, MaxBytes: checkRowBytes})
			return err
		})
		if err != nil || len(page) == 0 {
			return err
		}
		for _, pair := range page {
			if err := check(pair); err != nil {
				f.Problem("row %q: %v", pair.Key, err)
			}
		}
		begin = append(page[len(page)-1].Key, 0)
	}
}

// maxLater bounds the queues that are remembered.
const maxLater = 1000

// Later has the queues that only a later program serves, as far as this process has met them. Its methods may be called from any
// number of goroutines.
type Later struct {
	mu     sync.Mutex
	queues map[string]bool
}

// Passed are the queues that a transaction has left to a later program, and why.
type Passed map[string]error

// Add adds a queue.
func (p *Passed) Add(queue string, why error) {
	if *p == nil {
		*p = make(Passed)
	}
	(*p)[queue] = why
}

// Report reports each queue once as a problem for the operator.
func (l *Later) Report(passed Passed, problem func(error)) {
	for queue, why := range passed {
		if err := l.problem(queue, why); err != nil {
			problem(err)
		}
	}
}

// problem returns a problem, nil if the queue was reported before.
func (l *Later) problem(queue string, why error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queues[queue] || len(l.queues) == maxLater {
		return nil
	}
	if l.queues == nil {
		l.queues = make(map[string]bool)
	}
	l.queues[queue] = true
	return fmt.Errorf("queue %q waits for a later version of this program, with its leases, delays and schedules; other queues are served: %w", queue, why)
}
