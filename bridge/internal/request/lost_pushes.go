package request

import (
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// losses are the pushes to a queue that were lost since the last event.
type losses struct {
	count int
	last  *failure.Failure
	timer *time.Timer
}

const (
	// eventEvery bounds how often a queue's error event is published.
	eventEvery = time.Second

	// maxRecentLosses bounds the queues in recentLosses. Losses of further queues have no event.
	maxRecentLosses = 1024
)

// Lost reports pushes of one message without a reply subject that were not stored. The
// first message is announced at once, later ones together.
func (a *Announcer) Lost(queue string, n int, f *failure.Failure) {
	a.stats.lost.Add(int64(n))
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.recentLosses[queue]
	if l == nil && (a.closed || len(a.recentLosses) >= maxRecentLosses) {
		return
	}
	if l == nil {
		l = &losses{}
		l.timer = time.AfterFunc(eventEvery, func() { a.report(queue) })
		a.recentLosses[queue] = l
		a.announce(queue, f, n)
		return
	}
	l.count += n
	l.last = f
}

// report announces the pushes that were lost since the last event, if there are any.
func (a *Announcer) report(queue string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.recentLosses[queue]
	if l == nil {
		return
	}
	if l.count == 0 {
		delete(a.recentLosses, queue)
		return
	}
	a.announce(queue, l.last, l.count)
	l.count = 0
	if !a.closed {
		l.timer.Reset(eventEvery)
	}
}

func (a *Announcer) announce(queue string, f *failure.Failure, n int) {
	a.publish(queue, protocol.EventError, protocol.ErrorEvent{
		Type: protocol.EventTypePrefix + protocol.EventError, Time: time.Now().UTC(),
		Queue: subjects.Own(queue), Code: f.Code, Error: f.Text, Count: n,
	})
}
