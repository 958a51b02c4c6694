package turns

import (
	"slices"
	"testing"
	"time"
)

// ahead returns a line whose first requests go ahead of the others.
func ahead(n int, requests ...int) *line[int] { return &line[int]{pending: requests, ahead: n} }

func expectLine(t *testing.T, l *line[int], first, rest []int) {
	t.Helper()
	if got := l.pending; !slices.Equal(got[:l.ahead], first) || !slices.Equal(got[l.ahead:], rest) {
		t.Errorf("%v go ahead of %v, expected %v and %v", got[:l.ahead], got[l.ahead:], first, rest)
	}
}

// Requests that come back are the first of their kind again.
func TestComeBackToLine(t *testing.T) {
	t.Parallel()
	l := ahead(2, 3, 4, 13)
	l.turns = 1
	l.leave(new(picked[int]), []int{1, 2, 11, 12}, 2)
	expectLine(t, l, []int{1, 2, 3, 4}, []int{11, 12, 13})
}

// Requests that have waited for too long leave the line: the first ones, of those that go ahead and of the others.
func TestLateInLine(t *testing.T) {
	t.Parallel()
	l := ahead(3, 9, 8, 1, 9, 2, 9)
	late := l.late(5*time.Second, func(n int) time.Duration { return time.Duration(n) * time.Second })
	if !slices.Equal(late, []int{9, 8, 9}) {
		t.Errorf("%v are late", late)
	}
	expectLine(t, l, []int{1}, []int{2, 9})
}
