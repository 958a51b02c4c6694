package request

import (
	"encoding/json"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// Announcer publishes each event once, with or without subscribers.
type Announcer struct {
	nc      *nats.Conn
	grammar subjects.Grammar
	log     *slog.Logger
	stats   *Statistics

	mu     sync.Mutex
	lately map[string]*losses // by queue: losses of the last moments, to announce later
	closed bool
	counts map[fdbpq.EventType]int64
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

	// maxLately bounds the queues in lately. Losses of further queues have no event.
	maxLately = 1024
)

// NewAnnouncer returns an announcer of nothing yet.
func NewAnnouncer(nc *nats.Conn, grammar subjects.Grammar, log *slog.Logger, stats *Statistics) *Announcer {
	return &Announcer{
		nc: nc, grammar: grammar, log: log, stats: stats,
		lately: make(map[string]*losses), counts: make(map[fdbpq.EventType]int64),
	}
}

// Items announces what has happened to items.
func (a *Announcer) Items(events []fdbpq.Event) {
	for _, e := range events {
		a.Item(e)
	}
}

// Item announces what has happened to an item.
func (a *Announcer) Item(e fdbpq.Event) {
	a.mu.Lock()
	a.counts[e.Type]++
	a.mu.Unlock()
	a.publish(e.Queue, string(e.Type), protocol.ItemEvent{
		Type: protocol.EventTypePrefix + string(e.Type), Time: time.Now().UTC(),
		Queue: e.Queue, ID: e.ID.String(), Priority: e.Priority, Deliveries: e.Deliveries,
		Reason: e.Reason, DeadLetter: e.DeadLetter,
	})
}

// Counts are the events by type.
func (a *Announcer) Counts() map[fdbpq.EventType]int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.counts)
}

// Lost reports a push without a reply subject that was not stored. The first one is
// announced at once, later ones together.
func (a *Announcer) Lost(queue string, f *failure.Failure) {
	a.stats.lost.Add(1)
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.lately[queue]
	if l == nil && (a.closed || len(a.lately) >= maxLately) {
		return
	}
	if l == nil {
		l = &losses{}
		l.timer = time.AfterFunc(eventEvery, func() { a.report(queue) })
		a.lately[queue] = l
		a.announce(queue, f, 1)
		return
	}
	l.count++
	l.last = f
}

// report announces the pushes that were lost since the last event, if there are any.
func (a *Announcer) report(queue string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.lately[queue]
	if l == nil {
		return
	}
	if l.count == 0 {
		delete(a.lately, queue)
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
		Queue: queue, Code: f.Code, Error: f.Text, Count: n,
	})
}

func (a *Announcer) publish(queue, kind string, event any) {
	subject, err := a.grammar.Build(subjects.Subject{Queue: queue, Verb: subjects.Event, Event: kind})
	if err == nil {
		var body []byte
		if body, err = json.Marshal(event); err == nil {
			err = a.nc.Publish(subject, body)
		}
	}
	if err != nil {
		a.log.Debug("event lost", "queue", queue, "event", kind, "error", err)
	}
}

// Close announces the remaining losses.
func (a *Announcer) Close() {
	a.mu.Lock()
	a.closed = true
	queues := make([]string, 0, len(a.lately))
	for queue, l := range a.lately {
		l.timer.Stop()
		queues = append(queues, queue)
	}
	a.mu.Unlock()
	for _, queue := range queues {
		a.report(queue)
	}
}
