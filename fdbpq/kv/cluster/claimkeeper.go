package cluster

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
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

// claimKeeper keeps the claims of the members on the disk of one.
type claimKeeper struct{ *member }

// load reads the claims that an earlier process left.
func (k claimKeeper) load() error {
	content, err := local.ReadNote(k.dir, claimSuffix, k.options.Replica)
	if err != nil {
		return err
	}
	l := &k.ledger
	if content == nil {
		if k.self.now().head.Entry > 0 { // the copy is of a version that made no claims
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
	return before.Next(said, life, k.self.now().head.Entry)
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
	now := k.self.now()
	at := now.head
	has := target.Entry > 0 && at.Generation >= target.Generation && (at.Generation > target.Generation || at.Entry >= target.Entry)
	entry := target.Entry
	if at.Generation != target.Generation {
		entry = 0
	}
	return (now.role == peers.Active || has) && k.options.LogReplica(at.Generation, entry) == nil
}

// doubts says why the running members do not suffice, and names the absent members that may have the missing
// entries.
func (k claimKeeper) doubts() (why, missing string) {
	if k.options.LogReplica == nil || len(k.options.Members) < 2 {
		return "", ""
	}
	own := k.ledger.read()
	run := map[string]claims.Said{k.options.Name: {Claim: &own.Own, Knows: own.Others}}
	all, _ := k.peers.Heard()
	for _, p := range all {
		if p.Runs(peers.LivingFor, time.Now()) && slices.Contains(k.options.Members, p.Member) {
			run[p.Member] = claims.Said{Claim: p.Claim, Knows: p.Knows}
		}
	}
	return claims.Doubts(k.options.Members, run)
}
