package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
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
		err := f.fetchFrom(ctx, in, p.Member, generation)
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

func (f fetcher) fetchFrom(ctx context.Context, in *local.Incoming, member string, generation uint64) error {
	var m manifest
	for m.Checkpoint == "" {
		reply, err := f.ask(ctx, member, request{})
		if err != nil {
			return err
		}
		if err := json.Unmarshal(reply, &m); err != nil {
			return err
		}
		if m.Checkpoint == "" && pause(ctx, pollEvery) != nil {
			return ctx.Err()
		}
	}
	if m.Generation != 0 && m.Generation != generation || m.Entry+1 < f.self.now().log.First { // 0: from a version that knows one generation
		return chain.ErrBehind
	}
	// The files here may come from the member that was asked before: files of two checkpoints have the same names.
	label, err := in.Label()
	if err != nil {
		return err
	}
	var begun source
	if label != nil && json.Unmarshal(label, &begun) != nil {
		begun = source{} // the label was cut off
	}
	if begun != (source{Member: member, Checkpoint: m.Checkpoint}) {
		label, err := json.Marshal(source{Member: member, Checkpoint: m.Checkpoint})
		if err != nil {
			return err
		}
		if err := in.Restart(label); err != nil {
			return err
		}
	}
	for _, file := range m.Files {
		if err := f.fetchFile(ctx, in, member, m.Checkpoint, file); err != nil {
			return err
		}
	}
	return nil
}

// fetchFile fetches a file, unless it is here. A file that was cut off begins anew.
func (f fetcher) fetchFile(ctx context.Context, in *local.Incoming, member, checkpoint string, file local.CheckpointFile) error {
	if there, err := in.Has(file.Name); there || err != nil {
		return err
	}
	var offset int64
	return in.Put(file.Name, func() ([]byte, error) {
		size := min(int64(f.members.MaxMessage()-chain.SealSize), file.Size-offset)
		if size <= 0 {
			return nil, nil
		}
		reply, err := f.ask(ctx, member, request{Checkpoint: checkpoint, File: file.Name, Offset: offset, Size: int(size)})
		if err != nil {
			return nil, err
		}
		part := chain.Unseal(reply)
		if int64(len(part)) != size {
			return nil, fmt.Errorf("%s: %w", file.Name, chain.ErrDamaged)
		}
		offset += size
		return part, nil
	})
}

func (f fetcher) ask(ctx context.Context, member string, r request) (reply []byte, err error) {
	message, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	err = attempt(ctx, func(ctx context.Context) error {
		reply, err = f.members.Ask(ctx, member, message)
		return err
	})
	if err == nil && len(reply) == 0 {
		err = errors.New("it does not have that checkpoint any more")
	}
	return reply, err
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
