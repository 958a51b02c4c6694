package turns

import (
	"slices"
	"time"
)

// lines are all lines with requests, and the order in which turns take from them.
type lines[R, T any] struct {
	options *Options[R, T]
	all     map[Key]*line[R]
	free    []*line[R] // to be used again

	ready []*line[R] // may be taken from, in the order in which they became so
	apart []*line[R] // the same, of lines that run alone

	separate marks[Key] // lines that run alone
	serial   marks[Key] // lines whose turns follow one another

	again func(*line[R]) // is called when a line has waited for more requests
}

const (
	// largePart: a request that takes more than this part of a turn's room runs without other lines.
	largePart = 4

	// separateTime is how long a line runs alone; one that took long at least so many times as long as it took, since the other lines
	// of its turn have waited for it.
	separateTime = time.Second
	slowTimes    = 10
	slowMost     = time.Minute

	// How long the turns of a line follow one another after a conflict, and after [ErrFollow].
	conflictTime = time.Second
	followTime   = 10 * time.Second

	// maxFree bounds the lines to be used again.
	maxFree = 64
)

// line returns a line, which need not have work.
func (ls *lines[R, T]) line(key Key) *line[R] {
	l := ls.all[key]
	if l != nil {
		return l
	}
	if n := len(ls.free); n > 0 {
		l, ls.free = ls.free[n-1], ls.free[:n-1]
	} else {
		l = new(line[R])
	}
	l.key = key
	ls.all[key] = l
	return l
}

// wake gives a line a turn, with requests or without.
func (ls *lines[R, T]) wake(key Key) {
	l := ls.line(key)
	l.woken = true
	if l.turns == 0 {
		ls.enter(l)
	}
}

// add appends a request to a line.
func (ls *lines[R, T]) add(key Key, r R) {
	l := ls.line(key)
	l.add(r, ls.goesAhead(r))
	if l.turns == 0 {
		ls.enter(l)
		return
	}
	if overlap := &ls.options.Overlap; overlap.Turns > 0 {
		if source := overlap.Source(r); source != "" && l.held[source] == nil {
			ls.await(l)
		}
	}
}

// goesAhead reports whether a request goes ahead of those that do not.
func (ls *lines[R, T]) goesAhead(r R) bool { return ls.options.Ahead != nil && ls.options.Ahead(r) }

// enter puts a line with requests behind the others that may be taken from.
func (ls *lines[R, T]) enter(l *line[R]) {
	if l.listed {
		return
	}
	l.listed = true
	if ls.runsAlone(l) {
		ls.apart = append(ls.apart, l)
	} else {
		ls.ready = append(ls.ready, l)
	}
}

// runsAlone reports whether no other line may be in the line's next turn.
func (ls *lines[R, T]) runsAlone(l *line[R]) bool {
	if l.alone || ls.separate.has(l.key) {
		return true
	}
	if len(l.pending) == 0 {
		return false
	}
	o, first := ls.options, l.pending[0]
	return o.Weight(first) > o.Limits.Requests/largePart || o.Size(first) > o.Limits.Bytes/largePart
}

// await has a line that is in a turn wait for more requests, unless as many turns as allowed have requests of it, or its
// turns follow one another.
func (ls *lines[R, T]) await(l *line[R]) {
	overlap := &ls.options.Overlap
	if l.waits || l.listed || l.turns > overlap.Turns || ls.serial.has(l.key) {
		return
	}
	l.waits = true
	pause := l.pause(overlap.Least)
	if l.timer == nil {
		l.timer = time.AfterFunc(pause, func() { ls.again(l) })
	} else {
		l.timer.Reset(pause)
	}
}

// waited ends the wait of a line for more requests.
func (ls *lines[R, T]) waited(l *line[R]) {
	if !l.waits { // its requests are in a turn
		return
	}
	l.waits = false
	if len(l.pending) > 0 { // otherwise they were handed back
		ls.enter(l)
	}
}

// blocked reports whether no further turn may have requests of a line that is in a turn.
func (ls *lines[R, T]) blocked(l *line[R]) bool { return l.held[""] != nil || ls.serial.has(l.key) }

// leave ends what a turn had of a line. took is the time of the turn.
func (ls *lines[R, T]) leave(s *share[R, T], took time.Duration) {
	l := s.line
	l.took(took)
	ahead := 0
	for ahead < len(s.back) && ls.goesAhead(s.back[ahead]) {
		ahead++
	}
	l.leave(&s.taken, s.back, ahead)
	if s.follows {
		ls.serial.add(followTime, l.key)
	}
	if s.apart {
		ls.separate.add(min(max(separateTime, slowTimes*s.slow), slowMost), l.key)
	}
	l.alone, l.woken = l.alone || s.alone, l.woken || s.more
	switch {
	case l.idle():
		ls.forget(l)
	case l.turns == 0 || !l.waits && !ls.blocked(l):
		ls.enter(l)
	}
}

