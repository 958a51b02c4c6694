package cluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// Members fetch checkpoints from each other when the log no longer has the entries that they lack. A request asks
// for the list of a checkpoint's files, or for a part of a file.
type request struct {
	Checkpoint string `json:"checkpoint,omitempty"`
	File       string `json:"file,omitempty"`
	Offset     int64  `json:"offset,omitempty"`
	Size       int    `json:"size,omitempty"`
}

// manifest answers a request for the list of files. A request for a part of a file is answered by the bytes behind
// their checksum.
type manifest struct {
	Checkpoint string                 `json:"checkpoint"` // "": ask again soon
	Generation uint64                 `json:"generation"` // of the log
	Entry      uint64                 `json:"entry"`      // of the log; the checkpoint has at least this entry
	Files      []local.CheckpointFile `json:"files"`
}

// keepCheckpoint is how long a checkpoint stays after the last request for it.
const keepCheckpoint = 10 * time.Minute

// archive is the checkpoint that this member offers. It makes one when it is asked.
type archive struct {
	mu     sync.Mutex
	making bool
	id     string     // "": there is none
	at     chain.Head // where this member was before it made the checkpoint
	copy   *local.Checkpoint
	asked  time.Time
}

// checkpoints give a member's copy to others, and fetch one for it.
type checkpoints struct{ *DB }

// answer answers a request of another member; nil means that it cannot.
func (cs checkpoints) answer(message []byte) []byte {
	var r request
	if json.Unmarshal(message, &r) != nil {
		return nil
	}
	if r.File == "" {
		return cs.offer()
	}
	a := &cs.archive
	a.mu.Lock()
	offered, id := a.copy, a.id
	a.asked = time.Now()
	a.mu.Unlock()
	if id == "" || id != r.Checkpoint || r.Size <= 0 || r.Size > cs.members.MaxMessage()-chain.SealSize {
		return nil
	}
	part := make([]byte, r.Size)
	if err := offered.ReadAt(r.File, part, r.Offset); err != nil {
		cs.slog.Warn("kv/cluster: reading a checkpoint failed", "file", r.File, "err", err)
		return nil
	}
	return chain.Seal(part)
}

// offer returns the list of a checkpoint from which the log goes on, and begins to make
// one if there is none.
func (cs checkpoints) offer() []byte {
	first, generation := cs.status.logFirst(), cs.status.position().Generation
	a := &cs.archive
	a.mu.Lock()
	defer a.mu.Unlock()
	var m manifest
	switch {
	case a.making:
	case a.current(generation, first):
		a.asked = time.Now()
		m = manifest{Checkpoint: a.id, Generation: generation, Entry: a.at.Entry, Files: a.copy.Files()}
	default:
		a.making, a.id = true, ""
		cs.done.Go(cs.make)
	}
	message, err := json.Marshal(m)
	if err != nil {
		return nil
	}
	return message
}

// current reports whether a log of a generation, which begins with entry first, goes on from
// the checkpoint. The caller holds mu.
func (a *archive) current(generation, first uint64) bool {
	return a.id != "" && a.at.Generation == generation && a.at.Entry+1 >= first
}

func (cs checkpoints) make() {
	at := cs.status.position()
	made, err := cs.copy().Checkpoint()
	var id chain.ID
	if err == nil {
		_, err = rand.Read(id[:])
	}
	a := &cs.archive
	a.mu.Lock()
	defer a.mu.Unlock()
	a.making = false
	if err != nil {
		cs.slog.Warn("kv/cluster: making a checkpoint for another member failed", "err", err)
		return
	}
	a.id, a.at, a.copy, a.asked = hex.EncodeToString(id[:]), at, made, time.Now()
}

func (a *archive) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.id = ""
}

// drop removes the checkpoint once requests for it have stopped.
func (cs checkpoints) drop() {
	a := &cs.archive
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.id == "" || time.Since(a.asked) < keepCheckpoint {
		return
	}
	a.id = ""
	if err := a.copy.Remove(); err != nil {
		cs.slog.Warn("kv/cluster: removing an old checkpoint failed", "err", err)
	}
}

