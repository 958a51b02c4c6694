package waiting

import "time"

// A rate may let items go at a known time, although nothing arrives then. So a queue has
// one timer for all its pops: the first one that may find something tells the others'
// time.

// soonest bounds how often a timer has a queue looked at. Tokens of a fast rate gather
// meanwhile, for several pops.
const soonest = 5 * time.Millisecond

// Retry has the queue's pops served after a time, unless that happens before.
func (p *Pops[T]) Retry(name string, after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.queues[name]
	if q == nil {
		return
	}
	after = max(after, soonest)
	at := time.Now().Add(after)
	switch {
	case !q.retryAt.IsZero() && !at.Before(q.retryAt):
		return
	case q.retry == nil:
		q.retry = time.AfterFunc(after, func() {
			if p.retried(q) {
				p.options.Serve(name)
			}
		})
	default:
		q.retry.Reset(after)
	}
	q.retryAt = at
}

// retried forgets the timer of a queue, and reports whether pops still wait there.
func (p *Pops[T]) retried(q *queue[T]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	q.retryAt = time.Time{}
	return q.size > 0
}
