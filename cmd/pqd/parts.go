package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// parts are the parts of pqd that run, in the order in which they started.
type parts []part

type part struct {
	stopping string // what failed if stop fails
	stop     func() error
}

func (p *parts) add(stopping string, stop func() error) {
	*p = append(*p, part{stopping, stop})
}

// inBackground adds a part that runs until its context ends.
func (p *parts) inBackground(ctx context.Context, run func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	p.add("stop a background task", func() error {
		cancel()
		running.Wait()
		return nil
	})
}

// stop stops all parts in reverse order and returns what failed.
func (p *parts) stop() (err error) {
	for _, part := range slices.Backward(*p) {
		if failure := part.stop(); failure != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", part.stopping, failure))
		}
	}
	return err
}
