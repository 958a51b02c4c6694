package inside

import (
	"fmt"
	"sync"
)

// maxLater bounds the queues that are remembered.
const maxLater = 1000

// Later has the queues that only a later program serves, as far as this process has met them. Its methods may be called from any
// number of goroutines.
type Later struct {
	mu     sync.Mutex
	queues map[string]bool
}

// Passed are the queues that a transaction has left to a later program, and why.
type Passed map[string]error

// Add adds a queue.
func (p *Passed) Add(queue string, why error) {
	if *p == nil {
		*p = make(Passed)
	}
	(*p)[queue] = why
}

// Report reports each queue once as a problem for the operator.
func (l *Later) Report(passed Passed, problem func(error)) {
	for queue, why := range passed {
		if err := l.problem(queue, why); err != nil {
			problem(err)
		}
	}
}

// problem returns a problem, nil if the queue was reported before.
func (l *Later) problem(queue string, why error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queues[queue] || len(l.queues) == maxLater {
		return nil
	}
	if l.queues == nil {
		l.queues = make(map[string]bool)
	}
	l.queues[queue] = true
	return fmt.Errorf("queue %q waits for a later version of this program, with its leases, delays and schedules; other queues are served: %w", queue, why)
}
