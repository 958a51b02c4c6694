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

// pauseQueue stops deliveries until all items are in their places.
func (r *importRun) pauseQueue() error {
	if r.live {
		return nil
	}
	ctx := r.session.ctx
	info, err := r.queue.Info(ctx)
	if errors.Is(err, client.ErrNotFound) {
		r.created = true
		info, err = &client.Info{}, r.configure(r.trailer)
	}
	if err == nil && info.Paused {
		r.pausedBefore = true
		return nil
	}
	if err == nil {
		err = r.queue.Pause(ctx)
	}
	if err != nil {
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
