package cluster

import (
	"errors"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
)

// Role says what a member does.
type Role = peers.Role

// The roles of a member.
const (
	Follower  = peers.Follower  // it follows the log
	Candidate = peers.Candidate // it heard no active member, and tries to become active
	Active    = peers.Active    // it runs transactions
	Stopped   = peers.Stopped   // its copy and the log do not belong together
)

// Status is a member's view of the cluster.
type Status struct {
	Role       peers.Role
	Generation uint64 // of the log that the copy follows
	Epoch      uint64 // of the log, as far as this member knows
	Entry      uint64 // the last one in the copy
	Synced     uint64 // the last entry that is on this disk
	Log        LogState
	Reached    time.Time // when the log, or an active member that reaches it, was heard last
	CaughtUp   bool      // this member's disk has all entries acknowledged before its start, and another member knows it
	Reason     string    // why no member may become active, or why this member waits
	Takeovers  uint64    // how often this member became active
	Appends    uint64    // records that this member has written
	Members    []MemberStatus
}

// MemberStatus is another member as it was heard last.
type MemberStatus struct {
	Name       string
	Role       peers.Role
	Generation uint64
	Epoch      uint64
	Entry      uint64
	Synced     uint64
	Reason     string
	Heard      time.Time

	Version string // of its program
	Runs    bool   // it was heard within livingFor, and has not ended
}

// Newest is the last entry of its generation of the log that this member knows: in its copy, in the log, or in the
// copy of another member.
func (s Status) Newest() uint64 {
	newest := max(s.Entry, s.Log.Last)
	for _, m := range s.Members {
		if m.Generation == s.Generation {
			newest = max(newest, m.Entry)
		}
	}
	return newest
}

// Lag is how many entries a copy lacks.
func (s Status) Lag(entry uint64) uint64 { return s.Newest() - min(entry, s.Newest()) }

// status is the state that the goroutines of a member share.
type status struct {
	mu     sync.Mutex
	role   peers.Role
	head   chain.Head // of the copy
	read   uint64     // entry of the log; between head and it lie parts of a transaction whose end is missing
	synced uint64
	log    LogState
	full   struct { // disks
		own bool
		why error
	}
	reason    string
	misread   bool      // this member has stopped at an entry, and its copy is a part of the log
	final     bool      // the copy takes no more entries in its generation of the log
	pending   time.Time // when the append under way began; zero: none is
	written   time.Time // when the last transaction was read, if the transaction was new, or about to be written; zero: it was not new
	sign      time.Time // when the active member was heard last, or this one began to listen
	served    time.Time // when this generation was seen to have an active member; zero: it was not
	counts    struct{ takeovers, appends uint64 }
	term      *Term    // of the active member
	taken     bool     // Term has returned it
	asked     *release // a request that the active member steps down
	interrupt func()   // ends the wait for its next batch
	ended     bool     // Close was called
	changed   chan struct{}
}

// opened notes which copy this member has.
func (s *status) opened(h chain.Head) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.head, s.read, s.synced, s.written, s.final = h, h.Entry, h.Entry, time.Time{}, false
	s.sign, s.served = time.Now(), time.Time{}
	if s.changed == nil {
		s.role, s.changed = peers.Follower, make(chan struct{})
	}
}

// logFirst is the first entry of the log, as it was seen last.
func (s *status) logFirst() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.First
}

// logLast is the last entry of the log, as it was seen last.
func (s *status) logLast() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Last
}

// Status returns the present status.
func (d *DB) Status() Status {
	all, _ := d.peers.Heard()
	own := d.ledger.read().Own
	s := &d.status
	s.mu.Lock()
	defer s.mu.Unlock()
	now := Status{
		Role: s.role, Generation: s.head.Generation, Epoch: s.head.Epoch, Entry: s.head.Entry,
		Synced: s.synced, Log: s.log, Reached: s.reachedLocked(), Reason: s.reason,
		CaughtUp:  own.Lives && (len(own.Witnesses) > 0 || len(d.options.Members) < 2) || d.options.LogReplica == nil,
		Takeovers: s.counts.takeovers, Appends: s.counts.appends,
	}
	for _, p := range all {
		now.Members = append(now.Members, MemberStatus{
			Name: p.Member, Role: p.Role, Generation: p.Generation, Epoch: p.Epoch, Entry: p.Entry, Synced: p.Synced, Reason: p.Objection, Heard: p.Heard,
			Version: p.Version, Runs: p.Runs(peers.LivingFor, time.Now()),
		})
	}
	return now
}

// Changed returns a channel that is closed when the role of this member, or its reason, changes.
func (d *DB) Changed() <-chan struct{} {
	_, changed := d.status.peek()
	return changed
}

