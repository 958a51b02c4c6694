package cluster

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/checkpoint"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/takeover"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

const (
	readAtOnce = 64 // entries

	// freshFor is how recently a member must have been at the end of the log for the next entry to count as new.
	freshFor = 2 * time.Second

	// pollEvery is how often a member reads the log without a hint that it has grown.
	pollEvery = 300 * time.Millisecond

	// missPause is how long a member waits after the first time that the log does not show an entry that another
	// member has: a server that lags will soon have it.
	missPause = 2 * time.Millisecond
)

// tail is the end of the log as far as this member has read it, and the copy of what it has read. It belongs to the
// goroutine that follows the log, and leads it.
type tail struct {
	*member
	archive *checkpoint.Archive

	head      chain.Head
	assembly  chain.Parts
	caughtUp  time.Time     // when the log had nothing new last
	compared  time.Time     // when the copy was compared with the state of the log
	outdated  bool          // there is a newer generation of the log
	successor string        // the member that the last record names, if that releases the epoch
	loss      takeover.Loss // seen by the last candidacy
	misses    int           // how often in a row the log did not show an entry that another member has
}

// open opens the copy, or the checkpoint that was fetched in its place.
func (t *tail) open() error {
	t.archive.Forget() // opening the copy removes it
	if err := local.Adopt(t.dir, t.options.Replica); err != nil {
		return err
	}
	replica, err := local.OpenReplica(t.dir, t.options.Replica)
	if err != nil {
		return err
	}
	var h chain.Head
	position, err := replica.Position()
	if err == nil {
		h, err = chain.DecodeHead(position)
	}
	if err == nil && position == nil {
		err = expectEmpty(replica)
	}
	if err != nil {
		return errors.Join(err, replica.Close())
	}
	t.replica.Store(replica)
	t.enter(h)
	return nil
}

// expectEmpty refuses a copy without a position that has rows: the others would not get
// them from the log.
func expectEmpty(replica *local.Replica) error {
	return replica.View(context.Background(), func(r kv.Reader) error {
		rows, err := r.Range(nil, bytes.Repeat([]byte{0xff}, kv.MaxKeySize), kv.RangeOptions{Limit: 1})
		if err == nil && len(rows) > 0 {
			err = errors.New("this is a store of one process, not a copy of a store that several keep: expected a copy, or an empty directory; export and import move items")
		}
		return err
	})
}

// enter goes on behind h, the position of the copy.
func (t *tail) enter(h chain.Head) {
	log := t.logs.Generation(max(h.Generation, chain.FirstGeneration))
	t.current.Store(&log)
	*t = tail{member: t.member, archive: t.archive, head: h}
	t.self.opened(h)
}

// store is the id of the store that the copy is of; "" while it is empty.
func (t *tail) store() string {
	if t.head.Entry == 0 {
		return ""
	}
	return hex.EncodeToString(t.head.Store[:])
}

// untilPoll is how long to wait before the log is read again without a hint.
func (t *tail) untilPoll() time.Duration {
	if t.peers.Furthest(t.head) <= t.head.Entry {
		t.misses = 0
		return pollEvery
	}
	t.misses++
	return min(missPause<<min(t.misses-1, 10), pollEvery)
}

// advance reads the log to its end and commits the entries to the copy. It returns how many there were.
func (t *tail) advance(ctx context.Context) (entries int, err error) {
	for {
		var found [][]byte
		err := attempt(ctx, func(ctx context.Context) (err error) {
			found, err = t.log().Read(ctx, t.head.Entry+1, readAtOnce)
			return err
		})
		if errors.Is(err, ErrNoEntry) {
			t.caughtUp = time.Now()
			if time.Since(t.compared) < pollEvery {
				return entries, nil
			}
			return entries, t.compare(ctx)
		}
		if err != nil {
			return entries, err
		}
		for _, entry := range found {
			err := t.accept(entry)
			if errors.Is(err, errEntry) {
				err = t.acceptConfirmed(ctx, entry, err)
			}
			if err != nil {
				return entries, err
			}
			entries++
		}
	}
}

