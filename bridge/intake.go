package bridge

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/pqbridge/pqbridge/protocol"
)

// To refuse a request costs something too. When more arrives than the bridge
// can even refuse, requests pile up in the client library, which drops them in
// the end, and then nobody ever answers. Before that the bridge rests: it takes
// no more requests, so that the server itself refuses them (503, nobody there)
// or gives them to other bridges, until those that are here are answered. Only
// pushes are still heard, and turned away in the cheapest way: the server says
// nothing when a push without a reply subject finds nobody, and then it would be
// lost without a trace. When even that falls behind, the bridge is deaf for what
// is left of the rest: every request has its answer from the server then, but
// pushes that want none are lost and only known to have been lost.

const (
	// restAt and restAtBytes are how many requests, and bytes of their bodies,
	// may lie before the callback: some tenths of a second's worth. What arrives
	// until the server knows comes on top, and that can be several times as much.
	restAt      = 32_768
	restAtBytes = 16 << 20

	// restLook is how many messages pass between looks at that.
	restLook = 256

	// restWarn is how often rests are logged.
	restWarn = time.Minute
)

// intake guards the subscriptions, which change while the bridge serves.
type intake struct {
	mu      sync.Mutex // held as long as requests are not taken
	passed  atomic.Int64
	resting atomic.Bool
	rests   atomic.Int64
	deaf    atomic.Int64 // times that pushes were not even turned away
	warned  time.Time
	serving context.Context // until the bridge drains
	end     context.CancelFunc
}

func (i *intake) init() { i.serving, i.end = context.WithCancel(context.Background()) }

// receiveNext takes the next message that has arrived.
func (b *Bridge) receiveNext(m *nats.Msg) {
	i := &b.intake
	if i.looks() && tooMuch(b.arrivals.pending()) && !i.resting.Load() {
		i.resting.Store(true)
		go b.rest()
	}
	b.receive(m)
}

// looks says now and then that it is time to look how much is pending.
func (i *intake) looks() bool { return i.passed.Add(1)%restLook == 0 }

func tooMuch(messages, bytes int) bool { return messages > restAt || bytes > restAtBytes }

// rest takes no requests until those that have arrived are with the lanes or
// refused. The next subscription begins after that, so their order stays.
func (b *Bridge) rest() {
	i := &b.intake
	i.mu.Lock()
	defer i.mu.Unlock()
	defer i.resting.Store(false)
	sub := b.subs.requests
	if sub == nil || b.gate.closed() {
		return // somebody else has ended it
	}
	if now := time.Now(); now.Sub(i.warned) > restWarn {
		i.warned = now
		b.options.Logger.Warn("shedding load: requests arrive faster than the bridge can refuse them; for moments the server answers that there are no responders")
	}
	turned, err := b.turnPushesAway()
	defer func() {
		for _, sub := range turned {
			b.endTurning(sub)
		}
	}()
	if err == nil {
		err = sub.Drain()
	}
	if err == nil {
		err = b.nc.Flush()
	}
	if err != nil {
		b.options.Logger.Error("unsubscribing from requests failed", "error", err)
		return
	}
	i.rests.Add(1)
	if b.arrivals.wait(i.serving) != nil {
		return // the bridge drains
	}
	b.subs.requests = nil
	if err := b.subscribe(); err != nil {
		b.options.Logger.Error("resubscribing to requests failed", "error", err)
	}
}

// turnPushesAway hears pushes beside the subscription that is about to end, so
// that there is no moment in which nobody does.
func (b *Bridge) turnPushesAway() (subs []*nats.Subscription, err error) {
	for _, subject := range b.grammar.Pushes() {
		sub, err := b.nc.QueueSubscribe(subject, queueGroup, b.turnAway)
		if err == nil {
			subs = append(subs, sub)
			err = sub.SetPendingLimits(-1, pendingBytes)
		}
		if err != nil {
			return subs, fmt.Errorf("subscribe to %s: %w", subject, err)
		}
	}
	return subs, nil
}

func (b *Bridge) endTurning(sub *nats.Subscription) {
	if err := sub.Drain(); err != nil && !errors.Is(err, nats.ErrBadSubscription) { // it may have ended
		b.options.Logger.Debug("unsubscribing from requests failed", "error", err)
	}
}

var errResting = &failure{code: 503, text: "more requests arrive than this bridge can refuse, nothing was done: try again in a moment"}

// turned is what a push is answered while the bridge rests.
var turned = nats.Header{
	protocol.HeaderStatus:      {strconv.Itoa(errResting.code)},
	protocol.HeaderDescription: {errResting.describe()},
	micro.ErrorHeader:          {errResting.text},
	micro.ErrorCodeHeader:      {strconv.Itoa(errResting.code)},
}

// behind says that too much lies before a callback.
func behind(sub *nats.Subscription) bool {
	n, bytes, err := sub.Pending()
	return err == nil && tooMuch(n, bytes)
}

// turnAway refuses a push without looking at it.
func (b *Bridge) turnAway(m *nats.Msg) {
	if b.intake.looks() && behind(m.Sub) && m.Sub.IsValid() && !m.Sub.IsDraining() {
		if b.intake.deaf.Add(1) == 1 { // the metric tells of more
			b.options.Logger.Warn("shedding load: pushes arrive faster than the bridge can refuse them; for moments those without a reply subject are lost uncounted")
		}
		b.endTurning(m.Sub)
	}
	b.stats.turnedAway(verbPush, errResting)
	if m.Reply == "" || !b.replies.answers(m.Reply) {
		b.events.lost(b.meantQueue(m.Subject), errResting)
		return
	}
	b.publish(&nats.Msg{Subject: m.Reply, Header: turned})
}
