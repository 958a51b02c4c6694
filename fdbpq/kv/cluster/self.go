package cluster

import (
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
)

// self is the state that the goroutines of a member share, and the term in which it is active. One lock guards both, so
// that nobody takes a member for active at the position of another one.
type self struct {
	mu sync.Mutex
	state
	term      *Term    // of the active member
	taken     bool     // Term has returned it
	asked     *release // a request that the active member steps down
	interrupt func()   // ends the wait for its next batch
	ended     bool     // Close was called
	changed   chan struct{}
}

// now returns the present state.
func (s *self) now() state {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// changes returns a channel that is closed when the role or the reason changes.
func (s *self) changes() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// opened notes which copy this member has.
func (s *self) opened(h chain.Head) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.head, s.read, s.synced, s.written, s.final = h, h.Entry, h.Entry, time.Time{}, false
	s.sign, s.served = time.Now(), time.Time{}
	if s.changed == nil {
		s.role, s.changed = peers.Follower, make(chan struct{})
	}
}

// set changes the role and the reason outside of terms and candidacies.
func (s *self) set(role peers.Role, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.role == role && s.reason == reason {
		return
	}
	s.role, s.reason = role, reason
	s.announceLocked()
}

func (s *self) announceLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// begin announces a term. interrupt is called when a release is requested.
func (s *self) begin(t *Term, interrupt func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked, s.interrupt = nil, interrupt
	s.role, s.reason, s.term, s.taken = peers.Active, "", t, false
	s.counts.takeovers++
	s.announceLocked()
}

// finish ends the term, and returns the request for that, if there was one.
func (s *self) finish(reason string) *release {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.role, s.reason, s.term = peers.Follower, reason, nil
	s.pending = time.Time{}
	s.announceLocked()
	return s.asked
}

// take returns the current term to its first caller.
func (s *self) take() (*Term, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.term == nil || s.taken || s.ended {
		return nil, s.changed
	}
	s.taken = true
	return s.term, s.changed
}

func (s *self) current() *Term {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.term
}

// close returns false the second time.
func (s *self) close() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.ended = true
	s.announceLocked()
	return true
}

func (s *self) closed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// moved notes the position of the copy. wrote is when an entry that changed rows was read, or was about to be
// written, and zero for an entry that changed no rows. fresh says that it was read when it was new.
func (s *self) moved(h chain.Head, wrote time.Time, fresh bool) {
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
func (s *self) readTo(entry uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read = entry
}

// observe notes the state of the log.
func (s *self) observe(state LogState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = state
}

// grown notes that this member has added an entry to the log. It is an estimate until the
// log says again how large it is.
func (s *self) grown(entry uint64, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log.Last = max(s.log.Last, entry) // the log may have said so already
	s.log.Bytes += uint64(bytes)
}

// flushed notes up to which entry of a generation the copy is on the disk.
func (s *self) flushed(generation, entry uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if generation == s.head.Generation {
		s.synced = entry
	}
}

// stop notes that this member serves nothing. Its copy takes no more entries, unless the cause is an entry that it
// misread and can read again.
func (s *self) stop(why error) {
	s.set(peers.Stopped, why.Error())
	s.mu.Lock()
	defer s.mu.Unlock()
	entry := errors.Is(why, errEntry)
	s.misread = entry && !errors.Is(why, chain.ErrDiffers)
	s.final = s.final || !entry
}

// settle notes that the copy takes no more entries in its generation of the log.
func (s *self) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.final = true
}

// stand begins a candidacy. The reason why the last one failed stays until this one has a result.
func (s *self) stand() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.role = peers.Candidate
	s.announceLocked()
}

// withdraw ends a candidacy, and keeps its reason.
func (s *self) withdraw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.role == peers.Candidate {
		s.role = peers.Follower
		s.announceLocked()
	}
}

// ask asks the active member to step down.
func (s *self) ask(r *release) error {
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

func (s *self) appending(since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !since.IsZero() {
		s.counts.appends++
	}
	s.pending = since
}

// alive notes a sign of life of the active member.
func (s *self) alive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sign = time.Now()
	s.served = s.sign
}

// noteDisks notes the state of the disks, and returns the former reason.
func (s *self) noteDisks(own bool, why error) (before error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.full.why
	s.full.own, s.full.why = own, why
	return before
}

// state is what a member knows of itself, its copy and the log at one time.
type state struct {
	role   peers.Role
	head   chain.Head // of the copy
	read   uint64     // entry of the log; between head and it lie parts of a transaction whose end is missing.
	synced uint64
	log    LogState // as it was seen last
	full   struct { // disks
		own bool
		why error
	}
	reason  string
	misread bool      // this member has stopped at an entry, and its copy is a part of the log
	final   bool      // the copy takes no more entries in its generation of the log
	pending time.Time // when the append under way began; zero: none is
	written time.Time // when the last transaction was read, if the transaction was new, or about to be written; zero: it was not new
	sign    time.Time // when the active member was heard last, or this one began to listen
	served  time.Time // when this generation was seen to have an active member; zero: it was not
	counts  struct{ takeovers, appends uint64 }
}

// heartbeat is what the others should hear of the state.
func (s state) heartbeat(now time.Time) peers.Heartbeat {
	h := peers.Heartbeat{
		Store: hex.EncodeToString(s.head.Store[:]), Generation: s.head.Generation,
		Role: s.role, Epoch: s.head.Epoch, Entry: s.head.Entry, Hash: hex.EncodeToString(s.head.Hash[:]),
		Read: s.read, Synced: s.synced, Format: chain.RecordFormat, Final: s.final, DiskFull: s.full.own,
	}
	if s.role == peers.Stopped {
		h.Objection, h.Misread = s.reason, s.misread
	}
	if !s.pending.IsZero() {
		h.Pending = now.Sub(s.pending)
	}
	if !s.written.IsZero() {
		silence := now.Sub(s.written)
		h.Silence = &silence
	}
	return h
}

// reached is a time at which this member had contact with the log. A state of the log is no contact: a server that is
// cut off goes on describing its log.
func (s state) reached(now time.Time) time.Time {
	switch {
	case s.role == peers.Active && !s.pending.IsZero():
		return s.pending
	case s.role == peers.Active, s.role == peers.Stopped, s.head.Entry == 0:
		return now // it has nothing to wait for
	}
	return s.sign
}

// servedWithin reports whether this generation of the log had an active member within d.
func (s state) servedWithin(d time.Duration, now time.Time) bool {
	return !s.served.IsZero() && now.Sub(s.served) < d
}

// silence is how long ago the active member was heard.
func (s state) silence(now time.Time) time.Duration { return now.Sub(s.sign) }

// fill is the part of the log's room that is taken, from 0 to 1; 0 if there is no limit.
func (s state) fill() float64 {
	if s.log.MaxBytes == 0 {
		return 0
	}
	return float64(s.log.Bytes) / float64(s.log.MaxBytes)
}
