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

// renewal goes over to newer generations of the log.
type renewal struct{ *tail }

// mayBeOutdated reports whether the log may have a newer generation than the copy: after an
// error of advance, or because another member follows one.
func (r renewal) mayBeOutdated(err error) bool {
	h := r.head
	if errors.Is(err, errEnded) {
		r.self.settle()
	}
	if r.outdated || errors.Is(err, errEnded) || errors.Is(err, ErrNoLog) || errors.Is(err, chain.ErrBehind) || errors.Is(err, errStop) {
		return true
	}
	return r.peers.Generation(r.store()) > max(h.Generation, chain.FirstGeneration)
}

// renew goes over to the newest generation of the log. It returns false if the copy follows that generation
// already.
func (r renewal) renew(ctx context.Context) (newer bool, err error) {
	generation, err := r.newest(ctx)
	if err != nil || generation <= max(r.head.Generation, chain.FirstGeneration) {
		return false, err
	}
	log := r.logs.Generation(generation)
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
	at := r.self.now().head // parts of a transaction whose end is missing do not count
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
		r.self.observe(state)
		return true, fetcher{r.tail}.fetch(ctx, generation, b)
	case err != nil:
		return true, fmt.Errorf("generation %d of the log, entry 1: %w", generation, err)
	}
	if err := r.copy().Apply(nil, at.Encode()); err != nil {
		return true, err
	}
	r.enter(at)
	r.slog.Warn("kv/cluster: a new generation of the log continues this copy", "generation", generation, "entry", b.Entry)
	return true, nil
}

// awaitMend waits until this member, which has stopped, has gone over to a newer generation of the log, or has read
// a good version of the entry at which it stopped.
func (r renewal) awaitMend(ctx context.Context, stopped error) error {
	for told := ""; ; {
		if err := pause(ctx, renewEvery); err != nil {
			return err
		}
		if errors.Is(stopped, errEntry) {
			if entries, err := r.advance(ctx); entries > 0 || errors.Is(err, errEnded) {
				return nil
			}
		}
		newer, err := r.renew(ctx)
		switch {
		case newer && err == nil:
			return nil
		case newer && err.Error() != told:
			told = err.Error()
			r.slog.Warn("kv/cluster: changing to a newer generation of the log failed", "err", err)
		}
	}
}

// renewEvery is the time between looks for a newer generation.
const renewEvery = time.Second
