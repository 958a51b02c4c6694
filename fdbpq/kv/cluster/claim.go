package cluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// A disk may go back to an old state: its machine is reverted, a volume is restored, or it is empty. Then the
// member's positions look right, and its part of the log votes, but both have forgotten entries that they
// acknowledged. So each member says with its heartbeats how far its disk is, and the disks of the others remember
// these claims. A member syncs claims, its own and the claims of others, before it announces them.
//
// A claim that is smaller than the remembered claim, or has another id, proves that the disk has gone back, until a
// new life begins. A candidate needs a majority of running members that no claim contradicts, and that began their
// life themselves or have a witness that runs. Claims have a count, because states of a store in which nothing is
// written differ in nothing else. Witnesses are for a state from a time in which another member was away already:
// none of the members that are left knows which entries followed. Nothing detects an old state from within about
// ten seconds of the moment in which a member goes away.

// claim is a disk's announcement of its state. A life begins when the member has caught up with an active member
// after a start: its disk then has all entries, whatever state it had before.
type claim struct {
	Life  uint64 `json:"life"`  // number of the life; 0: the disk had none
	ID    string `json:"id"`    // of the life, random
	Count uint64 `json:"count"` // of claims within the life
	Entry uint64 `json:"entry"` // in the copy, for people

	// Lives says that this process began the life. Otherwise an earlier process did, and the disk may have gone
	// back since.
	Lives bool `json:"lives,omitempty"`

	// Witnesses are the members whose disks had this life's claim when another member was last heard. Entries may
	// follow that the others do not know.
	Witnesses []string `json:"witnesses,omitempty"`
}

// contradicts reports whether a disk that made the claim c cannot make the claim now.
func (c claim) contradicts(now claim) bool {
	switch {
	case now.Lives && now.ID != c.ID:
		return false
	case now.Life != c.Life:
		return now.Life < c.Life
	}
	return now.ID != c.ID || now.Count < c.Count
}

const (
	claimSuffix = ".claims" // ends the name of the file beside the copy
	claimEvery  = 5 * time.Second

	claimLookEvery = 300 * time.Millisecond

	// witnessFor is how long a member counts as a witness after it was heard.
	witnessFor = 3 * time.Second
)

// claims are the claims on a member's disk.
type claims struct {
	mu     sync.Mutex
	Own    claim            `json:"own"`
	Others map[string]claim `json:"others"`

	target chain.Head // of an active member after the start; Entry 0: none was heard
}

// disk returns the claims on the disk. Nobody changes the maps and lists any more.
func (c *claims) disk() (own claim, others map[string]claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Own, c.Others
}

// claimKeeper keeps the claims of the members on the disk of one.
type claimKeeper struct{ *DB }

// load reads the claims that an earlier process left.
func (k claimKeeper) load() error {
	content, err := local.ReadNote(k.dir, claimSuffix, k.options.Replica)
	if err != nil {
		return err
	}
	c := &k.claims
	if content == nil {
		if k.status.entry() > 0 { // the copy is of a version that made no claims
			c.Own.Witnesses = k.options.Members
		}
		return nil
	}
	if err := json.Unmarshal(content, c); err != nil {
		return fmt.Errorf("%s%s: expected what this program wrote; without the file this member counts for nothing until it has caught up with an active one: %w", k.dir, claimSuffix, err)
	}
	c.Own.Lives = false
	return nil
}

// keep writes claims to the disk until ctx ends.
func (k claimKeeper) keep(ctx context.Context) {
	var written time.Time
	for {
		if own, others, urgent := k.next(); urgent || time.Since(written) >= claimEvery {
			written = time.Now()
			if err := k.write(own, others); err != nil {
				k.slog.Error("kv/cluster: writing the members' synced positions failed", "err", err)
			}
		}
		if pause(ctx, claimLookEvery) != nil {
			return
		}
	}
}

// next returns the claims that the disk should have, and whether other members wait for them.
func (k claimKeeper) next() (own claim, others map[string]claim, urgent bool) {
	own, before := k.claims.disk()
	others = maps.Clone(before)
	if others == nil {
		others = make(map[string]claim)
	}
	var runs, know []string
	alone := true
	most := own.Life
	all, _ := k.peers.heard()
	for _, p := range all {
		mine := p.Knows[k.options.Name]
		most = max(most, mine.Life)
		if p.runs(witnessFor) {
			runs = append(runs, p.Member)
			if k.hasPart(p) {
				alone = false
				if mine.ID == own.ID {
					know = append(know, p.Member)
				}
			}
		}
		if now := p.Claim; now != nil && now.Life > 0 && !others[p.Member].contradicts(*now) {
			urgent = urgent || others[p.Member].ID != now.ID
			others[p.Member] = claim{Life: now.Life, ID: now.ID, Count: now.Count, Entry: now.Entry}
		}
	}
	witnesses := own.Witnesses
	switch {
	case !own.Lives && k.caughtUp():
		var id chain.ID
		_, _ = rand.Read(id[:]) // it never fails
		own = claim{Life: most + 1, ID: hex.EncodeToString(id[:]), Lives: true}
		witnesses, urgent = nil, true
	case alone: // nothing is acknowledged without company
	case own.Lives:
		witnesses = know
	default:
		witnesses = slices.DeleteFunc(slices.Clone(witnesses), func(name string) bool { return !slices.Contains(runs, name) })
	}
	slices.Sort(witnesses)
	urgent = urgent || !slices.Equal(witnesses, own.Witnesses)
	own.Witnesses = witnesses
	if own.Lives { // otherwise the claim stays as an earlier process left it
		own.Entry = k.status.entry()
		own.Count++
	}
	return own, others, urgent
}

// hasPart reports whether the disk of a member may have a part of the log. A member that replaced another is
// missing from the lists of members that have not restarted since.
func (k claimKeeper) hasPart(p peer) bool {
	return slices.Contains(k.options.Members, p.Member) || p.Claim != nil && p.Claim.Lives
}

func (k claimKeeper) write(own claim, others map[string]claim) error {
	content, err := json.Marshal(&claims{Own: own, Others: others})
	if err != nil {
		return err
	}
	if err := local.WriteNote(k.dir, claimSuffix, content, k.options.Replica); err != nil {
		return err
	}
	c := &k.claims
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Own, c.Others = own, others
	return nil
}

// caughtUp reports whether this member's disk has all entries that were acknowledged before its start: it is
// active, or has reached the position of an active member that was heard since.
func (k claimKeeper) caughtUp() bool {
	target := k.claims.aim()
	at := k.status.position()
	role, _ := k.status.peek()
	has := target.Entry > 0 && at.Generation >= target.Generation && (at.Generation > target.Generation || at.Entry >= target.Entry)
	entry := target.Entry
	if at.Generation != target.Generation {
		entry = 0
	}
	return (role == Active || has) && k.options.LogReplica(at.Generation, entry) == nil
}

func (c *claims) aim() chain.Head {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.target
}

// heard takes the claims in another member's heartbeat.
func (k claimKeeper) heard(h heartbeat, alive bool) {
	c := &k.claims
	c.mu.Lock()
	defer c.mu.Unlock()
	if mine := h.Knows[k.options.Name]; c.Own.Lives && mine.ID == c.Own.ID && mine.Count > c.Own.Count {
		// The whole machine has gone back while this process ran.
		c.Own.Lives, c.target = false, chain.Head{}
	}
	if alive && c.target.Entry == 0 {
		c.target = chain.Head{Entry: h.Entry, Generation: h.Generation}
	}
}
