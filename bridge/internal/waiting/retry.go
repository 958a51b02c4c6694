package waiting

import "time"

// A rate may allow a delivery at a known time, although nothing arrives then. So a queue has one timer for all its
// pops: the first pop that may find something sets it.

// soonest bounds how often a timer makes the bridge look at a queue. Tokens of a fast rate gather meanwhile, for
// several pops.
const soonest = 5 * time.Millisecond

// Retry makes the pops of a queue be served after a time, unless they are served before.
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
