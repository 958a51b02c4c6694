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

// Run serves requests in their order with as few transactions as it can. When a request makes a transaction fail, the
// requests before it run without it, then it runs alone, and then the rest. Each request is answered once.
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

// Part counts the first requests of a batch that the next transaction takes.
type Part struct {
	left       int // requests that have not ended
	n          int // the first requests, which the transaction takes
	poisonedAt int // the first requests, of which one fails the transaction; 0: not known
}

// NewPart returns the part that has all of n requests.
func NewPart(n int) Part { return Part{left: n, n: n} }

// Len returns the number of requests that the next transaction takes.
func (p *Part) Len() int { return p.n }

// Shrink makes the part smaller after a transaction has failed. at is the index of the request that failed it, or Len
// if that is unknown. It returns false when the part has a single request.
func (p *Part) Shrink(at int) bool {
	switch {
	case p.n == 1:
		return false
	case at < p.n:
		p.poisonedAt, p.n = at+1, max(1, at)
	default:
		p.poisonedAt, p.n = p.n, p.n/2
	}
	return true
}

// Ended removes the first n requests, which have ended, and chooses the next part.
func (p *Part) Ended(n int) {
	p.left -= n
	p.poisonedAt = max(0, p.poisonedAt-n)
	p.n = p.left
	if p.poisonedAt > 0 {
		p.n = max(1, p.poisonedAt/2)
	}
}