// set changes the status. No other method changes the role and the reason.
func (s *status) set(role peers.Role, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.role == role && s.reason == reason {
		return
	}
	s.role, s.reason = role, reason
	s.announceLocked()
}

func (s *status) announceLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// begin announces a term. interrupt is called when a release is requested.
func (s *status) begin(t *Term, interrupt func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked, s.interrupt = nil, interrupt
	s.role, s.reason, s.term, s.taken = peers.Active, "", t, false
	s.counts.takeovers++
	s.announceLocked()
}

// finish ends the term, and returns the request for that, if there was one.
func (s *status) finish(reason string) *release {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.role, s.reason, s.term = peers.Follower, reason, nil
	s.pending = time.Time{}
	s.announceLocked()
	return s.asked
}

// take returns the current term to its first caller.
func (s *status) take() (*Term, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.term == nil || s.taken || s.ended {
		return nil, s.changed
	}
	s.taken = true
	return s.term, s.changed
}

func (s *status) peek() (peers.Role, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.role, s.changed
}

func (s *status) current() *Term {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.term
}

// close returns false the second time.
func (s *status) close() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.ended = true
	s.announceLocked()
	return true
}

func (s *status) closed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// moved notes the position of the copy. wrote is when an entry that changed rows was read, or was about to be
// written, and zero for an entry that changed no rows. fresh says that it was read when it was new.
func (s *status) moved(h chain.Head, wrote time.Time, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.head, s.read, s.sign = h, h.Entry, now
	if fresh {
		s.served = now
	}
	switch {
	case wrote.IsZero():
	case fresh:
		s.written = wrote
	default:
		s.written = time.Time{}
	}
}

// readTo notes how far the log was read, or written.
func (s *status) readTo(entry uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read = entry
}

// lastRead is the last entry of the log that this member has read or written. It may lie behind the copy's, if the
// end of a transaction is missing.
func (s *status) lastRead() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read
}

// lastWrite is when the last transaction was read or about to be written, or zero.
func (s *status) lastWrite() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written
}

// entry is the last entry of the copy.
func (s *status) entry() uint64 { return s.position().Entry }

func (s *status) position() chain.Head {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.head
}

// observe notes the state of the log.
func (s *status) observe(state LogState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = state
}

// reachedLocked is a time at which this member had contact with the log. A state of the log is no contact: a server
// that is cut off goes on describing its log.
func (s *status) reachedLocked() time.Time {
	switch {
	case s.role == peers.Active && !s.pending.IsZero():
		return s.pending
	case s.role == peers.Active, s.role == peers.Stopped, s.head.Entry == 0:
		return time.Now() // it has nothing to wait for
	}
	return s.sign
}

// grown notes that this member has added an entry to the log. It is an estimate until the
// log says again how large it is.
func (s *status) grown(entry uint64, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log.Last = max(s.log.Last, entry) // the log may have said so already
	s.log.Bytes += uint64(bytes)
}

// fill is the part of the log's room that is taken, from 0 to 1; 0 if there is no limit.
func (s *status) fill() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log.MaxBytes == 0 {
		return 0
	}
	return float64(s.log.Bytes) / float64(s.log.MaxBytes)
}

// flushed notes up to which entry of a generation the copy is on the disk.
func (s *status) flushed(generation, entry uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if generation == s.head.Generation {
		s.synced = entry
	}
}

// stop notes that this member serves nothing. Its copy takes no more entries, unless the cause is an entry that it
// misread and can read again.
func (s *status) stop(why error) {
	s.set(peers.Stopped, why.Error())
	s.mu.Lock()
	defer s.mu.Unlock()
	entry := errors.Is(why, errEntry)
	s.misread = entry && !errors.Is(why, chain.ErrDiffers)
	s.final = s.final || !entry
}

// settle notes that the copy takes no more entries in its generation of the log.
func (s *status) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.final = true
}

// stand begins a candidacy. The reason why the last one failed stays until this one has a result.
func (s *status) stand() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.role = peers.Candidate
	s.announceLocked()
}

// withdraw ends a candidacy, and keeps its reason.
func (s *status) withdraw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.role == peers.Candidate {
		s.role = peers.Follower
		s.announceLocked()
	}
}

// ask asks the active member to step down.
func (s *status) ask(r *release) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.role != peers.Active:
		return ErrNotActive
	case s.asked != nil:
		return errReleased
	}
	s.asked = r
	s.interrupt()
	return nil
}

func (s *status) appending(since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !since.IsZero() {
		s.counts.appends++
	}
	s.pending = since
}

// alive notes a sign of life of the active member.
func (s *status) alive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sign = time.Now()
	s.served = s.sign
}

// servedWithin reports whether this generation of the log had an active member within d.
func (s *status) servedWithin(d time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.served.IsZero() && time.Since(s.served) < d
}

// silence is how long ago the active member was heard.
func (s *status) silence() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.sign)
}
