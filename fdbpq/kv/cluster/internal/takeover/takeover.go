package takeover

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
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

// failedAtMost is how long a member waits at most behind a candidacy that failed.
const failedAtMost = 12 * time.Second

// Attempts decide when a member may try to become active.
type Attempts struct {
	pause    time.Duration // behind the first failure
	patience time.Duration // how long it has to wait for a sign of life
	failures int
	next     time.Time // not before
}

// NewAttempts returns the attempts of a member that waits for a pause, or somewhat longer, for a sign of life, and
// behind the first failure.
func NewAttempts(pause time.Duration) *Attempts {
	return &Attempts{pause: pause, patience: jitter(pause)}
}

// Reset is called when another member was heard.
func (a *Attempts) Reset() { *a = *NewAttempts(a.pause) }

// Failed is called behind a candidacy without success. To replace a lost member the first ones follow soon.
func (a *Attempts) Failed(lost bool, now time.Time) {
	pause := a.pause << min(a.failures, 3)
	if lost {
		pause = RankPause << min(a.failures, 7)
	}
	a.next = now.Add(jitter(min(pause, failedAtMost)))
	a.failures++
}

// May reports whether the pause behind the last failure is over.
func (a *Attempts) May(now time.Time) bool { return now.After(a.next) }

// Waited reports whether a silence of the active member is so long that nobody has to confirm it.
func (a *Attempts) Waited(silence time.Duration) bool { return silence > a.patience }

// jitter returns between d and 1.5 d, so that members do not all try at the same time.
func jitter(d time.Duration) time.Duration { return d + rand.N(d/2) }

// SteadyFor is how long the loss has to last: servers of a log that lag say wrong things for some seconds.
const SteadyFor = 10 * time.Second

// steadyLooks is how often a candidate has to see a loss, within SteadyFor or longer.
const steadyLooks = 3

// Loss is a log that ends before an entry that some member has. The zero value was not seen.
type Loss struct {
	end   uint64
	since time.Time
	looks int
}

// Verdict judges a log that ends before an entry that some member has. A server that lags, or led the log until
// now, shows such a log for some seconds. Only a loss that lasts is a loss.
func (l *Loss) Verdict(end uint64, now time.Time) string {
	if l.looks == 0 || l.end != end {
		*l = Loss{end: end, since: now}
	}
	l.looks++
	if l.looks < steadyLooks || now.Sub(l.since) < SteadyFor {
		return "waiting for the log to show it"
	}
	return "it has lost entries that were acknowledged: " + chain.Advice
}

// Successor is the follower that takes over when the active member steps down: the named one or, if name is empty, the
// one whose copy is furthest; "" if there is none. It was heard within d, and can become active.
func Successor(name string, others []peers.Peer, d time.Duration, now time.Time) string {
	furthest := ""
	var most uint64
	for _, p := range others {
		if !p.Runs(d, now) || p.Lost || p.Role != peers.Follower || !p.Stands() {
			continue
		}
		if p.Member == name {
			return name
		}
		if furthest == "" || p.Entry > most {
			furthest, most = p.Member, p.Entry
		}
	}
	if name != "" {
		return ""
	}
	return furthest
}

// RankPause is how long a member gives a member of lower rank to replace a lost one.
const RankPause = 150 * time.Millisecond

// Turn says which members are lost, and when it is the turn of a member to replace one.
type Turn struct {
	Lost []string
	Rank int  // how many members come before this one
	OK   bool // false: so many members are lost that nothing can replace them
}

// TurnOf is the turn of a member in a role, among others that it has heard. members is how many there are.
func TurnOf(name string, role peers.Role, others []peers.Peer, members int) Turn {
	var t Turn
	runs := 1
	for _, p := range others {
		switch {
		case p.Lost:
			t.Lost = append(t.Lost, p.Member)
		case p.Away():
		default:
			runs++
			if p.Stands() && (role == peers.Active || p.Member < name) {
				t.Rank++
			}
		}
	}
	slices.Sort(t.Lost)
	t.OK = 2*runs > members
	return t
}

// Comes reports whether it is the member's turn to replace an active member that is lost for a time.
func (t Turn) Comes(lost time.Duration) bool {
	return t.OK && lost >= time.Duration(t.Rank)*RankPause
}

// Invited reports whether a member need not wait for a sign of life: it has made the log, or the active member, of
// another process, has stepped down in its favour. successor is the member that the release names.
func Invited(h chain.Head, process chain.ID, successor, name string) bool {
	mine := h.Process == process
	return h.Entry == 1 && mine || h.Released && !mine && successor == name
}
