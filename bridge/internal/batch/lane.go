package batch

import "time"

// Lane does the batches of one key at a time, one batch after another.
type Lane[R, J any] struct {
	of     *Lanes[R, J]
	worker Worker[R, J]
	lines  chan *queueLine[R, J] // the line to serve next; closed to end the lane
	line   *queueLine[R, J]      // the line that it serves

	now Batch[R, J]

	// Guarded by of.mu.
	busy   bool        // a transaction is under way
	relief *time.Timer // calls relieve when it takes too long
}

func (l *Lane[R, J]) run() {
	for l.line = range l.lines {
		l.worker.Begin(l.line.key)
		for l.next() {
			l.worker.Work(l.now)
			clear(l.now.Requests)
			clear(l.now.Joined)
			l.now = Batch[R, J]{Requests: l.now.Requests[:0], Joined: l.now.Joined[:0]}
		}
	}
}

// next makes the next batch. Without work the lane becomes idle.
func (l *Lane[R, J]) next() bool {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	line, o := l.line, &l.of.options
	l.now.Woken, line.woken = line.woken, false
	l.now.Requests = shift(l.now.Requests, &line.pending, o.fitting(line.pending))
	l.now.Joined = shift(l.now.Joined, &line.joined, min(o.Limits.Requests, len(line.joined)))
	if len(l.now.Requests)+len(l.now.Joined) > 0 || l.now.Woken {
		return true
	}
	l.of.rest(l)
	return false
}

// fitting returns how many requests go into one batch: at least one.
func (o *Options[R, J]) fitting(pending []R) int {
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

// Arrived removes and returns requests that have arrived while the batch runs, up to a
// number of submitted ones and a number of joined ones.
func (l *Lane[R, J]) Arrived(requests, joined int) (came []R, along []J) {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	came = shift(nil, &l.line.pending, min(max(0, requests), len(l.line.pending)))
	return came, shift(nil, &l.line.joined, min(max(0, joined), len(l.line.joined)))
}

// SetBusy says whether a transaction is under way. Stuck gets the requests that wait for too long behind it.
func (l *Lane[R, J]) SetBusy(busy bool) {
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

func (l *Lane[R, J]) relieve() {
	late, joined, stuck := l.late()
	if stuck {
		l.of.options.Stuck(late)
	}
	if len(joined) > 0 {
		l.of.options.Joins.Stuck(joined)
	}
}

// late removes the requests that have waited for too long from the line, in their order, and sets the timer again.
// stuck is false when the transaction has ended meanwhile.
func (l *Lane[R, J]) late() (late []R, joined []J, stuck bool) {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if !l.busy {
		return nil, nil, false
	}
	o := &l.of.options
	l.relief.Reset(o.Patience.Then)
	return shiftLate(&l.line.pending, o.Patience.Then, o.Waited), shiftLate(&l.line.joined, o.Patience.Then, o.Joins.Waited), true
}

// shiftLate removes the first requests of a line, as far as they have waited for longer than patience.
func shiftLate[R any](line *[]R, patience time.Duration, waited func(R) time.Duration) []R {
	n := 0
	for n < len(*line) && waited((*line)[n]) >= patience {
		n++
	}
	return shift(nil, line, n)
}