// fetch puts a checkpoint of another member in the place of the copy. The checkpoint is of a given generation of
// the log, which begins with from if that is known. After a failure the files that have arrived stay, and the next
// call goes on with them.
func (cs checkpoints) fetch(ctx context.Context, generation uint64, from chain.Base) error {
	cs.status.set(peers.Follower, "the log no longer has what this copy lacks: fetching a checkpoint from another member")
	in, err := local.Receive(cs.dir, cs.options.Replica)
	if err != nil {
		return err
	}
	all, _ := cs.peers.Heard()
	failures := fmt.Errorf("%w, and no other member that runs has generation %d of it", chain.ErrBehind, generation)
	for _, p := range all {
		if !p.Runs(peers.LivingFor, time.Now()) || p.Objection != "" || !cs.serves(p.Heartbeat, generation) {
			continue
		}
		err := cs.fetchFrom(ctx, in, p.Member, generation)
		if err == nil {
			return cs.adopt(in, generation, from)
		}
		failures = errors.Join(failures, fmt.Errorf("from member %s: %w", p.Member, err))
	}
	cs.slog.Warn("kv/cluster: fetching a checkpoint failed", "err", failures)
	return failures
}

// source is the member and the checkpoint to fetch from.
type source struct {
	Member     string
	Checkpoint string
}

// serves reports whether a member has a checkpoint of a generation that is of use here.
func (cs checkpoints) serves(p peers.Heartbeat, generation uint64) bool {
	h := cs.status.position()
	if store := cs.tail.store(); store != "" && p.Store != store {
		return false
	}
	return p.Generation == generation && p.Entry > 0 && (h.Generation != generation || p.Entry > h.Entry)
}

func (cs checkpoints) fetchFrom(ctx context.Context, in *local.Incoming, member string, generation uint64) error {
	var m manifest
	for m.Checkpoint == "" {
		reply, err := cs.ask(ctx, member, request{})
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
	if m.Generation != 0 && m.Generation != generation || m.Entry+1 < cs.status.logFirst() { // 0: from a version that knows one generation
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
	for _, f := range m.Files {
		if err := cs.fetchFile(ctx, in, member, m.Checkpoint, f); err != nil {
			return err
		}
	}
	return nil
}

// fetchFile fetches a file, unless it is here. A file that was cut off begins anew.
func (cs checkpoints) fetchFile(ctx context.Context, in *local.Incoming, member, checkpoint string, f local.CheckpointFile) error {
	if there, err := in.Has(f.Name); there || err != nil {
		return err
	}
	var offset int64
	return in.Put(f.Name, func() ([]byte, error) {
		size := min(int64(cs.members.MaxMessage()-chain.SealSize), f.Size-offset)
		if size <= 0 {
			return nil, nil
		}
		reply, err := cs.ask(ctx, member, request{Checkpoint: checkpoint, File: f.Name, Offset: offset, Size: int(size)})
		if err != nil {
			return nil, err
		}
		part := chain.Unseal(reply)
		if int64(len(part)) != size {
			return nil, fmt.Errorf("%s: %w", f.Name, chain.ErrDamaged)
		}
		offset += size
		return part, nil
	})
}

func (cs checkpoints) ask(ctx context.Context, member string, r request) (reply []byte, err error) {
	message, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	err = attempt(ctx, func(ctx context.Context) error {
		reply, err = cs.members.Ask(ctx, member, message)
		return err
	})
	if err == nil && len(reply) == 0 {
		err = errors.New("it does not have that checkpoint any more")
	}
	return reply, err
}

// adopt opens the copy that was fetched. If the old copy may have entries that the new generation lacks, it stays
// beside the new one: no other place has them.
func (cs checkpoints) adopt(in *local.Incoming, generation uint64, from chain.Base) error {
	if err := cs.copy().Close(); err != nil {
		return err
	}
	h := cs.status.position()
	behind := h.Generation == from.Generation && h.Entry < from.Entry
	var err error
	if h.Entry > 0 && h.Generation != generation && !behind {
		var aside string
		if aside, err = local.SetAside(cs.dir, fmt.Sprintf(".generation-%d", h.Generation), cs.options.Replica); err == nil {
			cs.slog.Warn("kv/cluster: kept the old copy of this member: it may have items that the store lost; pqd salvage exports them", "generation", h.Generation, "entry", h.Entry, "dir", aside)
		}
	}
	if err == nil {
		err = in.Complete()
	}
	if err == nil {
		err = cs.open()
	}
	if err != nil {
		// The member cannot go on without a copy.
		return fmt.Errorf("%w: %w", errStop, err)
	}
	return nil
}
