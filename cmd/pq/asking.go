package main

import (
	"context"
	"errors"
	"sync"

	"github.com/pqbridge/pqbridge/client"
)

// asksAtOnce bounds how many requests are sent without an answer.
const asksAtOnce = 16

// allQueues asks about all queues. One that is deleted meanwhile is left out.
func allQueues(ctx context.Context, c *client.Client) ([]*client.Info, error) {
	var names []string
	for name, err := range c.Queues(ctx) {
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return infosOf(ctx, c, names)
}

// infosOf asks about queues. Those that do not exist are left out. After an error it asks
// no more.
func infosOf(ctx context.Context, c *client.Client, names []string) ([]*client.Info, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	infos := make([]*client.Info, len(names))
	turns := make(chan struct{}, asksAtOnce)
	var asking sync.WaitGroup
	for i, name := range names {
		turns <- struct{}{}
		asking.Go(func() {
			defer func() { <-turns }()
			if ctx.Err() != nil {
				return
			}
			info, err := c.Queue(name).Info(ctx)
			switch {
			case err == nil:
				infos[i] = info
			case !errors.Is(err, client.ErrNotFound):
				cancel(err)
			}
		})
	}
	asking.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	there := infos[:0]
	for _, info := range infos {
		if info != nil {
			there = append(there, info)
		}
	}
	return there, nil
}
