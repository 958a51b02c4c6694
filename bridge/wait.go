package bridge

import (
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/waiting"
	"github.com/pqbridge/pqbridge/protocol"
)

// place is a request's place among those that wait.
type place = waiting.Pop[*pop]

// lineUp makes the line of waiting pops.
func (b *Bridge) lineUp() {
	b.waiting = waiting.New(waiting.Options[*pop]{
		Places: b.options.Limits.Waiters,
		Bands:  protocol.MaxBands,
		End:    b.endWait,
		Serve:  b.lanes.take.Kick,
		Gone:   b.presence.gone,
	})
}

// A waiting pop is answered a little before its time is up, because the answer has
// to arrive in time.
const (
	waitMargin   = 10 * time.Millisecond
	waitFraction = 10 // of the time, when that is less
)

// wait makes a request wait. It is not in flight any more, and what follows it on
// the same lease goes ahead: +NXT has settled.
func (b *Bridge) wait(r *pop) {
	b.gate.leave(&r.request)
	if r.settles != nil {
		b.order.remove(r.settles)
	}
	r.msg = kept(r.msg)
	r.spent, r.since = r.took(), time.Time{}
	r.place = waiting.NewPop(waiting.Wait{
		Queue: r.subject.Queue, Band: r.ask.band, Reply: r.msg.Reply,
		Ends: r.arrived.Add(r.ask.wait - min(waitMargin, r.ask.wait/waitFraction)),
	}, r)
	if err := b.waiting.Add(r.place); err != nil {
		b.endWait(r, err)
	}
}

// waitOn lets a request wait on that found nothing.
func (b *Bridge) waitOn(r *pop) {
	r.since = time.Time{}
	if err := b.waiting.Keep(r.place); err != nil {
		b.endWait(r, err)
	}
}

// endWait answers a request whose wait has ended without an item. A client that has
// gone is told nothing.
func (b *Bridge) endWait(r *pop, why error) {
	if errors.Is(why, waiting.ErrGone) {
		b.done(&r.request, errGone)
		return
	}
	b.refuse(&r.request, explain(why))
}

// attempt returns the requests that wait, for a transaction to serve.
func (b *Bridge) attempt(queue string) waiting.Attempt[*pop] {
	a := b.waiting.Attempt(queue)
	now := time.Now()
	for _, r := range a.Pops {
		r.since, r.present = now, false
	}
	return a
}

// kept is what a request needs of its message while it waits. The message may be
// as large as the server lets it be.
func kept(m *nats.Msg) *nats.Msg {
	small := &nats.Msg{Subject: m.Subject, Reply: m.Reply}
	for _, key := range traceContext.Fields() {
		if value := messageCarrier(m.Header).Get(key); value != "" && len(value) <= maxTraceField {
			if small.Header == nil {
				small.Header = make(nats.Header)
			}
			small.Header[key] = []string{value}
		}
	}
	return small
}

// maxTraceField is how much of a tracestate everybody has to pass on.
const maxTraceField = 512
