// Package events publishes what happens to items, schedules, sources and links, and counts what it publishes.
//
// What it guarantees: each event is published once at most under each prefix, with or without subscribers; one that cannot be
// sent is lost. A queue's lost pushes are
// announced once a second at most, and all of them are counted. What the log says of a queue or of a link has a bound, however
// many events there are.
package events

import (
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// Announcer publishes each event once under each prefix, with or without subscribers.
type Announcer struct {
	nc      *nats.Conn
	grammar subjects.Grammar
	log     *slog.Logger
	stats   *request.Statistics
	display func(storeTime int64) time.Time
	lost    lostPushes

	// Finished hears of items that have left a result, and of queues whose items are all gone: then there is no id. It is no event that
	// others hear.
	Finished func(queue string, id fdbpq.ID)

	mu          sync.Mutex
	counts      map[fdbpq.EventType]int64
	toldOfLinks map[[2]string]time.Time // when, by queue and name
	toldOfDead  map[string]time.Time    // when the log last reported a dead letter, by queue
}

// New returns an announcer of nothing yet.
func New(nc *nats.Conn, grammar subjects.Grammar, log *slog.Logger, stats *request.Statistics, display func(storeTime int64) time.Time) *Announcer {
	a := &Announcer{
		nc: nc, grammar: grammar, log: log, stats: stats, display: display,
		Finished: func(string, fdbpq.ID) {},
		counts:   make(map[fdbpq.EventType]int64), toldOfLinks: make(map[[2]string]time.Time), toldOfDead: make(map[string]time.Time),
	}
	a.lost = lostPushes{announce: a.announceLosses, of: make(map[string]*losses)}
	return a
}

// Items announces events of items.
func (a *Announcer) Items(events []fdbpq.Event) {
	for _, e := range events {
		a.Item(e)
	}
}

// Item announces an event of an item.
func (a *Announcer) Item(e fdbpq.Event) {
	switch {
	case e.Type == fdbpq.EventFinished:
		a.Finished(e.Queue, e.ID)
		return
	case e.Type == protocol.EventPurged:
		a.purged(e.Queue)
		return
	case e.Fence != 0 && e.Holder != "":
		a.ring(&e)
	}
	if e.Type == fdbpq.EventRemoved {
		return // its holder alone is told
	}
	a.count(e.Type)
	switch e.Type {
	case fdbpq.EventDead:
		a.died(&e)
	case fdbpq.EventLeaseLost:
		a.stats.LeaseLost(e.Queue, e.Holder)
	}
	if counter, is := counters[e.Type]; is {
		var tally request.Tally
		tally[counter]++
		a.stats.Queues.Count(e.Queue, &tally)
	}
	event := protocol.ItemEvent{
		Type: protocol.EventTypePrefix + string(e.Type), Time: time.Now().UTC(),
		Queue: subjects.Own(e.Queue), ID: e.ID.String(), Priority: e.Priority, Deliveries: e.Deliveries, Endings: protocol.Endings(e.Endings),
		Reason: e.Reason, DeadLetter: subjects.Own(e.DeadLetter), Holder: e.Holder,
	}
	if e.NotBefore != 0 {
		event.NotBefore = a.display(e.NotBefore).UTC()
	}
	a.publish(e.Queue, string(e.Type), event)
}

// ring tells the holder of a lease that somebody else has ended it.
func (a *Announcer) ring(e *fdbpq.Event) {
	a.count(protocol.EventLost)
	a.publish(e.Queue, protocol.BellOf(e.Holder), protocol.LostEvent{
		Type: protocol.EventTypePrefix + protocol.EventLost, Time: time.Now().UTC(),
		Queue: subjects.Own(e.Queue), ID: e.ID.String(), Fence: e.Fence, Cause: string(e.Type), Reason: e.Reason,
	})
}

// purged announces that all items of a queue are gone, and with them their leases.
func (a *Announcer) purged(queue string) {
	a.Finished(queue, fdbpq.ID{})
	a.queue(queue, protocol.EventPurged)
}

// counters are the counters of the events of items.
var counters = map[fdbpq.EventType]request.Counter{
	fdbpq.EventDead: request.Dead, fdbpq.EventExpired: request.Expired, fdbpq.EventLeaseLost: request.LeasesLost,
	fdbpq.EventRevoked: request.Revoked, fdbpq.EventEvicted: request.Evicted,
}

// died logs the first dead letter that a queue has within an hour.
func (a *Announcer) died(e *fdbpq.Event) {
	now := time.Now()
	over := func(_ string, at time.Time) bool { return now.Sub(at) >= deadEvery }
	a.mu.Lock()
	at, told := a.toldOfDead[e.Queue]
	if told = told && !over(e.Queue, at); !told {
		if len(a.toldOfDead) >= maxToldOfDead {
			maps.DeleteFunc(a.toldOfDead, over)
		}
		for other := range a.toldOfDead {
			if len(a.toldOfDead) < maxToldOfDead {
				break
			}
			delete(a.toldOfDead, other)
		}
		a.toldOfDead[e.Queue] = now
	}
	a.mu.Unlock()
	if !told {
		a.log.Warn("an item died, the first one of its queue within an hour", "queue", e.Queue, "id", e.ID.String(), "deliveries", e.Deliveries,
			"reason", fdbpq.ReasonText(e.Reason), "cause", fdbpq.ReasonText(e.Cause), "dead_letter", e.DeadLetter)
	}
}

const (
	// deadEvery is how long the log reports no further dead letter of a queue.
	deadEvery = time.Hour

	// maxToldOfDead bounds the queues that are remembered for that. Further queues take the places of others, which
	// are reported again then: nobody can keep the log from a queue by dead letters of many others.
	maxToldOfDead = 4096
)

// ScheduleMissed announces times of a schedule that passed without an item.
func (a *Announcer) ScheduleMissed(missed *schedule.MissedTimes) {
	a.count(protocol.EventScheduleMissed)
	a.publish(missed.Queue, protocol.EventScheduleMissed, protocol.ScheduleEvent{
		Type: protocol.EventTypePrefix + protocol.EventScheduleMissed, Time: time.Now().UTC(), Queue: subjects.Own(missed.Queue),
		Schedule: missed.Schedule, From: missed.From, To: missed.To, Count: missed.Count, AtLeast: missed.AtLeast, Reason: missed.Reason,
	})
}

// QueueDeleted announces, logs and counts that a queue has deleted itself. The log has it as it has the deletes of administrators.
func (a *Announcer) QueueDeleted(queue string) {
	a.log.Info("administrative act: "+subjects.AdminDelete.String(), "queue", queue, "reason", "expire_empty: it was empty and unused")
	a.queue(queue, protocol.EventQueueDeleted)
}

// queue announces an event of a queue as a whole.
func (a *Announcer) queue(queue, kind string) {
	a.count(fdbpq.EventType(kind))
	a.publish(queue, kind, protocol.QueueEvent{Type: protocol.EventTypePrefix + kind, Time: time.Now().UTC(), Queue: subjects.Own(queue)})
}

// Clock announces that this process has set the clock of schedules.
func (a *Announcer) Clock(by time.Duration) {
	event := protocol.ClockEvent{Type: protocol.EventTypePrefix + protocol.EventClock, Time: time.Now().UTC(), By: by.String()}
	for _, g := range a.grammar.Each() {
		a.send("", protocol.EventClock, g.SystemEvent(protocol.EventClock), event)
	}
}

// Source announces an event of a source.
func (a *Announcer) Source(e protocol.SourceEvent) {
	kind := e.Type
	a.count(fdbpq.EventType(kind))
	queue := e.Queue
	e.Type, e.Time, e.Queue = protocol.EventTypePrefix+kind, time.Now().UTC(), subjects.Own(queue)
	a.publish(queue, kind, e)
}

// LinkStopped announces, logs and counts that a link gives nothing, once a minute at most for each link.
func (a *Announcer) LinkStopped(queue, name string, why *failure.Failure) {
	now, key := time.Now(), [2]string{queue, name}
	a.mu.Lock()
	told := now.Sub(a.toldOfLinks[key]) < time.Minute
	if !told {
		maps.DeleteFunc(a.toldOfLinks, func(_ [2]string, at time.Time) bool { return now.Sub(at) >= time.Minute })
		a.toldOfLinks[key] = now
		a.counts[protocol.EventLinkStopped]++
	}
	a.mu.Unlock()
	if told {
		return
	}
	a.log.Warn("a link gives nothing: a person has to look", "queue", queue, "link", name, "reason", why.Reason, "text", why.Text)
	a.publish(queue, protocol.EventLinkStopped, protocol.LinkEvent{
		Type: protocol.EventTypePrefix + protocol.EventLinkStopped, Time: now.UTC(),
		Queue: subjects.Own(queue), Link: name, Reason: string(why.Reason), Text: why.Text,
	})
}

// count counts an event.
func (a *Announcer) count(kind fdbpq.EventType) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts[kind]++
}

