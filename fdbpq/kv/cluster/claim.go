package cluster

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/claims"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

const (
	claimSuffix = ".claims" // ends the name of the file beside the copy
	claimEvery  = 5 * time.Second

	claimLookEvery = 300 * time.Millisecond

	// witnessFor is how long a member counts as a witness after it was heard.
	witnessFor = 3 * time.Second
)

// ledger has the claims on a member's disk.
type ledger struct {
	mu      sync.Mutex
	written claims.Ledger
	target  chain.Head // of an active member after the start; Entry 0: none was heard
}

// read returns the claims on the disk.
func (l *ledger) read() claims.Ledger {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written
}

// claimKeeper keeps the claims of the members on the disk of one.
type claimKeeper struct{ *DB }

// load reads the claims that an earlier process left.
func (k claimKeeper) load() error {
	content, err := local.ReadNote(k.dir, claimSuffix, k.options.Replica)
	if err != nil {
		return err
	}
	l := &k.ledger
	if content == nil {
		if k.status.entry() > 0 { // the copy is of a version that made no claims
			l.written.Own.Witnesses = k.options.Members
		}
		return nil
	}
	if err := json.Unmarshal(content, &l.written); err != nil {
		return fmt.Errorf("%s%s: expected what this program wrote; without the file this member counts for nothing until it has caught up with an active one: %w", k.dir, claimSuffix, err)
	}
	l.written.Own.Lives = false
	return nil
}

// keep writes claims to the disk until ctx ends.
func (k claimKeeper) keep(ctx context.Context) {
	var written time.Time
	for {
		if next, urgent := k.next(); urgent || time.Since(written) >= claimEvery {
			written = time.Now()
			if err := k.write(next); err != nil {
				k.slog.Error("kv/cluster: writing the members' synced positions failed", "err", err)
			}
		}
		if pause(ctx, claimLookEvery) != nil {
			return
		}
	}
}

// next returns the claims that the disk should have, and whether other members wait for them.
func (k claimKeeper) next() (next claims.Ledger, urgent bool) {
	before, life := k.ledger.read(), ""
	if !before.Own.Lives && k.caughtUp() {
		var id chain.ID
		_, _ = rand.Read(id[:]) // it never fails
		life = id.String()
	}
	var said []claims.Word
	all, _ := k.peers.Heard()
	for _, p := range all {
		said = append(said, claims.Word{
			Member: p.Member, Runs: p.Runs(witnessFor, time.Now()), HasPart: k.hasPart(p),
			Claim: p.Claim, Remembers: p.Knows[k.options.Name],
		})
	}
	return before.Next(said, life, k.status.entry())
}

// hasPart reports whether the disk of a member may have a part of the log. A member that replaced another is
// missing from the lists of members that have not restarted since.
func (k claimKeeper) hasPart(p peers.Peer) bool {
	return slices.Contains(k.options.Members, p.Member) || p.Claim != nil && p.Claim.Lives
}

func (k claimKeeper) write(next claims.Ledger) error {
	content, err := json.Marshal(next)
	if err != nil {
		return err
	}
	if err := local.WriteNote(k.dir, claimSuffix, content, k.options.Replica); err != nil {
		return err
	}
	l := &k.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written = next
	return nil
}

// caughtUp reports whether this member's disk has all entries that were acknowledged before its start: it is
// active, or has reached the position of an active member that was heard since.
func (k claimKeeper) caughtUp() bool {
	target := k.ledger.aim()
	at := k.status.position()
	role, _ := k.status.peek()
	has := target.Entry > 0 && at.Generation >= target.Generation && (at.Generation > target.Generation || at.Entry >= target.Entry)
	entry := target.Entry
	if at.Generation != target.Generation {
		entry = 0
	}
	return (role == peers.Active || has) && k.options.LogReplica(at.Generation, entry) == nil
}

func (l *ledger) aim() chain.Head {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.target
}

// heard takes the claims in another member's heartbeat.
func (k claimKeeper) heard(h peers.Heartbeat, alive bool) {
	l := &k.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	own := &l.written.Own
	if mine := h.Knows[k.options.Name]; own.Lives && mine.ID == own.ID && mine.Count > own.Count {
		// The whole machine has gone back while this process ran.
		own.Lives, l.target = false, chain.Head{}
	}
	if alive && l.target.Entry == 0 {
		l.target = chain.Head{Entry: h.Entry, Generation: h.Generation}
	}
}
