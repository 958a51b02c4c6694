package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
)

const (
	truncateEvery = 2 * time.Second
	completeEvery = 10 * time.Second
)

// logRoom keeps room in the log.
type logRoom struct{ *member }

// run removes entries that the log need not keep, while this member is active and until ctx ends.
func (r logRoom) run(ctx context.Context) {
	var completed time.Time
	for pause(ctx, truncateEvery) == nil {
		if r.self.now().role != peers.Active {
			continue
		}
		if time.Since(completed) > completeEvery {
			completed = time.Now()
			if err := attempt(ctx, r.log().Complete); err != nil && ctx.Err() == nil {
				r.slog.Info("kv/cluster: replicas of the log are missing", "err", err)
			}
		}
		var state LogState
		err := attempt(ctx, func(ctx context.Context) (err error) {
			state, err = r.log().State(ctx)
			return err
		})
		if errors.Is(err, ErrNoLog) || err == nil && (state.Ended || state.Last != r.self.now().read) {
			r.probe(ctx)
			continue
		}
		if err != nil {
			if ctx.Err() == nil {
				r.slog.Warn("kv/cluster: reading the state of the log failed", "err", err)
			}
			continue
		}
		r.self.observe(state)
		r.purge(ctx, state)
	}
}

// purge removes entries that the log need not keep.
func (r logRoom) purge(ctx context.Context, state LogState) {
	all, _ := r.peers.Heard()
	first := expendable(state, r.self.now().heartbeat(time.Now()), all, len(r.options.Members), time.Now())
	if first <= state.First {
		return
	}
	err := attempt(ctx, func(ctx context.Context) error { return r.log().Purge(ctx, first) })
	if err != nil && ctx.Err() == nil {
		r.slog.Warn("kv/cluster: purging the log failed", "err", err)
	}
}

// makeRoom purges a log that has no room for the entry with which a candidate becomes
// active. The active member, which would purge it, has ended.
func (r logRoom) makeRoom(ctx context.Context) {
	state, err := r.log().State(ctx)
	if err != nil {
		return // the candidate tries again
	}
	r.purge(ctx, state)
}

// probe makes the active member append to a log that seems to have lost entries, or to have entries of another
// member: the append finds out. Without it a member that has nothing to write would stay active.
func (r logRoom) probe(ctx context.Context) {
	term := r.self.current()
	if term == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, truncateEvery)
	defer cancel()
	_ = term.View(ctx, func(reader kv.Reader) error { // only the result of the append counts
		_, err := reader.Get([]byte{0})
		return err
	})
}
