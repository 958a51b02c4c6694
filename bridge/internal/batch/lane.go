package batch

import "time"

// Lane does the batches of one key at a time, one batch after another.
type Lane[R any] struct {
	of     *Lanes[R]
	worker Worker[R]
	lines  chan *queueLine[R] // the line to serve next; closed to end the lane
	line   *queueLine[R]      // the line that it serves

	now []R // the present batch

	// Guarded by of.mu.
	busy   bool        // a transaction is under way
	relief *time.Timer // calls relieve when it takes too long
}

func (l *Lane[R]) run() {
	for l.line = range l.lines {
		l.worker.Begin(l.line.key)
		for l.next() {
			l.worker.Work(l.now)
			clear(l.now)
			l.now = l.now[:0]
		}
	}
}

// next makes the next batch. Without work the lane becomes idle.
func (l *Lane[R]) next() bool {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	line, o := l.line, &l.of.options
	if l.now = shift(l.now, &line.pending, o.fitting(line.pending)); len(l.now) > 0 {
		return true
	}
	l.of.rest(l)
	return false
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

// shift moves the first n requests of a line to an empty list. If these are all requests, the line and the list change
// places, so that the memory of both is used again.
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

// SetBusy says whether a transaction is under way. Stuck gets the requests that wait for too long behind it.
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

// late removes the requests that have waited for too long from the line, in their order, and sets the timer again.
// stuck is false when the transaction has ended meanwhile.
func (l *Lane[R]) late() (late []R, stuck bool) {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if !l.busy {
		return nil, false
	}
	o := &l.of.options
	l.relief.Reset(o.Patience.Then)
	return shiftLate(&l.line.pending, o.Patience.Then, o.Waited), true
}

// shiftLate removes the first requests of a line, as far as they have waited for longer than patience.
func shiftLate[R any](line *[]R, patience time.Duration, waited func(R) time.Duration) []R {
	n := 0
	for n < len(*line) && waited((*line)[n]) >= patience {
		n++
	}
	return shift(nil, line, n)
}
