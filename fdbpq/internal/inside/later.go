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

// Problem returns a problem for the operator, once for each queue, otherwise nil.
func (l *Later) Problem(queue string, why error) error {
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