// forget drops a line that has nothing to do.
func (ls *lines[R, T]) forget(l *line[R]) {
	if l.turns > 0 || !l.idle() || l.listed {
		return
	}
	delete(ls.all, l.key)
	l.meanTime, l.alone = 0, false
	if len(ls.free) < maxFree {
		ls.free = append(ls.free, l)
	}
}

// late removes requests that have waited for too long from lines that do not move.
func (ls *lines[R, T]) late(of ...*line[R]) (late []R) {
	for _, l := range of {
		late = append(late, l.late(ls.options.Patience.Then, ls.options.Waited)...)
	}
	return late
}

// Overlap lets several turns have requests of one line at the same time. A line that is in a turn may be taken from again
// when its first request has waited for an eighth of the mean time of the line's turns. So a request waits for little more
// than its own turn. Turns do not get much smaller: clients whose requests were answered together send the next ones together.
type Overlap[R any] struct {
	// Turns is how many turns may have requests of a line beside the first one. Zero: there is one turn at a time.
	Turns int

	// Least is the shortest wait of a request for more requests. Turns that take little longer follow one another.
	Least time.Duration

	// Source says where a request comes from. Requests of one source keep their order: they are in one turn, or in turns that
	// follow one another. A request without a source keeps its order to all requests.
	Source func(R) string
}

// overlapPart is the part of the mean time of a turn for which requests wait for more requests.
const overlapPart = 8

// meanWeight is the weight of the moving average: a new turn counts 1/16.
const meanWeight = 16

// maxSkipped bounds the requests that an overlapping turn looks through. The line is long when a client sends many
// requests without waiting for answers.
const maxSkipped = 4096

// Key names a line: requests of one kind for one queue.
type Key struct {
	Kind  int // of their part
	Queue string
}

// line has the requests that wait for turns.
type line[R any] struct {
	key     Key
	pending []R
	ahead   int  // so many of the first go ahead of the others
	woken   bool // there may be work without a request
	listed  bool // it may be taken from, see lines.ready and apart
	alone   bool // its next turn has no other line

	turns    int                   // that have requests of it
	meanTime time.Duration         // of a turn
	held     map[string]*picked[R] // by source: has requests of it in a turn
	timer    *time.Timer           // has an overlapping turn take from the line
	waits    bool                  // the timer runs
}

// picked are requests that were taken from a line.
type picked[R any] struct {
	requests []R
	ahead    int // so many of the first go ahead of the others
	weight   int
	bytes    int
	sources  []string // that it holds
}

// allowance is what may still be taken.
type allowance[R any] struct {
	weight, bytes  int
	weightOf, size func(R) int
}

func (r *allowance[R]) empty() bool { return r.weight <= 0 || r.bytes <= 0 }

// fits reports whether there is room for a request.
func (r *allowance[R]) fits(request R) bool {
	return r.weightOf(request) <= r.weight && r.size(request) <= r.bytes
}

// count gives a request some of the room.
func (t *picked[R]) count(r R, left *allowance[R]) {
	weight, bytes := left.weightOf(r), left.size(r)
	left.weight, left.bytes = left.weight-weight, left.bytes-bytes
	t.weight, t.bytes = t.weight+weight, t.bytes+bytes
}

// add appends a request, or inserts it before those that do not go ahead.
func (l *line[R]) add(r R, ahead bool) {
	if !ahead {
		l.pending = append(l.pending, r)
		return
	}
	l.pending = slices.Insert(l.pending, l.ahead, r)
	l.ahead++
}

// idle reports whether there is nothing to do.
func (l *line[R]) idle() bool { return len(l.pending) == 0 && !l.woken }

// took adds the time of a turn to the mean time.
func (l *line[R]) took(d time.Duration) {
	if d > 0 {
		l.meanTime += (d - l.meanTime) / meanWeight
	}
}

// pause is how long a request waits for more requests before an overlapping turn takes it.
func (l *line[R]) pause(least time.Duration) time.Duration { return max(least, l.meanTime/overlapPart) }

