package batch

import "time"

// Lane gathers the requests for a key that arrive while a batch of that key runs.
type Lane[R any] struct {
	of     *Lanes[R]
	worker Worker[R]
	keys   chan string // the key to serve next; closed to end the lane

	// Guarded by of.mu.
	pending []R
	joined  []R
	kicked  bool
	busy    bool        // a transaction is under way
	relief  *time.Timer // calls relieve when it takes too long

	now Batch[R]
}

func (l *Lane[R]) run() {
	for key := range l.keys {
		l.worker.Begin(key)
		for l.next(key) {
			l.worker.Work(l.now)
			clear(l.now.Requests)
			clear(l.now.Joined)
			l.now.Requests, l.now.Joined = l.now.Requests[:0], l.now.Joined[:0]
		}
	}
}

// next makes the next batch, within its limits. Without work the lane becomes idle.
func (l *Lane[R]) next(key string) bool {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if len(l.pending) == 0 && len(l.joined) == 0 && !l.kicked {
		delete(l.of.active, key)
		if l.of.stopped || len(l.of.idle) == maxIdle {
			close(l.keys)
		} else {
			l.of.idle = append(l.of.idle, l)
		}
		return false
	}
	l.now.Kicked, l.kicked = l.kicked, false
	l.now.Requests = shift(l.now.Requests, &l.pending, l.of.options.fitting(l.pending))
	l.now.Joined = shift(l.now.Joined, &l.joined, min(l.of.options.Limits.Requests, len(l.joined)))
	return true
}

// fitting returns how many requests go into one batch: at least one.
func (o *Options[R]) fitting(pending []R) int {
	bytes := 0
	for i, r := range pending {
		bytes += o.Size(r)
		if i > 0 && (i == o.Limits.Requests || bytes > o.Limits.Bytes) {
			return i
		}
	}
	return len(pending)
}

// shift moves the first n requests of a line to an empty list. A whole line and the
// list change places, so that the memory of both is used again.
func shift[R any](to []R, line *[]R, n int) []R {
	from := *line
	if n == len(from) {
		*line = to
		return from
	}
	to = append(to, from[:n]...)
	left := copy(from, from[n:])
	clear(from[left:])
	*line = from[:left]
	return to
}

// Arrived removes and returns requests that have arrived while the batch runs, up to a
// number of submitted ones and a number of joined ones.
func (l *Lane[R]) Arrived(requests, joined int) (came, along []R) {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	came = shift(nil, &l.pending, min(max(0, requests), len(l.pending)))
	return came, shift(nil, &l.joined, min(max(0, joined), len(l.joined)))
}

// SetBusy reports whether a transaction is under way. Requests that wait behind one
// for too long are handed back.
func (l *Lane[R]) SetBusy(busy bool) {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	l.busy = busy
	switch {
	case busy && l.relief == nil:
		l.relief = time.AfterFunc(l.of.options.Patience.First, l.relieve)
	case busy:
		l.relief.Reset(l.of.options.Patience.First)
	}
}

func (l *Lane[R]) relieve() {
	if late, stuck := l.late(); stuck {
		l.of.options.Stuck(late)
	}
}

// late removes the requests that have waited for too long from the lane, in their
// order, and sets the timer again. A transaction that has ended is not stuck.
func (l *Lane[R]) late() (late []R, stuck bool) {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if !l.busy {
		return nil, false
	}
	patience := l.of.options.Patience.Then
	l.relief.Reset(patience)
	for _, line := range []*[]R{&l.pending, &l.joined} {
		n := 0
		for n < len(*line) && l.of.options.Waited((*line)[n]) >= patience {
			n++
		}
		late = append(late, shift(nil, line, n)...)
	}
	return late, true
}
