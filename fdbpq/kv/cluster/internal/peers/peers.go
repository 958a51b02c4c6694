package peers

import (
	"encoding/hex"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
)

// Peers are the other members, silent ones included: a member that had more entries than the log has now proves
// that the log has lost some.
type Peers struct {
	self  string
	mu    sync.Mutex
	all   map[string]Peer
	marks map[string]Mark // by store
	news  chan struct{}   // closed when a heartbeat comes

	silence time.Duration // of the options
	looked  time.Time     // the last look who is silent
	listens time.Time     // since when this process runs without a halt
}

// New returns the peers of a member, none of which was heard. silence is that of the options.
func New(self string, silence time.Duration) *Peers {
	return &Peers{self: self, silence: silence, all: make(map[string]Peer), marks: make(map[string]Mark), news: make(chan struct{})}
}

// Hear notes a heartbeat of another member. A heartbeat with this member's own name is ignored.
func (p *Peers) Hear(message []byte) (h Heartbeat, ok bool) {
	if json.Unmarshal(message, &h) != nil || h.Member == "" || h.Member == p.self {
		return h, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	before, now := p.all[h.Member], time.Now()
	p.awakeLocked(now)
	next := Peer{Heartbeat: h, Heard: now, gaps: before.gaps, back: before.back}
	switch {
	case before.Lost || before.Process != h.Process:
		next.back = now
	case p.settledLocked(next, now):
		next.gaps.add(p.silentForLocked(before, now), now)
	}
	p.all[h.Member] = next
	p.noteLocked(Mark{Store: h.Store, Generation: h.Generation, Entry: h.Entry, Member: h.Member})
	if h.Mark != nil {
		p.noteLocked(*h.Mark)
	}
	close(p.news)
	p.news = make(chan struct{})
	return h, true
}

// Note takes the mark of an earlier process.
func (p *Peers) Note(m Mark) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noteLocked(m)
}

func (p *Peers) noteLocked(m Mark) {
	if m.Entry > 0 && m.Follows(p.marks[m.Store]) {
		p.marks[m.Store] = m
	}
}

// Mark is the furthest entry of a store that any member was heard to have.
func (p *Peers) Mark(store string) Mark {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.marks[store]
}

// Heard returns all other members, and a channel that is closed at the next heartbeat.
func (p *Peers) Heard() (all []Peer, news <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, other := range p.all {
		all = append(all, other)
	}
	return all, p.news
}

// Furthest is the last entry that another member has of the log to which the head belongs.
func (p *Peers) Furthest(of chain.Head) (entry uint64) {
	store := hex.EncodeToString(of.Store[:])
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, other := range p.all {
		if other.Store == store && other.Generation == of.Generation {
			entry = max(entry, other.Entry)
		}
	}
	return entry
}

// Generation is the newest generation that a member of a store follows; an empty store means any store.
func (p *Peers) Generation(store string) (newest uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, other := range p.all {
		if other.Entry > 0 && (store == "" || other.Store == store) {
			newest = max(newest, other.Generation)
		}
	}
	return newest
}

// awakeLocked notes a halt: if nobody has looked for a while, this process did not run, and what the others sent meanwhile
// comes now.
func (p *Peers) awakeLocked(now time.Time) {
	if now.Sub(p.looked) > p.silence/2 {
		p.looked, p.listens = now, now
	}
}

// silentForLocked is how long a member was silent while this process ran.
func (p *Peers) silentForLocked(of Peer, now time.Time) time.Duration {
	if p.listens.After(of.Heard) {
		return now.Sub(p.listens)
	}
	return now.Sub(of.Heard)
}

// settledLocked reports whether the connections to a member have lasted for a while.
func (p *Peers) settledLocked(with Peer, now time.Time) bool {
	return now.Sub(with.back) > settledAfter && now.Sub(p.listens) > settledAfter
}

// limitLocked is how long a member may be silent.
func (p *Peers) limitLocked(of Peer, now time.Time) time.Duration {
	if !p.settledLocked(of, now) {
		return returnedFactor * p.silence
	}
	return of.gaps.limit(p.silence)
}

// Refuse notes that the machine of a member refuses connections.
func (p *Peers) Refuse(member string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if other, known := p.all[member]; known {
		other.Refuses = true
		p.all[member] = other
	}
}

// Judge finds out which members are silent and lost. It reports whether the silence of a member began or ended, and
// the members that are lost since this call.
func (p *Peers) Judge() (changed bool, lost []Peer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.awakeLocked(now)
	for name, other := range p.all {
		silent := !other.Gone && p.silentForLocked(other, now) > p.limitLocked(other, now)
		changed = changed || silent != other.silent
		other.silent = silent
		p.all[name] = other
	}
	for name, other := range p.all {
		if other.Lost || !other.Refuses && !(other.silent && p.confirmedLocked(name)) {
			continue
		}
		other.Lost, other.since = true, now
		p.all[name] = other
		lost = append(lost, other)
	}
	p.looked = now
	return changed, lost
}

// confirmedLocked reports whether another member that is heard takes this one for silent.
func (p *Peers) confirmedLocked(member string) bool {
	for name, other := range p.all {
		if name != member && !other.Gone && !other.silent && slices.Contains(other.Silent, member) {
			return true
		}
	}
	return false
}

