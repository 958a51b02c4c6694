package gateway

import (
	"slices"
	"sync"
)

// maxUnread bounds the bytes of answers that clients have not read yet. Half of it is for one address.
const maxUnread = 64 << 20

// outbox has the answers on their way. A request gives its place back before its answer is written, so clients that
// read slowly keep no places. Beyond its bound the outbox cuts off the connection that has taken longest to read
// its answer: such a client loses the answer, and others go on.
type outbox struct {
	most int64

	mu  sync.Mutex
	sum int64
	of  map[source]int64
	all []*sending // the oldest first
}

// sending is an answer on its way.
type sending struct {
	to   source
	size int64
	cut  func() // ends it; called once at most, and never after it has left
}

func newOutbox(most int64) *outbox { return &outbox{most: most, of: make(map[source]int64)} }

// begin adds an answer until leave is called.
func (o *outbox) begin(to source, size int64, cut func()) (leave func()) {
	s := &sending{to: to, size: size, cut: cut}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, s)
	o.sum += size
	o.of[to] += size
	for o.of[to] > o.most/2 && o.cutOldest(to) {
	}
	for o.sum > o.most && o.cutOldest(o.largest()) {
	}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.drop(s)
	}
}

// cutOldest ends the oldest answer on its way to an address, and reports whether there was one.
func (o *outbox) cutOldest(to source) bool {
	i := slices.IndexFunc(o.all, func(s *sending) bool { return s.to == to })
	if i < 0 {
		return false
	}
	oldest := o.all[i]
	o.drop(oldest)
	oldest.cut()
	return true
}

// largest is the address with the most bytes on their way.
func (o *outbox) largest() (largest source) {
	for who, size := range o.of {
		if size > o.of[largest] {
			largest = who
		}
	}
	return largest
}

// drop removes an answer, unless it was cut before.
func (o *outbox) drop(s *sending) {
	i := slices.Index(o.all, s)
	if i < 0 {
		return
	}
	o.all = slices.Delete(o.all, i, i+1)
	o.sum -= s.size
	if o.of[s.to] -= s.size; o.of[s.to] == 0 {
		delete(o.of, s.to)
	}
}
