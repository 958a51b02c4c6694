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
