package cluster

import (
	"encoding/hex"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
)

// heartbeat is the state of a member, which it broadcasts several times a second and
// when asked. Fields of later versions are ignored.
type heartbeat struct {
	Member     string `json:"member"`
	Store      string `json:"store"` // hexadecimal; of zeros while its copy is empty
	Generation uint64 `json:"generation"`
	Role       Role   `json:"role"`
	Epoch      uint64 `json:"epoch"`
	Entry      uint64 `json:"entry"`  // the last entry of its copy
	Hash       string `json:"hash"`   // of that entry
	Read       uint64 `json:"read"`   // the last entry that it has read: the end of a transaction may be missing
	Synced     uint64 `json:"synced"` // the last entry that its copy has after a crash

	// Pending is how long the active member has waited for an append.
	Pending time.Duration `json:"pending,omitempty"`

	// Objection says why no member may become active, as far as this one knows.
	Objection string `json:"objection,omitempty"`

	// Misread says that the member cannot read the next entry. Its copy is a part of the log, so another member
	// that can read the entry may become active.
	Misread bool `json:"misread,omitempty"`

	// Final says that the copy takes no more entries in its generation of the log.
	Final bool `json:"final,omitempty"`

	// DiskFull says that the member's disk is nearly full.
	DiskFull bool `json:"disk_full,omitempty"`

	// Mark is the furthest entry that the member knows of.
	Mark *mark `json:"mark,omitempty"`

	// Claim is the claim of the member's own disk, and Knows has the claims that it remembers of other disks.
	Claim *claim           `json:"claim,omitempty"`
	Knows map[string]claim `json:"knows,omitempty"`

	// Silence is how long ago the member has read the last transaction, if it read the transaction when it was new, or
	// was about to write it.
	Silence *time.Duration `json:"silence,omitempty"`

	// Silent are the members that this one has not heard for its limit.
	Silent []string `json:"silent,omitempty"`

	// Version is the version of the program, for operators.
	Version string `json:"version,omitempty"`

	// Poll asks all others for a heartbeat.
	Poll bool `json:"poll,omitempty"`

	// Gone is the member's last message: it ends.
	Gone bool `json:"gone,omitempty"`

	// Process tells members with the same name, a mistake, apart.
	Process string `json:"process,omitempty"`

	// Format is the newest record that the member reads.
	Format int `json:"format"`
}

// peer is a member as it was heard last.
type peer struct {
	heartbeat
	heard   time.Time
	gaps    gaps
	back    time.Time // it came, or came back
	refuses bool      // its machine refuses connections
	silent  bool      // for longer than its limit
	lost    bool      // it refuses, or another member confirms its silence
	since   time.Time // it is lost
}

// runs reports whether the member was heard within d, and has not ended.
func (p peer) runs(d time.Duration) bool { return !p.Gone && time.Since(p.heard) < d }

// diskHasLog reports whether the disk of the member has the log. A member that replaced another is missing from the
// lists of members that have not restarted since.
func (p peer) diskHasLog(members []string) bool {
	if p.Claim == nil { // the disks of members have only copies
		return slices.Contains(members, p.Member)
	}
	return p.Claim.Lives
}

// peers are the other members, silent ones included: a member that had more entries than the log has now proves
// that the log has lost some.
type peers struct {
	self  string
	mu    sync.Mutex
	all   map[string]peer
	marks map[string]mark // by store
	news  chan struct{}   // closed when a heartbeat comes

	silence time.Duration // as in Options
	looked  time.Time     // the last look who is silent
	listens time.Time     // since when this process runs without a halt
}

func newPeers(self string, silence time.Duration) *peers {
	return &peers{self: self, silence: silence, all: make(map[string]peer), marks: make(map[string]mark), news: make(chan struct{})}
}

