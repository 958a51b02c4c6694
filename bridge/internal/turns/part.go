package turns

import (
	"errors"
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
)

// Part does the work of one line in a turn. It belongs to a turn, serves one line after another, and may keep buffers. [Simple] has
// the methods of parts that serve all that they are given, or nothing.
type Part[R, T any] interface {
	// Open turns to a line, with requests that were taken from it. It may begin what Todo waits for, and answer some of the requests.
	Open(Start, []R)

	// Todo returns the requests to be done. It may wait for what Open has begun for all parts, and add work of its own.
	Todo() []R

	// Plan prepares a transaction of the first requests. With an error there will be none. at is the index of the request
	// that is the reason, or the number of requests if that is unknown.
	Plan(requests []R) (at int, err error)

	// Ahead says what Do will read, so that the reads of all parts are under way at the same time.
	Ahead(T)

	// Do makes the transaction's part of the work. It may run several times; its effects are those of the last run. at
	// is as that of Plan. With [ErrFollow] it has done nothing. left is what the transaction still has room for.
	Do(tx T, left *Limits) (at int, err error)

	// Check reports whether the transaction may commit. It is called when all parts have done their work. Otherwise the line runs
	// again, with what the part has learned.
	Check() bool

	// Again is called before a transaction of the line alone runs again, because of a conflict. Its error ends the transaction.
	Again() error

	// Ran returns how much a transaction that took effect has done, and of which sort.
	Ran() (sort, n int)

	// Close ends the transaction that Plan has prepared, before the answers. Without an error it took effect, or nothing was to be
	// done.
	Close(result error)

	// Common reports whether no single request of the line caused an error: fewer of them would not have helped.
	Common(error) bool

	// Mend does something about an error of a transaction of the line alone, and returns the requests that are left. again reports
	// whether they run again as they are now. Otherwise the requests before the one at index at do.
	Mend(requests []R, at int, err error) (left []R, again bool)

	// Answer ends the first requests, and returns their number. Without an error they were served, in one transaction. The others go
	// back to their line, see Return. more reports whether the line has more to do, with requests or without.
	Answer(requests []R, err error) (served int, more bool)

	// Return returns those of some requests that go back to their line. They were not served. more is as that of Answer.
	Return(requests []R) (back []R, more bool)
}

// Start is how a part begins.
type Start struct {
	Queue  string
	Beside bool // other turns may have requests of the line
	Woken  bool // there may be work without a request
	Alone  bool // the turn has no other line
}

// Limits is what a transaction has room for.
type Limits struct{ Requests, Bytes int }

// Simple has methods of a part that needs nothing but its requests, and serves all of them or none.
type Simple[R, T any] struct{ requests []R }

// Keep keeps the requests for Todo.
func (s *Simple[R, T]) Keep(requests []R) { s.requests = requests }

func (s *Simple[R, T]) Todo() []R                                   { return s.requests }
func (*Simple[R, T]) Check() bool                                   { return true }
func (*Simple[R, T]) Again() error                                  { return nil }
func (*Simple[R, T]) Mend(requests []R, _ int, _ error) ([]R, bool) { return requests, false }
func (*Simple[R, T]) Return(requests []R) ([]R, bool)               { return requests, false }

// share is what one turn has of a line.
type share[R, T any] struct {
	Part[R, T]
	parts []Part[R, T] // by kind, those that were needed

	line     *line[R]
	taken    picked[R]
	woken    bool
	beside   bool // other turns may have requests of the line
	separate bool // the line runs alone
	todo     []R  // what the part has to do

	following bool // the last run of Do returned ErrFollow
	unsure    bool // Check did not let the last run commit

	// How the turn ended for the line.
	back    []R           // requests that go back to its front
	more    bool          // the line has more to do
	alone   bool          // the line runs alone next
	apart   bool          // the line runs alone for a while
	slow    time.Duration // what the part took, if that was long
	follows bool          // the turns of the line follow one another for a while, because its requests need that
}

// end ends the first requests, and reports whether they are all. The others go back to the line.
func (s *share[R, T]) end(requests []R, err error) bool {
	served, more := s.Answer(requests, err)
	s.more = s.more || more
	if served == len(requests) {
		return true
	}
	s.giveBack(requests[served:])
	return false
}

// giveBack returns requests to the line.
func (s *share[R, T]) giveBack(requests []R) {
	back, more := s.Return(requests)
	s.back, s.more = slices.Concat(s.back, back), s.more || more
}

// goBack returns all requests to the line, which then runs alone.
func (s *share[R, T]) goBack() {
	s.alone = true
	s.giveBack(s.todo)
}

// empty makes the share ready for another line.
func (s *share[R, T]) empty() {
	clear(s.taken.requests)
	clear(s.taken.sources)
	*s = share[R, T]{parts: s.parts, taken: picked[R]{requests: s.taken.requests[:0], sources: s.taken.sources[:0]}}
}

// Options configure turns. All are required but Ahead, Overlap, Owner and Share.
type Options[R, T any] struct {
	// Limits bound a turn, in the weight and the bytes of its requests. A turn with a single line takes as many requests as
	// that, whatever they weigh. At least one request always fits.
	Limits batch.Limits

	// Turns is how many turns may be under way at a time, besides lines that run alone.
	Turns int

	// Rerun has a transaction run again as a whole after a conflict. Otherwise each of its lines runs alone then.
	Rerun bool

	// Early has the next turn begin before the requests of this one are answered.
	Early bool

	// Slow is how long a line may take in a turn, and a turn before it commits. A line that takes longer runs alone for a
	// while: ten times as long as it took, a second at least. Behind a turn that takes longer, another turn begins.
	Slow time.Duration

	// Ahead reports whether a request goes ahead of the requests of its line that do not. These have at least half of the line's room
	// in a turn. Not together with Overlap.
	Ahead func(R) bool

	// Overlap lets several turns have requests of one line at the same time.
	Overlap Overlap[R]

	// Patience bounds how long requests wait behind a transaction that does not end.
	Patience batch.Patience

	// Owner returns the owner of a queue. Share bounds the weight that an owner's lines have in a turn, its first line aside,
	// while the turn has requests of other owners.
	Owner func(queue string) string
	Share int

	// Part makes the parts of lines of a kind.
	Part func(kind int) Part[R, T]

	// Update runs a transaction, several times if it has to, and commits it.
	Update func(func(T) error) error

	// Outage reports whether an error of Update concerns every line.
	Outage func(error) bool

	// Ran is called after a transaction that took effect, with what its parts have done: how much of each sort.
	Ran func(done map[int]int, took time.Duration)

	// Weight and Size return how much of Limits a request takes: the number of items, and bytes.
	Weight, Size func(R) int

	// Waited returns how long a request has waited.
	Waited func(R) time.Duration

	// Stuck gets requests back that have waited for too long. None of them was begun. It is called without requests, too,
	// when none waits behind the transaction that is stuck.
	Stuck func([]R)
}

// ErrFollow has the requests of a part wait for the end of all other turns that have requests of its line.
var ErrFollow = errors.New("the turns of the line follow one another")

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
