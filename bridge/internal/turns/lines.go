package turns

import (
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/marks"
)

// lines are all lines with requests, and the order in which turns take from them.
type lines[R, T any] struct {
	options *Options[R, T]
	all     map[Key]*line[R]
	free    []*line[R] // to be used again

	ready []*line[R] // may be taken from, in the order in which they became so
	apart []*line[R] // the same, of lines that run alone

	separate marks.Marks[Key] // lines that run alone
	serial   marks.Marks[Key] // lines whose turns follow one another

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
	if l.alone || ls.separate.Has(l.key) {
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
	if l.waits || l.listed || l.turns > overlap.Turns || ls.serial.Has(l.key) {
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
func (ls *lines[R, T]) blocked(l *line[R]) bool { return l.held[""] != nil || ls.serial.Has(l.key) }

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
		ls.serial.Add(followTime, l.key)
	}
	if s.apart {
		ls.separate.Add(min(max(separateTime, slowTimes*s.slow), slowMost), l.key)
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