// hear notes a heartbeat of another member. A heartbeat with this member's own name is ignored.
func (p *peers) hear(message []byte) (h heartbeat, ok bool) {
	if json.Unmarshal(message, &h) != nil || h.Member == "" || h.Member == p.self {
		return h, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	before, now := p.all[h.Member], time.Now()
	p.awakeLocked(now)
	next := peer{heartbeat: h, heard: now, gaps: before.gaps, back: before.back}
	switch {
	case before.lost || before.Process != h.Process:
		next.back = now
	case p.settledLocked(next, now):
		next.gaps.add(p.silentForLocked(before, now), now)
	}
	p.all[h.Member] = next
	p.noteLocked(mark{Store: h.Store, Generation: h.Generation, Entry: h.Entry, Member: h.Member})
	if h.Mark != nil {
		p.noteLocked(*h.Mark)
	}
	close(p.news)
	p.news = make(chan struct{})
	return h, true
}

// note takes the mark of an earlier process.
func (p *peers) note(m mark) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noteLocked(m)
}

func (p *peers) noteLocked(m mark) {
	if m.Entry > 0 && m.follows(p.marks[m.Store]) {
		p.marks[m.Store] = m
	}
}

// mark is the furthest entry of a store that any member was heard to have.
func (p *peers) mark(store string) mark {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.marks[store]
}

// heard returns all other members, and a channel that is closed at the next heartbeat.
func (p *peers) heard() (all []peer, news <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, other := range p.all {
		all = append(all, other)
	}
	return all, p.news
}

// furthest is the last entry that another member has of the log to which the head belongs.
func (p *peers) furthest(of chain.Head) (entry uint64) {
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

// generation is the newest generation that a member of a store follows; an empty store means any store.
func (p *peers) generation(store string) (newest uint64) {
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
func (p *peers) awakeLocked(now time.Time) {
	if now.Sub(p.looked) > p.silence/2 {
		p.looked, p.listens = now, now
	}
}

// silentForLocked is how long a member was silent while this process ran.
func (p *peers) silentForLocked(of peer, now time.Time) time.Duration {
	if p.listens.After(of.heard) {
		return now.Sub(p.listens)
	}
	return now.Sub(of.heard)
}

// settledLocked reports whether the connections to a member have lasted for a while.
func (p *peers) settledLocked(with peer, now time.Time) bool {
	return now.Sub(with.back) > settledAfter && now.Sub(p.listens) > settledAfter
}

// limitLocked is how long a member may be silent.
func (p *peers) limitLocked(of peer, now time.Time) time.Duration {
	if !p.settledLocked(of, now) {
		return returnedFactor * p.silence
	}
	return of.gaps.limit(p.silence)
}

// refuse notes that the machine of a member refuses connections.
func (p *peers) refuse(member string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if other, known := p.all[member]; known {
		other.refuses = true
		p.all[member] = other
	}
}

// judge finds out which members are silent and lost. It reports whether the silence of a member began or ended, and
// the members that are lost since this call.
func (p *peers) judge() (changed bool, lost []peer) {
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
		if other.lost || !other.refuses && !(other.silent && p.confirmedLocked(name)) {
			continue
		}
		other.lost, other.since = true, now
		p.all[name] = other
		lost = append(lost, other)
	}
	p.looked = now
	return changed, lost
}

// confirmedLocked reports whether another member that is heard takes this one for silent.
func (p *peers) confirmedLocked(member string) bool {
	for name, other := range p.all {
		if name != member && !other.Gone && !other.silent && slices.Contains(other.Silent, member) {
			return true
		}
	}
	return false
}

// silent are the names of the silent members.
func (p *peers) silent() (names []string) {
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

// activeLost is the time since when the active member is lost, of the epoch of the head or of a later one; zero if
// it is not, or another one is active.
func (p *peers) activeLost(at chain.Head) (since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, other := range p.all {
		if other.Role != Active || other.Gone && !other.lost || other.Generation != at.Generation || other.Epoch < at.Epoch {
			continue
		}
		if !other.lost {
			return time.Time{}
		}
		if other.since.After(since) {
			since = other.since
		}
	}
	return since
}
