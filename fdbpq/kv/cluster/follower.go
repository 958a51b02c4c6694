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

// looksInBeat is how often a member looks between two heartbeats.
const looksInBeat = 4

// lookout looks who is lost.
type lookout struct{ *member }

// watch looks until ctx ends.
func (l lookout) watch(ctx context.Context) {
	for every := l.options.beat() / looksInBeat; pause(ctx, every) == nil; {
		changed, lost := l.peers.Judge()
		if changed {
			l.announce()
		}
		for _, p := range lost {
			l.slog.Info("kv/cluster: a member is lost", "member", p.Member, "role", string(p.Role), "silent", time.Since(p.Heard).Round(time.Millisecond), "refuses", p.Refuses)
			signal(l.wake)
		}
	}
}

// turn says who is lost, and when it is the turn of this member to replace one.
func (l lookout) turn() takeover.Turn {
	all, _ := l.peers.Heard()
	role := l.self.now().role
	return takeover.TurnOf(l.options.Name, role, all, len(l.options.Members))
}

// bereft reports whether the active member is lost, and it is this member's turn to replace it.
func (l lookout) bereft() bool {
	t := l.turn()
	since := l.peers.ActiveLost(l.self.now().head)
	return !since.IsZero() && t.Comes(time.Since(since))
}

// successor is for [DB.Successor].
func (l lookout) successor(name string) (string, error) {
	all, _ := l.peers.Heard()
	if name = takeover.Successor(name, all, l.options.unconfirmed(), time.Now()); name == "" {
		return "", ErrNoSuccessor
	}
	return name, nil
}

// keepers is for [DB.Keepers].
func (l lookout) keepers() (names []string) {
	all, _ := l.peers.Heard()
	for _, p := range all {
		if p.Member != l.options.Name && p.Runs(l.options.unconfirmed(), time.Now()) && !p.Lost && p.HasLog(l.options.Members) {
			names = append(names, p.Member)
		}
	}
	return names
}

// founder makes the log of a new store.
type founder struct{ *tail }

// found makes the log of a new store, if this member may. A member without a copy must not make an empty store in
// the place of a store that others have.
func (f founder) found(ctx context.Context) error {
	if f.head.Entry > 0 {
		f.self.set(peers.Follower, "the log is gone, and this member has a copy of it: "+chain.Advice)
		return ErrNoLog
	}
	if !f.options.Init && !f.allEmpty() {
		return fmt.Errorf("%w: it is made once all members say that they have no copy, or by pqd init", ErrNoLog)
	}
	if err := attempt(ctx, f.log().Create); err != nil {
		return err
	}
	if err := f.compare(ctx); err != nil {
		return err
	}
	var store chain.ID
	if _, err := rand.Read(store[:]); err != nil {
		return err
	}
	genesis := chain.Record{Store: store, Generation: chain.FirstGeneration, Process: f.process, Kind: chain.Genesis}.Encode()
	err := put(ctx, f.log(), 0, genesis, f.head.Identity)
	if errors.Is(err, errForeign) {
		return nil
	}
	return err
}

// allEmpty reports whether all declared members say that they have no copy.
func (f founder) allEmpty() bool {
	all, _ := f.peers.Heard()
	empty := map[string]bool{f.options.Name: true}
	for _, p := range all {
		empty[p.Member] = p.Entry == 0 && p.Runs(peers.LivingFor, time.Now())
	}
	for _, name := range f.options.Members {
		if !empty[name] {
			return false
		}
	}
	return len(f.options.Members) > 0
}