// Sheds reports whether the active member, as a copy at a position sees it, refuses large requests unread. One that was
// not heard for the silence of the options may have stopped doing so.
func (p *Peers) Sheds(at chain.Head) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for _, other := range p.all {
		if other.Sheds && other.ShowsLife(at) && now.Sub(other.Heard) < p.silence {
			return true
		}
	}
	return false
}

// Silent are the names of the silent members.
func (p *Peers) Silent() (names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, other := range p.all {
		if other.silent {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Absent are the members that have ended or are lost. For one whose silence no other member confirms that takes more than
// unconfirmed, and more than its limit.
func (p *Peers) Absent(unconfirmed time.Duration) (names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.awakeLocked(now)
	for name, other := range p.all {
		if other.Gone || other.Refuses || other.Lost || p.silentForLocked(other, now) > max(unconfirmed, p.limitLocked(other, now)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// ActiveLost is the time since when the active member is lost, of the epoch of the head or of a later one; zero if
// it is not, or another one is active.
func (p *Peers) ActiveLost(at chain.Head) (since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, other := range p.all {
		if other.Role != Active || other.Gone && !other.Lost || other.Generation != at.Generation || other.Epoch < at.Epoch {
			continue
		}
		if !other.Lost {
			return time.Time{}
		}
		if other.since.After(since) {
			since = other.since
		}
	}
	return since
}

// LivingFor is how long a member counts as living after it was heard.
const LivingFor = 10 * time.Second

// Peer is a member as it was heard last.
type Peer struct {
	Heartbeat
	Heard   time.Time
	gaps    gaps
	back    time.Time // it came, or came back
	Refuses bool      // its machine refuses connections
	silent  bool      // for longer than its limit
	Lost    bool      // it refuses, or another member confirms its silence
	since   time.Time // it is lost
}

// Runs reports whether the member was heard within d, and has not ended.
func (p Peer) Runs(d time.Duration, now time.Time) bool { return !p.Gone && now.Sub(p.Heard) < d }

// HasLog reports whether the disk of the member has the log. A member that replaced another is missing from the
// lists of members that have not restarted since.
func (p Peer) HasLog(members []string) bool {
	if p.Claim == nil { // the disks of members have only copies
		return slices.Contains(members, p.Member)
	}
	return p.Claim.Lives
}

// Away reports whether the member has ended, or is silent.
func (p Peer) Away() bool { return p.Gone || p.silent }

// Stands reports whether a member replaces lost ones.
func (p Peer) Stands() bool {
	return (p.Role == Follower || p.Role == Candidate) && p.Objection == "" && !p.Partless
}

// Replaced reports whether the disk of the member had a part of the log once, and has none now. A new member never had
// one.
func (p Peer) Replaced() bool { return p.Partless && p.HadPart() }

// HadPart reports whether the disk of the member has, or once had, a part of the log. The member knows it from its start on.
func (p Peer) HadPart() bool { return p.Claim != nil && p.Claim.Life > 0 }

// Role says what a member does.
type Role string

// The roles of a member.
const (
	Follower  Role = "follower"  // it follows the log
	Candidate Role = "candidate" // it heard no active member, and tries to become active
	Active    Role = "active"    // it runs transactions
	Stopped   Role = "stopped"   // its copy and the log do not belong together
)

// Mark is the furthest entry that any member of a store was heard to have. It never goes back within a generation,
// even if that member has lost the entry: the entry did exist. It is on the disk, so it outlives a start of all
// members.
type Mark struct {
	Store      string `json:"store"`
	Generation uint64 `json:"generation"`
	Entry      uint64 `json:"entry"`
	Member     string `json:"member"` // that had it
}

// Follows reports whether a mark is further than another one.
func (m Mark) Follows(o Mark) bool {
	return m.Generation > o.Generation || m.Generation == o.Generation && m.Entry > o.Entry
}

// Limits of silence.
const (
	// A limit is gapFactor times the longest gap of the last one or two gapSpans, up to limitAtMost times the
	// silence of the options.
	gapSpan     = time.Minute
	gapFactor   = 2.5
	limitAtMost = 6

	// For settledAfter behind the return of a member, or a halt of this process, the limit is returnedFactor times the
	// silence of the options, and gaps do not count: connections begin anew.
	settledAfter   = 5 * time.Second
	returnedFactor = 3
)

// gaps are the longest gaps between the heartbeats of a member, in the present span of time and in the one before.
type gaps struct {
	began       time.Time
	now, before time.Duration
}

func (g *gaps) add(gap time.Duration, at time.Time) {
	switch age := at.Sub(g.began); {
	case age > 2*gapSpan:
		*g = gaps{began: at}
	case age > gapSpan:
		*g = gaps{began: at, before: g.now}
	}
	g.now = max(g.now, gap)
}

// limit is how long a settled member may be silent.
func (g gaps) limit(silence time.Duration) time.Duration {
	longest := time.Duration(gapFactor * float64(max(g.now, g.before)))
	return min(max(silence, longest), limitAtMost*silence)
}
