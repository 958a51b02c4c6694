package results

import (
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/reads"
)

// Take takes in a request for a result.
func (w *Waits) Take(q desk.Work) { w.Enter(q.Head().Subject.Queue, q.(*result)) }

// FindNothing ends the look of a request whose item has not ended.
func FindNothing(q reads.Query) {
	q.(*result).pending = true
	q.Answer(nil)
}

// Awaited is at how many queues requests wait, and closed when none waits any more at one.
func (w *Waits) Awaited(queue string) (queues int, over <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if of := w.queues[queue]; of != nil {
		over = of.over
	}
	return len(w.queues), over
}
