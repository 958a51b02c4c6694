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

	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// A disk may go back: its machine is reverted, a volume is restored, or it is empty. What the
// member says looks right, and its part of the log votes, but both have forgotten what they
// acknowledged. So each member says with its heartbeats how far its disk is, and the disks of
// the others remember it: claims are synced before they are announced, own ones and those of
// the others.
//
// A claim that is smaller than the remembered one, or has another id, proves that the disk has
// gone back, until a new life begins. A candidate needs a majority of members that run, that no
// claim contradicts, and that began their life themselves or have a witness that runs. The
// count tells apart states of a store in which nothing is written. Witnesses are for the state
// in which another member was away already: nobody who is left knows what followed. Nothing
// tells apart what happens within about ten seconds of the moment in which a member goes away.

// claim is what a disk says of itself. A life begins when the member has caught up with an
// active one after a start: its disk has everything then, whatever it had before.
type claim struct {
	Life  uint64 `json:"life"`  // number of the life; 0: the disk had none
	ID    string `json:"id"`    // of the life, random
	Count uint64 `json:"count"` // of claims within the life
	Entry uint64 `json:"entry"` // in the copy, for people

	// Lives says that this process began the life. Otherwise it was an earlier one, and the
	// disk may have gone back since.
	Lives bool `json:"lives,omitempty"`

	// Witnesses are the members on whose disks the life was when the disk had company last.
	// Entries may follow that the others do not know.
	Witnesses []string `json:"witnesses,omitempty"`
}

// contradicts reports whether a disk that made the claim c cannot say now.
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

	// witnessFor is how long a member counts as a witness after it was heard.
	witnessFor = 3 * time.Second
)

// claims are those that a member's disk has.
type claims struct {
	mu     sync.Mutex
	Own    claim            `json:"own"`
	Others map[string]claim `json:"others"`

	target head // of an active member after the start; Entry 0: none was heard
}

// disk returns what the disk has. The maps and lists are not changed any more.
func (c *claims) disk() (own claim, others map[string]claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Own, c.Others
}

// claimKeeper keeps the claims of the members on the disk of one.
type claimKeeper struct{ *DB }

// load reads what an earlier process left.
func (k claimKeeper) load() error {
	content, err := local.ReadNote(k.dir, claimSuffix, k.options.Replica)
	if err != nil {
		return err
	}
	c := &k.claims
	if content == nil {
		if k.status.entry() > 0 { // of a version that made no claims
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
		if pause(ctx, beatEvery) != nil {
			return
		}
	}
}

// next returns what the disk should have, and whether others wait for it.
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
		var id id
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
	if own.Lives { // otherwise it says what the disk had, whatever it has meanwhile
		own.Entry = k.status.entry()
		own.Count++
	}
	return own, others, urgent
}

// hasPart reports whether the disk of a member may have a part of the log. One that has taken the
// place of another one is not among the Members of those that have not started since.
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

// caughtUp reports whether this member's disk has all that was acknowledged before its start:
// it is active, or has what an active member had that was heard since.
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

func (c *claims) aim() head {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.target
}

// heard takes what another member says of disks.
func (k claimKeeper) heard(h heartbeat, alive bool) {
	c := &k.claims
	c.mu.Lock()
	defer c.mu.Unlock()
	if mine := h.Knows[k.options.Name]; c.Own.Lives && mine.ID == c.Own.ID && mine.Count > c.Own.Count {
		// The whole machine has gone back while this process ran.
		c.Own.Lives, c.target = false, head{}
	}
	if alive && c.target.Entry == 0 {
		c.target = head{Entry: h.Entry, Generation: h.Generation}
	}
}
