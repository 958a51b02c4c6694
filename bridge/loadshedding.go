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

// Refusing a request has a cost, too. Requests that arrive faster than the bridge
// can refuse them pile up in the client library, which drops them in the end
// without an answer. The bridge sheds load before that: it unsubscribes from
// requests until the ones that have arrived are answered. Meanwhile the server
// refuses requests (503, no responders) or delivers them to other bridges.
//
// Pushes keep a subscription of their own, which refuses each one in the cheapest
// way: the server reports nothing about a push without a reply subject, so the
// push would be lost without a trace. When that subscription falls behind as well,
// it ends until the load is shed. Requests with a reply subject are still answered
// by the server; pushes without one are lost, and only the fact is counted.

const (
	// shedAt and shedAtBytes are how many requests, and bytes of requests, may wait
	// for the callback: some tenths of a second's worth. What arrives until the
	// server has unsubscribed the bridge comes on top, and can be several times as
	// much.
	shedAt      = 32_768
	shedAtBytes = 16 << 20

	// shedCheck is the number of messages from one check of these to the next.
	shedCheck = 256

	// shedLog is the shortest time between two log lines about load shedding.
	shedLog = time.Minute
)

// shedding is the state of load shedding. Its lock guards the subscriptions, which
// change while the bridge serves.
type shedding struct {
	mu         sync.Mutex // held while the bridge is not subscribed to requests
	received   atomic.Int64
	underWay   atomic.Bool
	count      atomic.Int64 // times that the bridge unsubscribed from requests
	pushCount  atomic.Int64 // times that it unsubscribed from pushes as well
	logged     time.Time
	serving    context.Context // until the bridge drains
	endServing context.CancelFunc
}

func (s *shedding) init() { s.serving, s.endServing = context.WithCancel(context.Background()) }

// receiveNext receives the next message, and sheds load when too many wait.
func (b *Bridge) receiveNext(m *nats.Msg) {
	s := &b.shedding
	if s.checkDue() && overloaded(b.arrivals.pending()) && !s.underWay.Load() {
		s.underWay.Store(true)
		go b.shedLoad()
	}
	b.receive(m)
}

// checkDue counts a message and says whether it is time for a check.
func (s *shedding) checkDue() bool { return s.received.Add(1)%shedCheck == 0 }

func overloaded(messages, bytes int) bool { return messages > shedAt || bytes > shedAtBytes }

// shedLoad unsubscribes from requests until all that have arrived are refused or
// handed to a lane. It subscribes again only then, so requests keep their order.
func (b *Bridge) shedLoad() {
	s := &b.shedding
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.underWay.Store(false)
	sub := b.subs.requests
	if sub == nil || b.gate.closed() {
		return // the bridge is on standby, or drains
	}
	if now := time.Now(); now.Sub(s.logged) > shedLog {
		s.logged = now
		b.options.Logger.Warn("shedding load: requests arrive faster than the bridge can refuse them; for moments the server answers that there are no responders")
	}
	pushes, err := b.subscribeToRefuse()
	defer func() {
		for _, sub := range pushes {
			b.drainRefused(sub)
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
	s.count.Add(1)
	if b.arrivals.wait(s.serving) != nil {
		return // the bridge drains
	}
	b.subs.requests = nil
	if err := b.subscribe(); err != nil {
		b.options.Logger.Error("resubscribing to requests failed", "error", err)
	}
}

// subscribeToRefuse subscribes to pushes, to refuse them. The subscription to
// requests ends after it, so pushes have a subscription at every moment.
func (b *Bridge) subscribeToRefuse() (subs []*nats.Subscription, err error) {
	for _, subject := range b.grammar.Pushes() {
		sub, err := b.nc.QueueSubscribe(subject, queueGroup, b.refusePush)
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

// drainRefused ends a subscription to pushes after the ones that have arrived.
func (b *Bridge) drainRefused(sub *nats.Subscription) {
	if err := sub.Drain(); err != nil && !errors.Is(err, nats.ErrBadSubscription) { // it may have ended
		b.options.Logger.Debug("unsubscribing from requests failed", "error", err)
	}
}

var errShedding = &failure{code: 503, text: "more requests arrive than this bridge can refuse, nothing was done: try again in a moment"}

// sheddingHeader is the answer to a push while the bridge sheds load.
var sheddingHeader = nats.Header{
	protocol.HeaderStatus:      {strconv.Itoa(errShedding.code)},
	protocol.HeaderDescription: {errShedding.describe()},
	micro.ErrorHeader:          {errShedding.text},
	micro.ErrorCodeHeader:      {strconv.Itoa(errShedding.code)},
}

// behind says whether too many messages wait for a subscription's callback.
func behind(sub *nats.Subscription) bool {
	n, bytes, err := sub.Pending()
	return err == nil && overloaded(n, bytes)
}

// refusePush refuses a push unread.
func (b *Bridge) refusePush(m *nats.Msg) {
	if b.shedding.checkDue() && behind(m.Sub) && m.Sub.IsValid() && !m.Sub.IsDraining() {
		if b.shedding.pushCount.Add(1) == 1 { // later ones are in the metric alone
			b.options.Logger.Warn("shedding load: pushes arrive faster than the bridge can refuse them; for moments those without a reply subject are lost uncounted")
		}
		b.drainRefused(m.Sub)
	}
	b.stats.refusedUnread(verbPush, errShedding)
	if m.Reply == "" || !b.replies.answers(m.Reply) {
		b.events.lost(b.meantQueue(m.Subject), errShedding)
		return
	}
	b.publish(&nats.Msg{Subject: m.Reply, Header: sheddingHeader})
}
