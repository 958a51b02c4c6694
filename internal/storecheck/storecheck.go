// Package storecheck looks for damage in a whole store: it runs the checks of package fdbpq and of the packages that keep
// rows beside queues. A package with a check of its own is added here, and nowhere else.
package storecheck

import (
	"context"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/link"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
	"github.com/pqbridge/pqbridge/fdbpq/source"
)

// Check returns a sentence for each violation of an invariant, up to a hundred of each package, also beside an error. Nothing may write to the
// store meanwhile: a concurrent write looks like damage.
func Check(ctx context.Context, store *fdbpq.Store) (problems []string, err error) {
	for _, check := range []func(context.Context) ([]string, error){
		store.Check, schedule.New(store).Check, link.New(store).Check, source.New(store).Check,
	} {
		found, err := check(ctx)
		if err != nil {
			return problems, err
		}
		problems = append(problems, found...)
	}
	return problems, nil
}
