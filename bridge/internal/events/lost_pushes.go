package events

import (
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
)

// lostPushes are the pushes that were lost lately, to announce later.
type lostPushes struct {
	announce func(queue string, f *failure.Failure, n int)

	mu     sync.Mutex
	of     map[string]*losses // by queue
	closed bool
}

// losses are the pushes to a queue that were lost since the last event.
type losses struct {
	count int
	last  *failure.Failure
	timer *time.Timer
}

const (
	// eventEvery bounds how often a queue's error event is published.
	eventEvery = time.Second

	// maxRecentLosses bounds the queues of lostPushes. Losses of further queues have no event.
	maxRecentLosses = 1024
)

// add announces lost pushes of one message at once, if they are the first ones of the queue, or together with later ones.
func (p *lostPushes) add(queue string, n int, f *failure.Failure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.of[queue]
	if l == nil && (p.closed || len(p.of) >= maxRecentLosses) {
		return
	}
	if l == nil {
		l = &losses{}
		l.timer = time.AfterFunc(eventEvery, func() { p.report(queue) })
		p.of[queue] = l
		p.announce(queue, f, n)
		return
	}
	l.count += n
	l.last = f
}

// report announces the pushes that were lost since the last event, if there are any.
func (p *lostPushes) report(queue string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.of[queue]
	if l == nil {
		return
	}
	if l.count == 0 {
		delete(p.of, queue)
		return
	}
	p.announce(queue, l.last, l.count)
	l.count = 0
	if !p.closed {
		l.timer.Reset(eventEvery)
	}
}

// close announces the remaining losses.
func (p *lostPushes) close() {
	p.mu.Lock()
	p.closed = true
	queues := make([]string, 0, len(p.of))
	for queue, l := range p.of {
		l.timer.Stop()
		queues = append(queues, queue)
	}
	p.mu.Unlock()
	for _, queue := range queues {
		p.report(queue)
	}
}