// take takes the first requests of the line, as far as there is room. force has it take one although there is none. Requests that go
// ahead take room first; the others have half of it all the same, so that neither keeps the other waiting.
func (l *line[R]) take(to *picked[R], overlap *Overlap[R], left allowance[R], force bool) {
	from := len(to.requests)
	half := left
	half.weight, half.bytes = (left.weight+1)/2, (left.bytes+1)/2
	n := l.fitting(0, l.ahead, to, &left, force)
	left.weight, left.bytes = max(left.weight, half.weight), max(left.bytes, half.bytes)
	m := l.fitting(l.ahead, len(l.pending), to, &left, force && n == 0)
	if n == 0 && l.ahead == 0 || n == l.ahead && from == 0 {
		to.requests = shift(to.requests, &l.pending, n+m)
		l.ahead = 0
	} else {
		to.requests = slices.Insert(to.requests, to.ahead, l.pending[:n]...)
		to.requests = append(to.requests, l.pending[l.ahead:l.ahead+m]...)
		l.drop(n, m)
	}
	to.ahead += n
	if overlap.Turns > 0 {
		for _, r := range to.requests[from:] {
			l.hold(to, overlap.Source(r))
		}
	}
}

// fitting gives room to the first requests of a part of the line, and returns how many there are.
func (l *line[R]) fitting(from, to int, of *picked[R], left *allowance[R], force bool) (n int) {
	for from+n < to && (force && n == 0 || left.fits(l.pending[from+n])) {
		of.count(l.pending[from+n], left)
		n++
	}
	return n
}

// takeBeside does the same while other turns have requests of the line: it takes those that may run at the same time.
func (l *line[R]) takeBeside(to *picked[R], overlap *Overlap[R], left allowance[R], force bool) {
	rest := l.pending[:0]
	for i, r := range l.pending {
		if i == maxSkipped {
			rest = append(rest, l.pending[i:]...)
			break
		}
		source := overlap.Source(r)
		if by := l.held[source]; by != nil && by != to {
			rest = append(rest, r)
			continue
		}
		if source == "" || !force && !left.fits(r) {
			rest = append(rest, l.pending[i:]...)
			break
		}
		force = false
		to.count(r, &left)
		to.requests = append(to.requests, r)
		l.hold(to, source)
	}
	clear(l.pending[len(rest):])
	l.pending = rest
}

// hold gives a source to requests in a turn, among which is one of it.
func (l *line[R]) hold(t *picked[R], source string) {
	if l.held[source] != nil {
		return
	}
	if l.held == nil {
		l.held = make(map[string]*picked[R])
	}
	l.held[source] = t
	t.sources = append(t.sources, source)
}

// leave ends a turn with requests of the line. Those that come back are the first ones again; so many of them go ahead.
func (l *line[R]) leave(t *picked[R], back []R, ahead int) {
	l.turns--
	for _, source := range t.sources {
		delete(l.held, source)
	}
	if len(back) > 0 {
		l.pending = slices.Concat(back[:ahead], l.pending[:l.ahead], back[ahead:], l.pending[l.ahead:])
		l.ahead += ahead
	}
}

// late removes the first requests of the line, as far as they have waited for longer than patience.
func (l *line[R]) late(patience time.Duration, waited func(R) time.Duration) (late []R) {
	first := func(of []R) (n int) {
		for n < len(of) && waited(of[n]) >= patience {
			n++
		}
		return n
	}
	n, m := first(l.pending[:l.ahead]), first(l.pending[l.ahead:])
	late = append(append(late, l.pending[:n]...), l.pending[l.ahead:l.ahead+m]...)
	l.drop(n, m)
	return late
}

// drop removes the first n of the requests that go ahead, and the first m of the others.
func (l *line[R]) drop(n, m int) {
	l.pending = slices.Delete(l.pending, l.ahead, l.ahead+m)
	l.pending = slices.Delete(l.pending, 0, n)
	l.ahead -= n
}

// shift moves the first n requests of a line to a list. If these are all requests and the list is empty, the line and the
// list change places, so that the memory of both is used again.
func shift[R any](to []R, line *[]R, n int) []R {
	from := *line
	if n == len(from) && len(to) == 0 {
		*line = to
		return from
	}
	to = append(to, from[:n]...)
	left := copy(from, from[n:])
	clear(from[left:])
	*line = from[:left]
	return to
}

// marks are keys that are treated specially for a while. They belong to one goroutine at a time. However many keys there
// are, few are remembered: when there would be more, all marks end.
type marks[K comparable] map[K]time.Time // until when

// mostMarks bounds the keys with a mark.
const mostMarks = 4096

// add marks a key for a while. A mark that ends later stays.
func (m marks[K]) add(d time.Duration, key K) {
	if len(m) >= mostMarks {
		clear(m)
	}
	if until := time.Now().Add(d); until.After(m[key]) {
		m[key] = until
	}
}

// has reports whether a key has a mark.
func (m marks[K]) has(key K) bool {
	until, is := m[key]
	if is && !time.Now().Before(until) {
		delete(m, key)
		is = false
	}
	return is
}