// Counts are the events by type.
func (a *Announcer) Counts() map[fdbpq.EventType]int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.counts)
}

func (a *Announcer) publish(queue, kind string, event any) {
	for _, g := range a.grammar.Each() {
		subject, err := g.Build(subjects.Subject{Queue: queue, Verb: subjects.Event, Event: kind})
		if err != nil {
			a.log.Debug("event lost", "queue", queue, "event", kind, "error", err)
			return
		}
		a.send(queue, kind, subject, event)
	}
}

func (a *Announcer) send(queue, kind, subject string, event any) {
	body, err := protocol.Marshal(event)
	if err == nil {
		err = a.nc.Publish(subject, body)
	}
	if err != nil {
		a.log.Debug("event lost", "queue", queue, "event", kind, "error", err)
	}
}

// Lost reports pushes of one message without a reply subject that were not stored. The
// first message is announced at once, later ones together.
func (a *Announcer) Lost(queue string, n int, f *failure.Failure) {
	a.stats.Lose(n)
	a.lost.add(queue, n, f)
}

// announceLosses announces that pushes to a queue were lost.
func (a *Announcer) announceLosses(queue string, f *failure.Failure, n int) {
	a.publish(queue, protocol.EventError, protocol.ErrorEvent{
		Type: protocol.EventTypePrefix + protocol.EventError, Time: time.Now().UTC(),
		Queue: subjects.Own(queue), Code: f.Code, Error: f.Text, Count: n,
	})
}

// Close announces the remaining losses.
func (a *Announcer) Close() { a.lost.close() }

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
