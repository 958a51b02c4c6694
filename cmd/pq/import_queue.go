package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/named"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
)

// openQueue makes the queue if it does not exist, and stops deliveries until all items are
// in their places. What the end of a pipe says of a new queue, finish sets.
func (r *importRun) openQueue() error {
	ctx := r.session.Context
	info, err := r.queue.Info(ctx)
	switch {
	case err == nil:
		r.before, r.pausedBefore = &info.Config, info.Paused && !r.live
	case !errors.Is(err, client.ErrNotFound):
		return err
	default:
		r.created = true
		if err := r.configure(r.trailer); err != nil {
			return err
		}
	}
	if r.live || r.pausedBefore {
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
func (r *importRun) configure(from *trailer) error {
	var change client.ConfigChange
	if from != nil && from.Config != nil {
		change = *from.Config
	}
	if _, err := r.queue.Configure(r.session.Context, change); err != nil || from == nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(from.Keys)) {
		if _, err := r.queue.SetKey(r.session.Context, key, client.KeyChange{KeySettings: from.Keys[key]}); err != nil {
			return fmt.Errorf("settings of the key %q: %w", key, err)
		}
		r.keysSet++
	}
	return nil
}

// define makes the schedules, sources and links of the export, behind the items: those are there, whatever is refused here.
func (r *importRun) define() error {
	t := r.sum.trailer
	if t == nil || r.asNew || r.placed == 0 && r.sum.items > 0 || len(t.Schedules)+len(t.Sources)+len(t.Links) == 0 {
		return nil
	}
	made, err := named.Make(r.session.Context, r.queue, &t.Definitions, r.created, r.runs)
	r.made = &made
	return err
}

// kept are the fields in which the configuration of a queue that was there differs from the
// one in the export, of those that the export has.
func (r *importRun) kept() (names []string, err error) {
	t := r.sum.trailer
	if r.before == nil || t == nil || t.Config == nil {
		return nil, nil
	}
	text, err := json.Marshal(t.Config)
	if err != nil {
		return nil, err
	}
	exported := *r.before
	if err := json.Unmarshal(text, &exported); err != nil {
		return nil, err
	}
	changed := configFields(exported)
	for i, field := range configFields(*r.before) {
		if field != changed[i] {
			names = append(names, field.name)
		}
	}
	return names, nil
}

// resumes is the command that resumes the queue.
func (r *importRun) resumes() string { return show.Command("resume", []string{r.queue.Name()}) }

// stopped ends an import that failed. The queue stays paused if it may have some of the items, also where
// the first one was refused: later ones were on their way.
func (r *importRun) stopped(err error) error {
	switch {
	case r.paused && !r.pipe.came:
		return errors.Join(err, r.queue.Resume(context.WithoutCancel(r.session.Context)))
	case r.paused || r.pausedBefore:
		r.session.Unfinished = fmt.Sprintf(`The queue %s is paused: run the import again with --resume, or resume it with "%s".`, r.queue.Name(), r.resumes())
	}
	return err
}
