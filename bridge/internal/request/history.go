package request

import (
	"math"
	"time"

	"github.com/pqbridge/pqbridge/protocol"
)

const (
	historyStep  = time.Minute
	historySteps = 60 // besides the one under way
)

// A step counts more than the flows: for a queue its lengths at the end of the step, each plus one, because 0 means
// unknown; for all queues together failures.
const (
	ofReady = int(flowKinds) + iota // of a queue
	ofLeased
	ofDelayed
	series

	ofFailed     = ofReady // of all queues
	ofDead       = ofLeased
	ofLeasesLost = ofDelayed
)

// ring has the numbers of the last steps, of each in its place.
type ring struct {
	step   int64 // the latest one
	points [historySteps + 1][series]uint32
}

// stepOf is the number of a step: full minutes of the wall clock. They go on when it is set back, or the steps of the last hour
// would be those of one to come, and what happens until then would count for none. The lock is held.
func (s *Statistics) stepOf(now time.Time) int64 {
	if back := now.Sub(s.looked) - now.Round(0).Sub(s.looked.Round(0)); back >= historyStep {
		s.setBack += int64((back + historyStep - 1) / historyStep)
	}
	s.looked = now
	return now.Unix()/int64(historyStep/time.Second) + s.setBack
}

// at returns the numbers of a step, and forgets steps that are too old by then; nil if the step itself is.
func (r *ring) at(step int64) *[series]uint32 {
	if step > r.step {
		for s := max(r.step+1, step-historySteps); s <= step; s++ {
			r.points[s%(historySteps+1)] = [series]uint32{}
		}
		r.step = step
	}
	if step < r.step-historySteps {
		return nil
	}
	return &r.points[step%(historySteps+1)]
}

// count adds to a number, which stops at its greatest value.
func (r *ring) count(step int64, what int, n int64) {
	if p := r.at(step); p != nil {
		p[what] = uint32(min(int64(p[what])+n, math.MaxUint32))
	}
}

// set sets a number to n, or to its greatest value.
func (r *ring) set(step int64, what int, n int64) {
	if p := r.at(step); p != nil {
		p[what] = uint32(min(n, math.MaxUint32))
	}
}

// past returns a number of the steps before one, the oldest first.
func (r *ring) past(step int64, what int) []int64 {
	r.at(step)
	all := make([]int64, historySteps)
	for i := range all {
		all[i] = int64(r.points[(r.step-historySteps+int64(i))%(historySteps+1)][what])
	}
	return all
}

// lengths returns a length of a queue after each of these steps, nil where it is unknown.
func (r *ring) lengths(step int64, what int) []*int64 {
	all := make([]*int64, historySteps)
	for i, n := range r.past(step, what) {
		if n > 0 {
			all[i] = new(n - 1)
		}
	}
	return all
}

// Lengths are how many items a queue has in each state.
type Lengths struct{ Ready, Leased, Delayed int64 }

// history returns the part that all histories have: the flows before a step.
func (s *Statistics) history(r *ring, step int64) *protocol.History {
	return &protocol.History{
		Step: historyStep.Seconds(), End: time.Unix((step-s.setBack)*int64(historyStep/time.Second), 0).UTC(),
		Push: r.past(step, int(FlowIn)), Pop: r.past(step, int(FlowOut)), Settle: r.past(step, int(FlowSettled)), Nacked: r.past(step, int(FlowFailed)),
	}
}

// QueueHistory has the flows of a queue through this bridge in the last hour, and its lengths.
func (s *Statistics) QueueHistory(queue string) *protocol.History {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	r := new(ring)
	if q := s.queues[queue]; q != nil {
		r = &q.ring
	}
	step := s.stepOf(now)
	h := s.history(r, step)
	h.Ready, h.Leased, h.Delayed = r.lengths(step, ofReady), r.lengths(step, ofLeased), r.lengths(step, ofDelayed)
	return h
}

// History has the flows of all queues through this bridge in the last hour.
func (s *Statistics) History() *protocol.History {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	step := s.stepOf(now)
	h := s.history(&s.all, step)
	h.Failed, h.Dead, h.LeasesLost = s.all.past(step, ofFailed), s.all.past(step, ofDead), s.all.past(step, ofLeasesLost)
	return h
}

// UntilStep is how long the step under way goes on.
func UntilStep() time.Duration {
	return historyStep - time.Duration(time.Now().UnixNano()%int64(historyStep))
}

// EndStep notes the failures of the step that has just ended, forgets the queues that were idle for longer than
// histories last, and returns the others, whose lengths are worth a look.
func (s *Statistics) EndStep() (active []string) {
	failed := int64(0)
	for i := range s.Verbs {
		_, errors := s.Verbs[i].Requests()
		failed += errors
	}
	tally := s.Queues.all()
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for what, n := range map[int]int64{ofFailed: failed, ofDead: tally[Dead], ofLeasesLost: tally[LeasesLost]} {
		s.all.count(s.stepOf(now)-1, what, n-s.noted[what])
		s.noted[what] = n
	}
	for name, q := range s.queues {
		if now.Sub(q.last()) > historySteps*historyStep {
			s.forget(name)
			continue
		}
		active = append(active, name)
	}
	return active
}

// SetLengths notes the lengths of queues at the end of the last step. A queue that was looked at and not found does
// not exist any more.
func (s *Statistics) SetLengths(looked []string, found map[string]Lengths) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range looked {
		q := s.queues[name]
		l, is := found[name]
		switch {
		case q == nil:
		case !is:
			s.forget(name)
		default:
			for what, n := range map[int]int64{ofReady: l.Ready, ofLeased: l.Leased, ofDelayed: l.Delayed} {
				q.ring.set(s.stepOf(now)-1, what, n+1)
			}
		}
	}
}

// last is when the queue was last active.
func (q *flows) last() (t time.Time) {
	for _, r := range q.rates {
		if r.at.After(t) {
			t = r.at
		}
	}
	return t
}

// Forget forgets the flows of a queue that was deleted.
func (s *Statistics) Forget(queue string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queues[queue] != nil {
		s.forget(queue)
	}
}

// forget forgets a queue. Its time does not depend on the number of queues, because items of all queues wait to be
// counted meanwhile.
func (s *Statistics) forget(queue string) {
	s.recent.Remove(s.queues[queue].place)
	delete(s.queues, queue)
}
