package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
)

// A log that has lost entries is ended, and a new generation of the log begins with the copy of one member. Its
// entries are numbered from 1 again; epochs go on.

// errEnded: no entry follows in this generation of the log.
var errEnded = errors.New("this generation of the log has ended")

// outdated reports whether the log may have a newer generation than the copy: after an
// error of advance, or because another member follows one.
func (d *DB) outdated(err error) bool {
	h := d.tail.head
	if errors.Is(err, errEnded) {
		d.status.settle()
	}
	if d.tail.outdated || errors.Is(err, errEnded) || errors.Is(err, ErrNoLog) || errors.Is(err, chain.ErrBehind) || errors.Is(err, errStop) {
		return true
	}
	return d.peers.Generation(d.tail.store()) > max(h.Generation, chain.FirstGeneration)
}

// newest is the newest generation that has a log.
func (d *DB) newest(ctx context.Context) (generation uint64, err error) {
	err = attempt(ctx, func(ctx context.Context) error {
		generation, err = d.logs.Newest(ctx)
		return err
	})
	return generation, err
}

// renew goes over to the newest generation of the log. It returns false if the copy follows that generation
// already.
func (d *DB) renew(ctx context.Context) (newer bool, err error) {
	generation, err := d.newest(ctx)
	if err != nil || generation <= max(d.tail.head.Generation, chain.FirstGeneration) {
		return false, err
	}
	log := d.logs.Generation(generation)
	var state LogState
	err = attempt(ctx, func(ctx context.Context) (err error) {
		state, err = log.State(ctx)
		return err
	})
	switch {
	case err != nil:
		return true, err
	case state.Ended:
		return true, fmt.Errorf("%w, and no newer one has begun: %s", errEnded, chain.Advice)
	}
	at := d.status.position() // parts of a transaction whose end is missing do not count
	entry, err := readEntry(ctx, log, 1)
	var b chain.Base
	switch {
	case err == nil:
		at, b, err = at.Begin(entry, generation)
	case errors.Is(err, ErrNoEntry) && state.First > 1:
		err = chain.ErrBehind // the record was purged
	case errors.Is(err, ErrNoEntry):
		return true, fmt.Errorf("generation %d of the log has no record yet: a recovery is under way, or was interrupted: run \"pqd recover\" again", generation)
	}
	switch {
	case errors.Is(err, chain.ErrBehind):
		d.status.observe(state)
		return true, checkpoints{d}.fetch(ctx, generation, b)
	case err != nil:
		return true, fmt.Errorf("generation %d of the log, entry 1: %w", generation, err)
	}
	if err := d.copy().Apply(nil, at.Encode()); err != nil {
		return true, err
	}
	d.enter(at)
	d.slog.Warn("kv/cluster: a new generation of the log continues this copy", "generation", generation, "entry", b.Entry)
	return true, nil
}

// awaitMend waits until this member, which has stopped, has gone over to a newer generation of the log, or has read
// a good version of the entry at which it stopped.
func (d *DB) awaitMend(ctx context.Context, stopped error) error {
	for told := ""; ; {
		if err := pause(ctx, renewEvery); err != nil {
			return err
		}
		if errors.Is(stopped, errEntry) {
			if entries, err := d.advance(ctx); entries > 0 || errors.Is(err, errEnded) {
				return nil
			}
		}
		newer, err := d.renew(ctx)
		switch {
		case newer && err == nil:
			return nil
		case newer && err.Error() != told:
			told = err.Error()
			d.slog.Warn("kv/cluster: changing to a newer generation of the log failed", "err", err)
		}
	}
}

// renewEvery is the time between looks for a newer generation.
const renewEvery = time.Second
