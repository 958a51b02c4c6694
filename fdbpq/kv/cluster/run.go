package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/takeover"
)

// pollEvery is how often a member reads the log without a hint that it has grown.
const pollEvery = 300 * time.Millisecond

// run follows the log, and is active when it can be, until ctx ends.
func (d *DB) run(ctx context.Context) {
	t := takeover.NewAttempts(d.options.unconfirmed())
	for ctx.Err() == nil {
		term, err := d.follow(ctx, t)
		if term != nil {
			t.Reset()
			err = d.lead(ctx, term)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
		case errors.Is(err, errLost):
			t.Failed(lookout{d}.bereft(), time.Now())
		case errors.Is(err, errStop):
			d.slog.Error("kv/cluster: this member serves nothing until an operator intervenes", "err", err)
			d.status.stop(err)
			if d.awaitMend(ctx, err) != nil {
				return
			}
			t.Reset()
			d.status.set(peers.Follower, "")
		default:
			reason := err.Error()
			if doubts, missing := d.doubts(); missing != "" {
				reason = doubts + "; the log: " + reason
			}
			d.status.set(peers.Follower, reason)
		}
	}
}

// follow follows the log until this member has to act: it returns a term when this member is active, errLost when
// its candidacy failed, and other errors when the log cannot be followed.
func (d *DB) follow(ctx context.Context, t *takeover.Attempts) (*Term, error) {
	entries, err := d.advance(ctx)
	if d.outdated(err) {
		newer, failure := d.renew(ctx)
		switch {
		case newer && failure == nil:
			t.Reset()
			d.status.set(peers.Follower, "")
			return nil, nil
		case errors.Is(err, errStop):
			return nil, err
		case newer || failure != nil:
			_ = pause(ctx, pollEvery) // the caller looks at ctx
			return nil, failure
		case errors.Is(err, errEnded):
			_ = pause(ctx, renewEvery)
			return nil, fmt.Errorf("%w: a recovery is under way, or was interrupted: %s", err, chain.Advice)
		}
	}
	switch {
	case errors.Is(err, ErrNoLog):
		err = d.found(ctx)
	case errors.Is(err, chain.ErrBehind):
		err = checkpoints{d}.fetch(ctx, max(d.tail.head.Generation, chain.FirstGeneration), chain.Base{})
	case err == nil && d.tail.head.Entry == 0:
		err = d.found(ctx)
	}
	if err != nil {
		if !errors.Is(err, errStop) {
			_ = pause(ctx, pollEvery) // the caller looks at ctx
		}
		return nil, err
	}
	if entries > 0 {
		t.Reset()
		d.tail.misses = 0
		d.status.set(peers.Follower, "")
	}
	if t.May(time.Now()) && (d.mayTakeOver() || lookout{d}.bereft() || t.Waited(d.status.silence())) {
		return candidate{d}.takeOver(ctx)
	}
	if entries > 0 {
		return nil, nil
	}
	wait := d.untilPoll()
	if !d.peers.ActiveLost(d.status.position()).IsZero() {
		wait = min(wait, takeover.RankPause/3) // its turn may come
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-d.wake:
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil, nil
}

// mayTakeOver reports whether this member need not wait for a sign of life: it is the only member, or has made the
// log, or the active member has stepped down in its favour.
func (d *DB) mayTakeOver() bool {
	return len(d.options.Members) == 1 || takeover.Invited(d.tail.head, d.process, d.tail.successor, d.options.Name)
}

// found makes the log of a new store, if this member may. A member without a copy must not make an empty store in
// the place of a store that others have.
func (d *DB) found(ctx context.Context) error {
	if d.tail.head.Entry > 0 {
		d.status.set(peers.Follower, "the log is gone, and this member has a copy of it: "+chain.Advice)
		return ErrNoLog
	}
	if !d.options.Init && !d.allEmpty() {
		return fmt.Errorf("%w: it is made once all members say that they have no copy, or by pqd init", ErrNoLog)
	}
	if err := attempt(ctx, d.log().Create); err != nil {
		return err
	}
	if err := d.compare(ctx); err != nil {
		return err
	}
	var store chain.ID
	if _, err := rand.Read(store[:]); err != nil {
		return err
	}
	genesis := chain.Record{Store: store, Generation: chain.FirstGeneration, Process: d.process, Kind: chain.Genesis}.Encode()
	err := put(ctx, d.log(), 0, genesis, d.tail.head.Identity)
	if errors.Is(err, errForeign) {
		return nil
	}
	return err
}

// allEmpty reports whether all declared members say that they have no copy.
func (d *DB) allEmpty() bool {
	all, _ := d.peers.Heard()
	empty := map[string]bool{d.options.Name: true}
	for _, p := range all {
		empty[p.Member] = p.Entry == 0 && p.Runs(peers.LivingFor, time.Now())
	}
	for _, name := range d.options.Members {
		if !empty[name] {
			return false
		}
	}
	return len(d.options.Members) > 0
}
