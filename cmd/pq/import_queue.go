package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/protocol"
)

// openQueue makes the queue if it does not exist, and stops deliveries until all items are
// in their places. What the end of a pipe says of a new queue, finish sets.
func (r *importRun) openQueue() error {
	ctx := r.session.ctx
	info, err := r.queue.Info(ctx)
	if errors.Is(err, client.ErrNotFound) {
		r.created = true
		info, err = &client.Info{}, nil
		if r.trailer != nil || !r.live {
			err = r.configure(r.trailer)
		}
	}
	if err != nil {
		return err
	}
	r.before = info.Config
	switch {
	case r.live:
		return nil
	case info.Paused:
		r.pausedBefore = true
		return nil
	}
	if err := r.queue.Pause(ctx); err != nil {
		return fmt.Errorf("pause the queue (--live imports without a pause): %w", err)
	}
	r.paused = true
	return nil
}

// configure creates the queue, with the configuration and the settings of keys of the
// export if these are known.
func (r *importRun) configure(from *protocol.ExportTrailer) error {
	var change client.ConfigChange
	if from != nil && from.Config != nil {
		text, err := json.Marshal(from.Config)
		if err == nil {
			err = json.Unmarshal(text, &change)
		}
		if err != nil {
			return err
		}
	}
	if _, err := r.queue.Configure(r.session.ctx, change); err != nil || from == nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(from.Keys)) {
		if _, err := r.queue.SetKey(r.session.ctx, key, client.KeyChange{KeySettings: from.Keys[key]}); err != nil {
			return fmt.Errorf("settings of the key %q: %w", key, err)
		}
		r.keysSet++
	}
	return nil
}

// kept are the fields in which the configuration of a queue that was there differs from the
// one in the export.
func (r *importRun) kept() []string {
	t := r.sum.trailer
	if r.created || r.asNew || t == nil || t.Config == nil {
		return nil
	}
	var names []string
	exported := configFields(*t.Config)
	for i, field := range configFields(r.before) {
		if field != exported[i] {
			names = append(names, field.name)
		}
	}
	return names
}

// stopped ends an import that failed. The queue stays paused if it has some of the
// items.
func (r *importRun) stopped(err error) error {
	switch {
	case r.paused && r.pipe.done == 0:
		return errors.Join(err, r.queue.Resume(context.WithoutCancel(r.session.ctx)))
	case r.paused || r.pausedBefore:
		r.session.unfinished = fmt.Sprintf(`The queue %s is paused: run the import again with --resume, or resume it with "pq resume %s".`, r.queue.Name(), r.queue.Name())
	}
	return err
}
