package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/checkpoint"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// fetcher fetches a checkpoint of another member for this one.
type fetcher struct{ *tail }

// fetch puts a checkpoint of another member in the place of the copy. The checkpoint is of a given generation of
// the log, which begins with from if that is known. After a failure the files that have arrived stay, and the next
// call goes on with them.
func (f fetcher) fetch(ctx context.Context, generation uint64, from chain.Base) error {
	f.self.set(peers.Follower, "the log no longer has what this copy lacks: fetching a checkpoint from another member")
	in, err := local.Receive(f.dir, f.options.Replica)
	if err != nil {
		return err
	}
	all, _ := f.peers.Heard()
	failures := fmt.Errorf("%w, and no other member that runs has generation %d of it", chain.ErrBehind, generation)
	for _, p := range all {
		if !p.Runs(peers.LivingFor, time.Now()) || p.Objection != "" || !f.serves(p.Heartbeat, generation) {
			continue
		}
		err := f.from(p.Member).Fetch(ctx, in, generation, f.self.now().log.First)
		if err == nil {
			return f.adopt(in, generation, from)
		}
		failures = errors.Join(failures, fmt.Errorf("from member %s: %w", p.Member, err))
	}
	f.slog.Warn("kv/cluster: fetching a checkpoint failed", "err", failures)
	return failures
}

// serves reports whether a member has a checkpoint of a generation that is of use here.
func (f fetcher) serves(p peers.Heartbeat, generation uint64) bool {
	h := f.self.now().head
	if store := f.store(); store != "" && p.Store != store {
		return false
	}
	return p.Generation == generation && p.Entry > 0 && (h.Generation != generation || p.Entry > h.Entry)
}

// from is a member that is asked for its checkpoint.
func (f fetcher) from(name string) checkpoint.Source {
	ask := func(ctx context.Context, request []byte) (reply []byte, err error) {
		err = attempt(ctx, func(ctx context.Context) error {
			reply, err = f.members.Ask(ctx, name, request)
			return err
		})
		return reply, err
	}
	return checkpoint.Source{Member: name, Ask: ask, MaxReply: f.members.MaxMessage}
}

// adopt opens the copy that was fetched. If the old copy may have entries that the new generation lacks, it stays
// beside the new one: no other place has them.
func (f fetcher) adopt(in *local.Incoming, generation uint64, from chain.Base) error {
	if err := f.copy().Close(); err != nil {
		return err
	}
	h := f.self.now().head
	behind := h.Generation == from.Generation && h.Entry < from.Entry
	var err error
	if h.Entry > 0 && h.Generation != generation && !behind {
		var aside string
		if aside, err = local.SetAside(f.dir, fmt.Sprintf(".generation-%d", h.Generation), f.options.Replica); err == nil {
			f.slog.Warn("kv/cluster: kept the old copy of this member: it may have items that the store lost; pqd salvage exports them", "generation", h.Generation, "entry", h.Entry, "dir", aside)
		}
	}
	if err == nil {
		err = in.Complete()
	}
	if err == nil {
		err = f.open()
	}
	if err != nil {
		// The member cannot go on without a copy.
		return fmt.Errorf("%w: %w", errStop, err)
	}
	return nil
}