// acceptConfirmed accepts an entry as the leader of the log has it, if it differs from the refused entry of another
// server.
func (t *tail) acceptConfirmed(ctx context.Context, wrong []byte, refused error) error {
	var right []byte
	err := attempt(ctx, func(ctx context.Context) (err error) {
		right, err = t.log().Confirm(ctx, t.head.Entry+1)
		return err
	})
	switch {
	case err != nil:
		return err // it is not known yet which server is right
	case bytes.Equal(right, wrong):
		return refused
	}
	t.slog.Warn("kv/cluster: a server of the log has a wrong entry: it was read from another one", "entry", t.head.Entry+1, "err", refused)
	return t.accept(right)
}

// rewind forgets the parts of a transaction whose end is missing: the log may have lost them, and other entries may
// have their place.
func (t *tail) rewind() {
	t.head, t.assembly = t.self.now().head, chain.Parts{}
	t.self.readTo(t.head.Entry)
}

// compare compares the copy with the state of the log when the log has no new entries. A log that ends before the
// copy proves nothing here: a server that lags shows such a log, too.
func (t *tail) compare(ctx context.Context) error {
	var state LogState
	err := attempt(ctx, func(ctx context.Context) (err error) {
		state, err = t.log().State(ctx)
		return err
	})
	if err != nil {
		return err
	}
	t.self.observe(state)
	h := &t.head
	switch {
	case state.Ended:
		return errEnded
	case h.Identity == "":
		h.Identity = state.Identity
	case h.Identity != state.Identity:
		return fmt.Errorf("%w: the log was deleted and made again: it is %s, this is a copy of %s: %s", errStop, state.Identity, h.Identity, chain.Advice)
	}
	if state.First > h.Entry+1 {
		return chain.ErrBehind
	}
	t.compared = time.Now()
	return nil
}

// accept commits an entry that follows the copy.
func (t *tail) accept(entry []byte) error {
	next, r, err := t.head.After(entry)
	if err != nil {
		return fmt.Errorf("%w: entry %d of the log: %w", errEntry, t.head.Entry+1, err)
	}
	var changes []byte
	before := t.assembly
	switch r.Kind {
	case chain.Fragment, chain.Changes:
		if err := t.assembly.Add(r.Payload); err != nil {
			return fmt.Errorf("%w: entry %d of the log: %w", errEntry, next.Entry, err)
		}
		if r.Kind == chain.Fragment {
			// The copy's position stays: after a start the parts of an unfinished transaction are read again.
			t.head = next
			t.self.readTo(next.Entry)
			return nil
		}
		changes = t.assembly.Changes
	case chain.Release:
		t.successor = string(r.Payload)
	}
	if err := t.copy().Apply(changes, next.Encode()); err != nil {
		t.assembly = before // the entry is read again
		if errors.Is(err, kv.ErrUnavailable) || errors.Is(err, kv.ErrClosed) {
			return err
		}
		return fmt.Errorf("%w: entry %d of the log: %w", errEntry, next.Entry, err)
	}
	if r.Kind == chain.Genesis {
		// If the copy were empty after a crash, it would not object to an empty store in the place of a store whose
		// log was lost.
		if err := t.copy().Sync(); err != nil {
			return err
		}
	}
	t.assembly = chain.Parts{}
	t.head = next
	var wrote time.Time
	if len(changes) > 0 {
		wrote = time.Now()
	}
	t.self.moved(next, wrote, time.Since(t.caughtUp) < freshFor)
	return nil
}

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

// syncEvery is the time between syncs of the copy.
const syncEvery = time.Second

// syncer keeps the copy, and what lies beside it, on the disk.
type syncer struct {
	*member
	archive  *checkpoint.Archive
	furthest *furthest
}

// run makes the copy durable from time to time, until ctx ends. The log may drop entries that the disks of
// members have.
func (s syncer) run(ctx context.Context) {
	for pause(ctx, syncEvery) == nil {
		s.archive.Drop()
		s.furthest.save()
		now := s.self.now()
		if now.head.Entry == now.synced {
			continue
		}
		if err := s.copy().Sync(); err != nil {
			s.slog.Error("kv/cluster: syncing the copy failed", "err", err)
			continue
		}
		s.self.flushed(now.head.Generation, now.head.Entry)
	}
}
