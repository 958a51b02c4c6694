package takeover

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
)

// Candidacy is what a candidate knows once it has asked the others and has read the log to its end.
type Candidacy struct {
	Head    chain.Head   // of the last entry that it has read
	Process chain.ID     // its own
	Began   time.Time    // when it asked the others
	Others  []peers.Peer // their answers, or what they said last
	Mark    peers.Mark   // the furthest entry of its store that any member was heard to have

	Doubts, Missing string // why the running members do not suffice, and who may have what they lack
}

// ActiveAnswers reports whether an active member that reaches the log has answered. at is the position of the copy.
func (c Candidacy) ActiveAnswers(at chain.Head) bool {
	for _, p := range c.Others {
		if p.Heard.After(c.Began) && p.ShowsLife(at) {
			return true
		}
	}
	return false
}

// Objection returns the reason for which the candidate must not become active, or nothing. seen is the loss that its
// earlier candidacies saw.
func (c Candidacy) Objection(seen *Loss, now time.Time) string {
	h := c.Head
	if objection := c.contradiction(seen, now); objection != "" {
		return objection
	}
	if objection := c.distrust(); objection != "" {
		return objection
	}
	if m := c.Mark; m.Follows(peers.Mark{Generation: h.Generation, Entry: h.Entry}) {
		return fmt.Sprintf("member %s had entry %d of generation %d, the log ends at %d: %s", m.Member, m.Entry, m.Generation, h.Entry, seen.Verdict(h.Entry, now))
	}
	return ""
}

// contradiction returns the reason for which another member objects to a takeover, or nothing: the member has more
// entries than the log, or other ones. A silent member objects with the position that it was heard to have last.
func (c Candidacy) contradiction(seen *Loss, now time.Time) string {
	h := c.Head
	store := hex.EncodeToString(h.Store[:])
	for _, p := range c.Others {
		switch {
		case p.Entry == 0:
		case p.Store != store && !p.Heard.After(c.Began):
			// It belonged to another store, and is gone.
		case p.Store != store:
			return fmt.Sprintf("member %s has a copy of the store %s, this member one of %s", p.Member, p.Store, store)
		case p.Generation < h.Generation:
		case p.Generation > h.Generation:
			return fmt.Sprintf("member %s follows generation %d of the log, this one generation %d", p.Member, p.Generation, h.Generation)
		case p.Objection != "" && !p.Misread && p.Heard.After(c.Began):
			return fmt.Sprintf("member %s: %s", p.Member, p.Objection)
		case p.Entry > h.Entry:
			return fmt.Sprintf("member %s has entry %d, the log ends at %d: %s", p.Member, p.Entry, h.Entry, seen.Verdict(h.Entry, now))
		case p.Entry == h.Entry && p.Hash != hex.EncodeToString(h.Hash[:]):
			return fmt.Sprintf("member %s has another entry %d than the log: entries that were acknowledged are lost: %s", p.Member, p.Entry, chain.Advice)
		}
	}
	return ""
}

// distrust returns the reason for which this member must not become active although a majority may have the log:
// disks went back to an old state, or may have, so acknowledged entries may be on the disk of a member that is
// away.
func (c Candidacy) distrust() string {
	switch {
	case c.Head.Entry == 1 && c.Head.Process == c.Process:
		return "" // nothing was acknowledged in this generation
	case c.Missing == "":
		return c.Doubts
	}
	return fmt.Sprintf(`%s, or run "pqd recover --without %s" to go on without what it has`, c.Doubts, c.Missing)
}

// LastWrite is when the last transaction was written, zero if no member knows; own is what this member knows. Each of
// them that read it when it was new, or wrote it, did so at that time or later: the earliest one is right.
func (c Candidacy) LastWrite(own time.Time) time.Time {
	at, hash := own, hex.EncodeToString(c.Head.Hash[:])
	for _, p := range c.Others {
		if p.Silence == nil || p.Hash != hash || !p.Heard.After(c.Began) {
			continue
		}
		if other := p.Heard.Add(-*p.Silence); at.IsZero() || other.Before(at) {
			at = other
		}
	}
	return at
}
