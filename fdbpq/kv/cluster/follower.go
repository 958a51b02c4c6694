package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/takeover"
)

// follower follows the log, and leads it in its terms.
type follower struct{ *tail }

// run follows the log, and is active when it can be, until ctx ends.
func (f follower) run(ctx context.Context) {
	t := takeover.NewAttempts(f.options.unconfirmed())
	for ctx.Err() == nil {
		term, err := f.follow(ctx, t)
		if term != nil {
			t.Reset()
			err = leader{f.tail}.lead(ctx, term)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
		case errors.Is(err, errLost):
			t.Failed(lookout{f.member}.bereft(), time.Now())
		case errors.Is(err, errStop):
			f.slog.Error("kv/cluster: this member serves nothing until an operator intervenes", "err", err)
			f.self.stop(err)
			if (renewal{f.tail}).awaitMend(ctx, err) != nil {
				return
			}
			t.Reset()
			f.self.set(peers.Follower, "")
		default:
			reason := err.Error()
			if doubts, missing := (claimKeeper{f.member}).doubts(); missing != "" {
				reason = doubts + "; the log: " + reason
			}
			f.self.set(peers.Follower, reason)
		}
	}
}

// follow follows the log until this member has to act: it returns a term when this member is active, errLost when
// its candidacy failed, and other errors when the log cannot be followed.
func (f follower) follow(ctx context.Context, t *takeover.Attempts) (*Term, error) {
	entries, err := f.advance(ctx)
	if (renewal{f.tail}).mayBeOutdated(err) {
		newer, failure := renewal{f.tail}.renew(ctx)
		switch {
		case newer && failure == nil:
			t.Reset()
			f.self.set(peers.Follower, "")
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
		err = founder{f.tail}.found(ctx)
	case errors.Is(err, chain.ErrBehind):
		err = fetcher{f.tail}.fetch(ctx, max(f.head.Generation, chain.FirstGeneration), chain.Base{})
	case err == nil && f.head.Entry == 0:
		err = founder{f.tail}.found(ctx)
	}
	if err != nil {
		if !errors.Is(err, errStop) {
			_ = pause(ctx, pollEvery) // the caller looks at ctx
		}
		return nil, err
	}
	if entries > 0 {
		t.Reset()
		f.misses = 0
		f.self.set(peers.Follower, "")
	}
	if t.May(time.Now()) && (f.mayTakeOver() || (lookout{f.member}).bereft() || t.Waited(f.self.now().silence(time.Now()))) {
		return candidate{f.tail}.takeOver(ctx)
	}
	if entries > 0 {
		return nil, nil
	}
	wait := f.untilPoll()
	if !f.peers.ActiveLost(f.self.now().head).IsZero() {
		wait = min(wait, takeover.RankPause/3) // its turn may come
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-f.wake:
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil, nil
}

// mayTakeOver reports whether this member need not wait for a sign of life: it is the only member, or has made the
// log, or the active member has stepped down in its favour.
func (f follower) mayTakeOver() bool {
	return len(f.options.Members) == 1 || takeover.Invited(f.head, f.process, f.successor, f.options.Name)
}
