//go:build fdb && benchfdb

package performance_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// arrive has requests fall due at random, at the rate of the load. A request takes until
// its answer from when it was due: one that is late because those before it were slow
// counts as slow, too.
func (l *task) arrive(ops []func() error) (measure, error) {
	random := rand.New(rand.NewPCG(l.Seed, 1))
	started := time.Now()
	begin := started.Add(l.Warm)
	end := begin.Add(l.Time)
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		all  []time.Duration
		errs []error
	)
	for i, due := 0, started; due.Before(end); i++ {
		if wait := time.Until(due); wait > 0 {
			<-time.After(wait)
		}
		wg.Go(func() {
			err := ops[i%len(ops)]()
			took := time.Since(due)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				errs = append(errs, err)
			case !due.Before(begin):
				all = append(all, took)
			}
		})
		due = due.Add(time.Duration(random.ExpFloat64() * float64(time.Second) / l.Rate))
	}
	wg.Wait()
	if len(errs) > 0 {
		return measure{}, errors.Join(errs[:min(3, len(errs))]...)
	}
	return measureOf(all), nil
}
