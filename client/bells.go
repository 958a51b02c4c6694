package client

import (
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// bells hear that somebody else has ended leases of a Consume: the bridge rings after it has cancelled, removed or revoked an item, or
// purged a queue. A bell proves nothing. It has the client extend the lease now, and not only when the time has come, and the answer to
// that tells whether the lease is lost. So a bell that is forged, late, doubled or lost changes when the client learns something, and not what.
type bells struct {
	client *Client

	mu      sync.Mutex
	holds   map[string]*hold     // by the ids of their items
	rung    []protocol.LostEvent // the last ones, of leases whose items may not have arrived yet
	subs    []*nats.Subscription
	stopped bool
}

const (
	mostRung    = 64       // bells that are remembered
	longestBell = 16 << 10 // bytes: no bridge rings with more

	ringEvery = time.Second // bounds how often bells extend one lease
)

// listen hears the bells of the leases that a holder has at a queue, until stop. A user who may not subscribe to them hears none, and
// everything else works.
func (q *Queue) listen(holder string) *bells {
	b := &bells{client: q.client, holds: make(map[string]*hold)}
	for event, hear := range map[string]nats.MsgHandler{protocol.BellOf(holder): b.one, protocol.EventPurged: b.all} {
		subject, err := q.subject(subjects.Subject{Verb: subjects.Event, Event: event})
		if err != nil {
			continue // no request of the queue has a subject either
		}
		b.client.denials.expect(b.client.nc, subject, b)
		if sub, err := b.client.nc.Subscribe(subject, hear); err == nil {
			b.keep(sub)
		} else {
			b.client.denials.forget(subject, b)
		}
	}
	return b
}

// keep keeps a subscription until stop. The server may have refused the other one meanwhile, which stops both.
func (b *bells) keep(sub *nats.Subscription) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.subs = append(b.subs, sub); b.stopped {
		b.end()
	}
}

// stop hears nothing any more. It may be called again.
func (b *bells) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
	b.end()
}

func (b *bells) end() {
	for _, sub := range b.subs {
		b.client.denials.forget(sub.Subject, b)
		_ = sub.Unsubscribe() // the connection may be closed
	}
	b.subs = nil
}

// one hears of one lease.
func (b *bells) one(m *nats.Msg) {
	var e protocol.LostEvent
	if len(m.Data) > longestBell || json.Unmarshal(m.Data, &e) != nil || e.Cause == "" {
		return // forged
	}
	b.mu.Lock()
	if len(b.rung) == mostRung {
		b.rung = b.rung[1:]
	}
	b.rung = append(b.rung, e)
	h := b.holds[e.ID]
	b.mu.Unlock()
	if h != nil && h.isOf(&e) {
		h.ring(&e)
	}
}

// all hears that the items of the queue are gone.
func (b *bells) all(*nats.Msg) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range b.holds {
		h.ring(nil)
	}
}

// enter has a hold hear its bells, until leave is called. The bell of its lease may have rung before.
func (b *bells) enter(h *hold) (leave func()) {
	if b == nil {
		return func() {}
	}
	id := h.item.ID
	b.mu.Lock()
	b.holds[id] = h
	var before *protocol.LostEvent
	for i := range b.rung {
		if e := &b.rung[i]; e.ID == id && h.isOf(e) {
			before = new(*e)
		}
	}
	b.mu.Unlock()
	if before != nil {
		h.ring(before)
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.holds[id] == h {
			delete(b.holds, id)
		}
	}
}

// denials keeps the server's refusals of subscriptions to bells from the error handler of the connection, whose program has asked for none.
type denials struct {
	mu       sync.Mutex
	watched  bool
	expected map[string]map[*bells]bool // by subject: who hears it. A refusal may come after they have stopped
}

// mostExpected bounds the subjects that are remembered although nobody hears them any more.
const mostExpected = 1000

func (d *denials) expect(nc *nats.Conn, subject string, b *bells) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.watched {
		d.watched = true
		others := nc.ErrorHandler()
		nc.SetErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
			if !d.took(err) && others != nil {
				others(nc, sub, err)
			}
		})
	}
	if d.expected == nil {
		d.expected = make(map[string]map[*bells]bool)
	}
	for other, of := range d.expected {
		if len(d.expected) < mostExpected {
			break
		}
		if len(of) == 0 {
			delete(d.expected, other)
		}
	}
	if d.expected[subject] == nil {
		d.expected[subject] = make(map[*bells]bool)
	}
	d.expected[subject][b] = true
}

func (d *denials) forget(subject string, b *bells) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.expected[subject], b)
}

// took reports whether an error is such a refusal, and stops those who asked for the subject.
func (d *denials) took(err error) bool {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return false
	}
	var hearers []*bells
	expected := false
	d.mu.Lock()
	for subject, of := range d.expected {
		if strings.Contains(err.Error(), `Subscription to "`+subject+`"`) {
			expected, hearers = true, slices.AppendSeq(hearers, maps.Keys(of))
		}
	}
	d.mu.Unlock()
	for _, b := range hearers {
		b.stop()
	}
	if expected {
		slog.Debug("a consumer hears only from its next extension that somebody else has ended its lease: its user may not subscribe to the events of its queue", "error", err)
	}
	return expected
}
