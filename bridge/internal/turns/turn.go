package turns

// turn is what one transaction serves: requests of some lines. It is used again for further turns.
type turn[R, T any] struct {
	part   func(kind int) Part[R, T]
	all    []*share[R, T] // with their buffers
	shares []*share[R, T] // the first of these: what the turn has of each line
}

const (
	// maxKept is how many shares keep large buffers.
	maxKept = 64

	// maxGrown is how many requests a share may have had to be used again with its buffers, if it is not among those.
	maxGrown = 16
)

// open returns an empty share of a further line.
func (t *turn[R, T]) open(l *line[R]) *share[R, T] {
	n := len(t.shares)
	if n == len(t.all) {
		t.all = append(t.all, new(share[R, T]))
	}
	t.shares = t.all[:n+1]
	s := t.shares[n]
	for l.key.Kind >= len(s.parts) {
		s.parts = append(s.parts, nil)
	}
	if s.parts[l.key.Kind] == nil {
		s.parts[l.key.Kind] = t.part(l.key.Kind)
	}
	s.Part, s.line = s.parts[l.key.Kind], l
	return s
}

// drop takes back the last share.
func (t *turn[R, T]) drop() {
	n := len(t.shares) - 1
	t.shares[n].empty()
	t.shares = t.all[:n]
}

// end empties the turn.
func (t *turn[R, T]) end() {
	for i, s := range t.shares {
		if i >= maxKept && cap(s.taken.requests) > maxGrown {
			t.all[i] = new(share[R, T])
		} else {
			s.empty()
		}
	}
	t.shares = nil
}
