package turns

import "slices"

// filling fills a turn with requests.
type filling[R, T any] struct {
	*lines[R, T]
	turn   *turn[R, T]
	left   room[R]
	owners map[string]int // the weight that each owner has in the turn; nil: there are no owners
}

func newFilling[R, T any](ls *lines[R, T], t *turn[R, T]) filling[R, T] {
	o := ls.options
	f := filling[R, T]{lines: ls, turn: t, left: room[R]{o.Limits.Requests, o.Limits.Bytes, o.Weight, o.Size}}
	if o.Owner != nil {
		f.owners = make(map[string]int)
	}
	return f
}

// single has each request weigh one: the turn has requests of one line.
func (f *filling[R, T]) single() { f.left.weightOf = func(R) int { return 1 } }

// alone fills the turn with requests of the first line that runs alone. It returns false if there is none.
func (f *filling[R, T]) alone() bool {
	f.single()
	for len(f.apart) > 0 && len(f.turn.shares) == 0 {
		l := f.apart[0]
		f.apart = slices.Delete(f.apart, 0, 1)
		f.open(l, f.left.weight)
	}
	for _, s := range f.turn.shares {
		s.separate = true
	}
	return f.done()
}

// together fills the turn with requests of the lines that may be taken from. First each line may give as much as there is for
// every line, then the same lines give the rest of the room. The lines behind stay for the next turn. It returns false if
// no line gives anything. At least one line has to be there.
func (f *filling[R, T]) together() bool {
	if len(f.ready) == 1 {
		f.single()
	}
	each := max(1, f.left.weight/len(f.ready))
	kept := f.ready[:0]
	for i, l := range f.ready {
		if len(f.turn.shares) > 0 && len(l.pending) > 0 && !f.left.fits(l.pending[0]) {
			kept = append(kept, f.ready[i:]...)
			break
		}
		if f.bounded(l) {
			kept = append(kept, l)
			continue
		}
		f.open(l, each)
	}
	clear(f.ready[len(kept):])
	f.ready = kept
	for i := 0; i < len(f.turn.shares) && !f.left.empty(); i++ {
		f.more(f.turn.shares[i])
	}
	return f.done()
}

// done has the lines of the turn that have more requests wait for others, if turns may overlap.
func (f *filling[R, T]) done() bool {
	for _, s := range f.turn.shares {
		if f.options.Overlap.Turns > 0 && len(s.line.pending) > 0 {
			f.await(s.line)
		}
	}
	return len(f.turn.shares) > 0
}

// bounded reports whether the owner of a line has as much in the turn as all its lines but the first may give.
func (f *filling[R, T]) bounded(l *line[R]) bool {
	if f.owners == nil || len(l.pending) == 0 {
		return false
	}
	has := f.owners[f.options.Owner(l.key.Queue)]
	return has > 0 && has+f.left.weightOf(l.pending[0]) > f.options.Share
}

// open takes requests of a further line, up to a weight, but at least one.
func (f *filling[R, T]) open(l *line[R], weight int) {
	l.listed = false
	s := f.turn.open(l)
	s.woken, l.woken = l.woken, false
	if s.beside = l.turns > 0; !s.beside && l.waits {
		l.waits = false
		l.timer.Stop()
	}
	if len(l.pending) > 0 && !(s.beside && f.blocked(l)) {
		f.take(s, weight, f.options.Share, true)
	}
	if len(s.taken.requests) == 0 && !s.woken {
		f.turn.drop()
		f.forget(l)
		return
	}
	l.turns++
	l.alone = false
}

// more takes further requests of a line. Several owners have equal parts of the turn.
func (f *filling[R, T]) more(s *share[R, T]) {
	if len(s.line.pending) == 0 {
		return
	}
	bound := f.options.Share
	if n := len(f.owners); n > 0 {
		bound = max(bound, f.options.Limits.Requests/n)
	}
	f.take(s, f.left.weight, bound, false)
}

// take takes requests of a line up to a weight. bound is that of an owner who has some already.
func (f *filling[R, T]) take(s *share[R, T], weight, bound int, force bool) {
	left, owner := f.left, ""
	left.weight = min(left.weight, weight)
	if f.owners != nil {
		owner = f.options.Owner(s.line.key.Queue)
		if has := f.owners[owner]; has > 0 {
			left.weight = min(left.weight, bound-has)
		}
	}
	hadWeight, hadBytes := s.taken.weight, s.taken.bytes
	if s.beside {
		s.line.takeBeside(&s.taken, &f.options.Overlap, left, force)
	} else {
		s.line.take(&s.taken, &f.options.Overlap, left, force)
	}
	f.left.weight -= s.taken.weight - hadWeight
	f.left.bytes -= s.taken.bytes - hadBytes
	if f.owners != nil {
		f.owners[owner] += s.taken.weight - hadWeight
	}
}
