package settles

import (
	"sync"
	"sync/atomic"
)

// reader reads bundles of settlements, the bundles of a queue one after another. A thousand leases take a
// millisecond to read. Here they take it from their own queue; in front of the lanes, where messages are read one
// after another, all queues would wait. Settlements that arrive at the queue meanwhile start behind the bundle, so
// the settlements of a lease keep their order.
type reader struct {
	start func(*Settlement) // one settlement, or a bundle

	queues atomic.Int64 // whose bundles are being read
	mu     sync.Mutex
	behind map[string][]*Settlement // by queue whose bundles are being read: what has to wait
}

func (r *reader) init(start func(*Settlement)) {
	r.start, r.behind = start, make(map[string][]*Settlement)
}

// submit starts a settlement, or a bundle, behind the settlements of its queue that came before.
func (r *reader) submit(s *Settlement) {
	if s.bundle == nil && r.queues.Load() == 0 || !r.waits(s) {
		r.start(s)
	}
}

// waits reports whether the settlement starts later, behind a bundle. A bundle does not block its caller.
func (r *reader) waits(s *Settlement) bool {
	queue := s.Subject.Queue
	r.mu.Lock()
	defer r.mu.Unlock()
	behind, reading := r.behind[queue]
	switch {
	case reading:
		r.behind[queue] = append(behind, s)
	case s.bundle != nil:
		r.behind[queue] = nil
		r.queues.Add(1)
		go r.read(queue, s)
	default:
		return false
	}
	return true
}

func (r *reader) read(queue string, s *Settlement) {
	for s != nil {
		r.start(s)
		s = r.next(queue)
	}
}

// next returns what arrived first behind the bundle, nil when nothing did.
func (r *reader) next(queue string) *Settlement {
	r.mu.Lock()
	defer r.mu.Unlock()
	behind := r.behind[queue]
	if len(behind) == 0 {
		delete(r.behind, queue)
		r.queues.Add(-1)
		return nil
	}
	first := behind[0]
	behind[0] = nil
	r.behind[queue] = behind[1:]
	return first
}
