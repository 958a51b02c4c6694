// Package lanes has calls at the same time go together.
//
// A lane has the calls of one kind on one queue of one client. While few of them are under way each goes at
// once, in a message of its own, as if there were no lane. Otherwise a call joins those that wait, and
// they leave together as soon as the goroutines that can run have run. None of them waits for an
// answer unless maxUnderWay messages are unanswered, so a slow link does not slow them down. Callers that
// one answer has woken call again together: bundles keep themselves together, without a timer.
//
// Calls leave in the order in which they came, whoever made them.
package lanes

import (
	"runtime"
	"slices"
	"sync"
)

const (
	fewUnderWay = 2  // with fewer messages under way a call goes at once
	maxUnderWay = 16 // with as many, calls wait for the next answer
	passes      = 3  // of the scheduler, before waiting calls leave
)

// Call is a call that may go in one message with others.
type Call[C any] interface {
	comparable
	Bytes() int            // that it adds to a message
	Apart() bool           // it has a message of its own
	GoesWith(other C) bool // in one message, as far as the kinds of calls are concerned
}

// Key says which calls may be of one lane.
type Key struct{ Queue, Subject string }

// Lanes are all lanes of a client for calls of one kind. A lane without calls is forgotten. Get them from [New].
type Lanes[C Call[C]] struct {
	bounds func() (calls, bytes int)
	send   func(Key, []C)

	mu sync.Mutex
	of map[Key]*lane[C]
}

type lane[C Call[C]] struct {
	waiting  []C
	apart    int  // how many of these have messages of their own, which wait for no answer
	leaving  bool // a goroutine is about to send them
	underWay int  // messages
}

// New returns lanes. bounds returns how many calls one message may have, and how many bytes of them. send sends
// calls, in one message, and does not wait for the answer. When that is there, or nobody wants to know it
// any more, the caller calls [Lanes.Land].
func New[C Call[C]](bounds func() (calls, bytes int), send func(Key, []C)) *Lanes[C] {
	return &Lanes[C]{bounds: bounds, send: send, of: make(map[Key]*lane[C])}
}

// Join brings a call to the lane of own if calls wait there, so that none overtakes another one, and
// otherwise to the lane of key. It reports whether the caller has to send it, at once and in a message of its
// own, and to call Land for that.
func (s *Lanes[C]) Join(own, key Key, c C) (at Key, alone bool) {
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
	if !l.busy() && (l.underWay < fewUnderWay || c.Apart()) {
		l.underWay++
		return key, true
	}
	l.waiting = append(l.waiting, c)
	if c.Apart() {
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
func (s *Lanes[C]) leave(key Key, l *lane[C]) {
	if !l.leaving && l.mayLeave() {
		l.leaving = true
		go s.run(key, l)
	}
}

// run sends what waits in a lane.
func (s *Lanes[C]) run(key Key, l *lane[C]) {
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
func (s *Lanes[C]) cut(l *lane[C]) []C {
	most, room := s.bounds()
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for ; n < min(len(l.waiting), most); n++ {
		c, first := l.waiting[n], l.waiting[0]
		room -= c.Bytes()
		if n > 0 && (room < 0 || first.Apart() || c.Apart() || !c.GoesWith(first)) {
			break
		}
	}
	if n == 0 {
		return nil // all were cancelled
	}
	calls := slices.Clone(l.waiting[:n])
	if calls[0].Apart() {
		l.apart--
	}
	l.waiting = slices.Delete(l.waiting, 0, n)
	l.underWay++
	return calls
}

// rests reports whether nothing may leave a lane.
func (s *Lanes[C]) rests(key Key, l *lane[C]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.leaving = l.mayLeave()
	s.forget(key, l)
	return !l.leaving
}

// Land says that a message is not under way any more.
func (s *Lanes[C]) Land(key Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.of[key]
	l.underWay--
	s.leave(key, l)
	s.forget(key, l)
}

// TakeOut takes a call out of those that wait, and reports false if it is under way, or answered.
func (s *Lanes[C]) TakeOut(key Key, c C) bool {
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
	if c.Apart() {
		l.apart--
	}
	s.forget(key, l)
	return true
}

// PutBack has calls wait in front of all others again: their message has landed, and had nothing for them.
func (s *Lanes[C]) PutBack(key Key, calls []C) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.of[key]
	l.waiting = slices.Insert(l.waiting, 0, calls...)
}

// forget drops a lane that nothing depends on.
func (s *Lanes[C]) forget(key Key, l *lane[C]) {
	if l.underWay == 0 && !l.busy() {
		delete(s.of, key)
	}
}

// Len is how many lanes there are.
func (s *Lanes[C]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.of)
}

// Waiting is how many calls of a queue have not left yet.
func (s *Lanes[C]) Waiting(queue string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, l := range s.of {
		if key.Queue == queue {
			n += len(l.waiting)
		}
	}
	return n
}

// MaxTogether is how many bytes a call has at most that goes with others.
const MaxTogether = 16 << 10

// The bounds of the calls of a message, in bytes.
const (
	maxBytes = 256 << 10
	share    = 4 // of the largest message of the server they have at most this part
)

// Bytes is how many bytes the calls of a message may have where the server takes messages of largest bytes.
func Bytes(largest int64) int { return min(maxBytes, int(largest)/share) }

// Rights are what the user of a connection is known to be allowed, by queues. Get them from [NewRights].
type Rights struct {
	connection func() uint64 // the number of the present one

	mu     sync.Mutex
	on     uint64          // the number of the connection
	queues map[string]bool // of that connection
}

// mostRights is how many queues are remembered. What was forgotten is found out again.
const mostRights = 4096

// NewRights returns rights of which nothing is known. connection returns the number of the present connection: those of an
// earlier one may have been others.
func NewRights(connection func() uint64) *Rights { return &Rights{connection: connection} }

// Of returns what is known of a queue.
func (r *Rights) Of(queue string) (may, known bool) {
	n := r.connection()
	r.mu.Lock()
	defer r.mu.Unlock()
	if n != r.on {
		return false, false
	}
	may, known = r.queues[queue]
	return may, known
}

// Set notes what the user is allowed on a queue.
func (r *Rights) Set(queue string, may bool) {
	n := r.connection()
	r.mu.Lock()
	defer r.mu.Unlock()
	if n != r.on || r.queues == nil {
		r.on, r.queues = n, make(map[string]bool)
	}
	if _, known := r.queues[queue]; !known && len(r.queues) >= mostRights {
		for some := range r.queues {
			delete(r.queues, some)
			break
		}
	}
	r.queues[queue] = may
}
