package client

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A lane has the calls of one kind on one queue of one client. While few of them are under way each goes at
// once, in a message of its own, as if there were no lane. Otherwise a call joins those that wait, and
// they leave together as soon as the goroutines that can run have run. None of them waits for an
// answer unless maxUnderWay messages are unanswered, so a slow link does not slow them down. Callers that
// one answer has woken call again together: bundles keep themselves together, without a timer.
//
// Calls leave in the order in which they came, whoever made them.

const (
	fewUnderWay = 2  // with fewer messages under way a call goes at once
	maxUnderWay = 16 // with as many, calls wait for the next answer
	passes      = 3  // of the scheduler, before waiting calls leave
)

// laneCall is a call that may go in one message with others.
type laneCall[C any] interface {
	comparable
	bytes() int            // that it adds to a message
	apart() bool           // it has a message of its own
	goesWith(other C) bool // in one message, as far as the kinds of calls are concerned
}

// laneKey says which calls may be of one lane.
type laneKey struct{ queue, subject string }

// lanes are all lanes of a client for calls of one kind. A lane without calls is forgotten.
type lanes[C laneCall[C]] struct {
	// bounds returns how many calls one message may have, and how many bytes of them.
	bounds func() (calls, bytes int)

	// send sends calls, in one message, and does not wait for the answer. When it is there, or nobody
	// wants to know it any more, land has to be called.
	send func(key laneKey, calls []C)

	mu sync.Mutex
	of map[laneKey]*lane[C]
}

type lane[C laneCall[C]] struct {
	waiting  []C
	apart    int  // how many of these have messages of their own, which wait for no answer
	leaving  bool // a goroutine is about to send them
	underWay int  // messages
}

// apartFor is how long calls go alone after a bridge that does not know their bundles: others may be of an earlier version, too.
const apartFor = time.Minute

// apart says until when calls go alone.
type apart struct{ until atomic.Pointer[time.Time] }

func (a *apart) begin() { a.until.Store(new(time.Now().Add(apartFor))) }

func (a *apart) lasts() bool {
	until := a.until.Load()
	return until != nil && time.Now().Before(*until)
}

func newLanes[C laneCall[C]](bounds func() (calls, bytes int), send func(laneKey, []C)) *lanes[C] {
	return &lanes[C]{bounds: bounds, send: send, of: make(map[laneKey]*lane[C])}
}

// join brings a call to the lane of own if calls wait there, so that none overtakes another one, and
// otherwise to the lane of key. It reports whether the caller has to send it, at once and in a message of its
// own, and to call land for that.
func (s *lanes[C]) join(own, key laneKey, c C) (at laneKey, alone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.of[own]; l != nil && l.busy() {
		key = own
	}
	l := s.of[key]
	if l == nil {
		l = &lane[C]{}
		s.of[key] = l
	}
	if !l.busy() && (l.underWay < fewUnderWay || c.apart()) {
		l.underWay++
		return key, true
	}
	l.waiting = append(l.waiting, c)
	if c.apart() {
		l.apart++
	}
	s.leave(key, l)
	return key, false
}

// busy reports whether a call that went now would overtake another one.
func (l *lane[C]) busy() bool { return l.leaving || len(l.waiting) > 0 }

// mayLeave reports whether a message may go.
func (l *lane[C]) mayLeave() bool {
	return len(l.waiting) > 0 && (l.underWay < maxUnderWay || l.apart > 0)
}

// leave has the calls of a lane sent, if they may go and are not about to.
func (s *lanes[C]) leave(key laneKey, l *lane[C]) {
	if !l.leaving && l.mayLeave() {
		l.leaving = true
		go s.run(key, l)
	}
}

// run sends what waits in a lane.
func (s *lanes[C]) run(key laneKey, l *lane[C]) {
	for {
		for range passes {
			runtime.Gosched()
		}
		calls := s.cut(l)
		if len(calls) > 0 {
			s.send(key, calls)
		}
		if s.rests(key, l) {
			return
		}
	}
}

// cut takes the first calls that wait, as many as one message may have.
func (s *lanes[C]) cut(l *lane[C]) []C {
	most, room := s.bounds()
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for ; n < min(len(l.waiting), most); n++ {
		c, first := l.waiting[n], l.waiting[0]
		room -= c.bytes()
		if n > 0 && (room < 0 || first.apart() || c.apart() || !c.goesWith(first)) {
			break
		}
	}
	if n == 0 {
		return nil // all were cancelled
	}
	calls := slices.Clone(l.waiting[:n])
	if calls[0].apart() {
		l.apart--
	}
	l.waiting = slices.Delete(l.waiting, 0, n)
	l.underWay++
	return calls
}

// rests reports whether nothing may leave a lane.
func (s *lanes[C]) rests(key laneKey, l *lane[C]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.leaving = l.mayLeave()
	s.forget(key, l)
	return !l.leaving
}

// land says that a message is not under way any more.
func (s *lanes[C]) land(key laneKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.of[key]
	l.underWay--
	s.leave(key, l)
	s.forget(key, l)
}

// takeOut takes a call out of those that wait, and reports false if it is under way, or answered.
func (s *lanes[C]) takeOut(key laneKey, c C) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.of[key]
	if l == nil {
		return false
	}
	i := slices.Index(l.waiting, c)
	if i < 0 {
		return false
	}
	l.waiting = slices.Delete(l.waiting, i, i+1)
	if c.apart() {
		l.apart--
	}
	s.forget(key, l)
	return true
}

// putBack has calls wait in front of all others again: their message has landed, and had nothing for them.
func (s *lanes[C]) putBack(key laneKey, calls []C) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.of[key]
	l.waiting = slices.Insert(l.waiting, 0, calls...)
}

// forget drops a lane that nothing depends on.
func (s *lanes[C]) forget(key laneKey, l *lane[C]) {
	if l.underWay == 0 && !l.busy() {
		delete(s.of, key)
	}
}
