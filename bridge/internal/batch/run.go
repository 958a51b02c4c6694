package batch

// Transactions runs requests as transactions, and ends them.
type Transactions[R any] interface {
	// Try runs requests as one transaction and returns how many it has served: all of
	// them, or at least the first one if they do not fit into one. With an error it has
	// served none; it returns the index of the request that failed, or len(requests) if
	// that is unknown.
	Try(requests []R) (int, error)

	// Common reports whether no single request caused an error: it concerns every
	// request, and fewer of them would not have helped.
	Common(error) bool

	// Answer ends requests. Without an error they were served, in one transaction.
	Answer(requests []R, err error)
}

// Run serves requests in their order with as few transactions as it can. When one
// of them makes a transaction fail, what comes before it runs without it, then it
// runs alone, and then the rest. Each request is answered once.
func Run[R any](requests []R, t Transactions[R]) {
	part := NewPart(len(requests))
	for len(requests) > 0 {
		n, err := t.Try(requests[:part.Len()])
		if err != nil && !t.Common(err) && part.Shrink(n) {
			continue
		}
		if err != nil {
			n = part.Len()
		}
		t.Answer(requests[:n], err)
		part.Ended(n)
		requests = requests[n:]
	}
}

// Part is how many of the first requests of a batch the next transaction has.
type Part struct {
	left int // requests that have not ended
	n    int // of them, that the transaction takes
	bad  int // of them, among which one makes a transaction fail; 0: none is known
}

// NewPart begins with all of n requests.
func NewPart(n int) Part { return Part{left: n, n: n} }

// Len returns how many requests the next transaction has.
func (p *Part) Len() int { return p.n }

// Shrink makes the part smaller after a transaction failed while it was at one request,
// or at Len when it could have been any. It returns false when the part is that one
// request.
func (p *Part) Shrink(at int) bool {
	switch {
	case p.n == 1:
		return false
	case at < p.n:
		p.bad, p.n = at+1, max(1, at)
	default:
		p.bad, p.n = p.n, p.n/2
	}
	return true
}

// Ended goes on behind the first n requests.
func (p *Part) Ended(n int) {
	p.left -= n
	p.bad = max(0, p.bad-n)
	p.n = p.left
	if p.bad > 0 {
		p.n = max(1, p.bad/2)
	}
}
