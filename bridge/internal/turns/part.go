package turns

// Part does the work of one line in a turn. It belongs to a turn, serves one line after another, and may keep buffers.
type Part[R, T any] interface {
	// Open turns to a line, and gets requests that were taken from it. It may answer some of them, and put others in the
	// place of one. It returns the requests to be done. beside says that other turns may have requests of the line.
	Open(line string, beside bool, requests []R) []R

	// Plan prepares a transaction of the first requests. With an error there will be none. at is the index of the request
	// that is the reason, or the number of requests if that is unknown.
	Plan(requests []R) (at int, err error)

	// Ahead says what Do will read, so that the reads of all parts are under way at the same time.
	Ahead(T)

	// Do makes the transaction's part of the work. It may run several times; its effects are those of the last run. at
	// is as that of Plan. With [ErrFollow] it has done nothing.
	Do(T) (at int, err error)

	// Close ends the transaction that Plan has prepared, before the answers, whether it took effect or not.
	Close()

	// Common reports whether no single request of the line caused an error: fewer of them would not have helped.
	Common(error) bool

	// Answer ends requests. Without an error they were served, in one transaction.
	Answer(requests []R, err error)
}

// share is what one turn has of a line.
type share[R, T any] struct {
	Part[R, T]
	line     *line[R]
	taken    taking[R]
	beside   bool // other turns may have requests of the line
	separate bool // the line runs alone
	todo     []R  // what Open has left of the requests

	following bool // the last run of Do returned ErrFollow

	// How the turn ended for the line.
	back    []R  // requests that go back to its front
	alone   bool // the line runs alone next
	apart   bool // the line runs alone for a while
	follows bool // the turns of the line follow one another for a while, because its requests need that
}

// goBack returns all requests to the line, which then runs alone.
func (s *share[R, T]) goBack() { s.back, s.alone = s.todo, true }

// empty makes the share ready for another line.
func (s *share[R, T]) empty() {
	clear(s.taken.requests)
	clear(s.taken.sources)
	*s = share[R, T]{Part: s.Part, taken: taking[R]{requests: s.taken.requests[:0], sources: s.taken.sources[:0]}}
}
