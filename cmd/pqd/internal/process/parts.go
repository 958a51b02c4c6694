package process

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Parts are the parts of pqd that run, in the order in which they started.
type Parts []part

type part struct {
	stopping string // what failed if stop fails
	stop     func() error
}

// Add adds a part that has started. stopping says what failed if stop fails.
func (p *Parts) Add(stopping string, stop func() error) {
	*p = append(*p, part{stopping, stop})
}

// InBackground adds a part that runs until its context ends.
func (p *Parts) InBackground(ctx context.Context, run func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	p.Add("stop a background task", func() error {
		cancel()
		running.Wait()
		return nil
	})
}

// Stop stops all parts in reverse order and returns what failed.
func (p *Parts) Stop() (err error) {
	for _, part := range slices.Backward(*p) {
		if failure := part.stop(); failure != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", part.stopping, failure))
		}
	}
	return err
}
