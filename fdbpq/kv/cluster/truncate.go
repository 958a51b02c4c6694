package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
)

const (
	syncEvery     = time.Second
	truncateEvery = 2 * time.Second
	completeEvery = 10 * time.Second
)

// upkeep keeps the log short and the copy on the disk.
type upkeep struct{ *DB }

// syncReplica makes the copy durable from time to time, until ctx ends. The log may drop entries that the disks of
// members have.
func (u upkeep) syncReplica(ctx context.Context) {
	for pause(ctx, syncEvery) == nil {
		checkpoints{u.DB}.drop()
		u.saveMark()
		at := u.status.position()
		if at.Entry == u.status.heartbeat().Synced {
			continue
		}
		if err := u.copy().Sync(); err != nil {
			u.slog.Error("kv/cluster: syncing the copy failed", "err", err)
			continue
		}
		u.status.flushed(at.Generation, at.Entry)
	}
}

// truncate removes entries that the log need not keep, while this member is active and until ctx ends.
func (u upkeep) truncate(ctx context.Context) {
	var completed time.Time
	for pause(ctx, truncateEvery) == nil {
		if role, _ := u.status.peek(); role != peers.Active {
			continue
		}
		if time.Since(completed) > completeEvery {
			completed = time.Now()
			if err := attempt(ctx, u.log().Complete); err != nil && ctx.Err() == nil {
				u.slog.Info("kv/cluster: replicas of the log are missing", "err", err)
			}
		}
		var state LogState
		err := attempt(ctx, func(ctx context.Context) (err error) {
			state, err = u.log().State(ctx)
			return err
		})
		if errors.Is(err, ErrNoLog) || err == nil && (state.Ended || state.Last != u.status.lastRead()) {
			u.probe(ctx)
			continue
		}
		if err != nil {
			if ctx.Err() == nil {
				u.slog.Warn("kv/cluster: reading the state of the log failed", "err", err)
			}
			continue
		}
		u.status.observe(state)
		u.purge(ctx, state)
	}
}

// purge removes entries that the log need not keep.
func (u upkeep) purge(ctx context.Context, state LogState) {
	all, _ := u.peers.Heard()
	first := expendable(state, u.status.heartbeat(), all, len(u.options.Members), time.Now())
	if first <= state.First {
		return
	}
	err := attempt(ctx, func(ctx context.Context) error { return u.log().Purge(ctx, first) })
	if err != nil && ctx.Err() == nil {
		u.slog.Warn("kv/cluster: purging the log failed", "err", err)
	}
}

// makeRoom purges a log that has no room for the entry with which a candidate becomes
// active. The active member, which would purge it, has ended.
func (u upkeep) makeRoom(ctx context.Context) {
	state, err := u.log().State(ctx)
	if err != nil {
		return // the candidate tries again
	}
	u.purge(ctx, state)
}

// probe makes the active member append to a log that seems to have lost entries, or to have entries of another
// member: the append finds out. Without it a member that has nothing to write would stay active.
func (u upkeep) probe(ctx context.Context) {
	term := u.status.current()
	if term == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, truncateEvery)
	defer cancel()
	_ = term.View(ctx, func(r kv.Reader) error { // only the result of the append counts
		_, err := r.Get([]byte{0})
		return err
	})
}
