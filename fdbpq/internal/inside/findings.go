package inside

import (
	"context"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

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
