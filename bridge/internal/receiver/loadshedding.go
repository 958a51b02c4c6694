package receiver

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// Refusing a request has a cost, too. Requests that arrive faster than the bridge can refuse them pile up in the
// client library, which drops them in the end without an answer. The bridge sheds load before that: it unsubscribes
// from requests until it has answered those that have arrived. Meanwhile the server refuses requests (503, no
// responders) or delivers them to other bridges.
//
// Pushes keep a subscription of their own, on which the bridge refuses each push in the cheapest way: the server
// reports nothing about a push without a reply subject, so without that subscription such a push would be lost
// without a trace. If that subscription falls behind as well, it ends until the load is shed. The server then still
// answers requests with a reply subject; pushes without one are lost, and the bridge only counts that it happened.

const (
	// shedAt and shedAtBytes are how many requests, and bytes of requests, may wait for the callback: the work of
	// some tenths of a second. Messages that arrive until the server has unsubscribed the bridge come on top, and
	// can be several times as many.
	shedAt      = 32_768
	shedAtBytes = 16 << 20

	// shedCheck is the number of messages from one check of these to the next.
	shedCheck = 256

	// shedLog is the shortest time between two log lines about load shedding.
	shedLog = time.Minute
)

// shedding is the state of load shedding.
type shedding struct {
	received  atomic.Int64
	underWay  atomic.Bool
	count     atomic.Int64                         // times that the bridge unsubscribed from requests
	pushCount atomic.Int64                         // times that it unsubscribed from pushes as well
	refusing  atomic.Pointer[[]*nats.Subscription] // to pushes
	logged    time.Time
}

// Sheddings returns how often the receiver unsubscribed from requests to shed load,
// and how often from pushes as well.
func (r *Receiver) Sheddings() (requests, pushes int64) {
	return r.shedding.count.Load(), r.shedding.pushCount.Load()
}

// handle handles the next message, and sheds load when too many wait.
func (r *Receiver) handle(m *nats.Msg) {
	s := &r.shedding
	if s.checkDue() && overloaded(r.arrivals.pending()) && s.underWay.CompareAndSwap(false, true) {
		go r.shed("shedding load: requests arrive faster than the bridge can refuse them; for moments the server answers that there are no responders", r.renewRequests)
	}
	r.options.Handlers.Request(m)
}

// checkDue counts a message and reports whether it is time for a check.
func (s *shedding) checkDue() bool { return s.received.Add(1)%shedCheck == 0 }

func overloaded(messages, bytes int) bool { return messages > shedAt || bytes > shedAtBytes }

// shed sheds load by calling renew, which unsubscribes and subscribes again, unless the bridge is on standby, or
// drains. The caller has marked it as under way.
func (r *Receiver) shed(why string, renew func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.shedding.underWay.Store(false)
	if len(r.requests()) == 0 || r.serving.Err() != nil {
		return
	}
	r.logShedding(why)
	renew()
}

// renewRequests unsubscribes from requests until all that have arrived are handled. Only then it subscribes again,
// so requests keep their order.
func (r *Receiver) renewRequests() {
	s, log := &r.shedding, r.options.Logger
	pushes, err := r.subscribeToRefuse()
	s.refusing.Store(&pushes)
	defer func() {
		s.refusing.Store(nil)
		r.endRefusing(pushes)
	}()
	requests := r.requests()
	for _, sub := range requests {
		if err == nil {
			err = r.drain(sub)
		}
	}
	if err != nil {
		log.Error("unsubscribing from requests failed", "error", err)
		return
	}
	r.awaitServer()
	s.count.Add(1)
	if r.arrivals.wait(r.serving) != nil {
		return // the bridge drains
	}
	r.forget(requests...)
	for _, f := range r.fronts {
		f.requests = nil
	}
	if err := r.subscribe(); err != nil {
		log.Error("resubscribing to requests failed", "error", err)
	}
}

// requests are the subscriptions to requests. r.mu is held.
func (r *Receiver) requests() (subs []*nats.Subscription) {
	for _, f := range r.fronts {
		if f.requests != nil {
			subs = append(subs, f.requests)
		}
	}
	return subs
}

// logShedding logs, once in a while, that load is shed.
func (r *Receiver) logShedding(text string) {
	if now := time.Now(); now.Sub(r.shedding.logged) > shedLog {
		r.shedding.logged = now
		r.options.Logger.Warn(text)
	}
}

// awaitServer returns when the server has sent its last message for subscriptions that drain, or the connection is
// lost, or the bridge drains.
func (r *Receiver) awaitServer() {
	for r.nc.IsConnected() && r.serving.Err() == nil && errors.Is(r.nc.Flush(), nats.ErrTimeout) {
	}
}

// subscribeToRefuse subscribes to pushes, to refuse them. The subscription to
// requests ends after it, so pushes have a subscription at every moment.
func (r *Receiver) subscribeToRefuse() (subs []*nats.Subscription, err error) {
	for _, f := range r.fronts {
		if f.requests == nil {
			continue
		}
		for _, subject := range f.subjects.Pushes {
			sub, err := r.nc.QueueSubscribe(subject, r.options.Group, r.refuse)
			if err == nil {
				subs = append(subs, sub)
				err = sub.SetPendingLimits(-1, pendingBytes)
			}
			if err != nil {
				return subs, fmt.Errorf("subscribe to %s: %w", subject, err)
			}
		}
	}
	return subs, nil
}

// endRefusing ends the subscriptions to pushes after the pushes that have arrived.
func (r *Receiver) endRefusing(subs []*nats.Subscription) {
	for _, sub := range subs {
		r.drainRefused(sub)
	}
	r.awaitServer()
	if r.barrier(r.serving) == nil {
		r.forget(subs...)
	}
}

// drainRefused begins to end a subscription to pushes.
func (r *Receiver) drainRefused(sub *nats.Subscription) {
	if err := r.drain(sub); err != nil {
		r.options.Logger.Debug("unsubscribing from requests failed", "error", err)
	}
}

// behind reports whether too many messages wait for a subscription's callback.
func behind(sub *nats.Subscription) bool {
	n, bytes, err := sub.Pending()
	return err == nil && overloaded(n, bytes)
}

// refuse refuses a push, and ends its subscription if too many wait there.
func (r *Receiver) refuse(m *nats.Msg) {
	if r.shedding.checkDue() && behind(m.Sub) && m.Sub.IsValid() && !m.Sub.IsDraining() {
		if r.shedding.pushCount.Add(1) == 1 { // only the metric counts later ones
			r.options.Logger.Warn("shedding load: pushes arrive faster than the bridge can refuse them; for moments those without a reply subject are lost uncounted")
		}
		r.drainRefused(m.Sub)
	}
	r.options.Handlers.Refuse(m)
}

// A NATS server closes a connection when it holds too much for it, and all requests that it holds are lost. On a
// busy machine, clients can send faster than the bridge can even skip. So the receiver unsubscribes before that:
// the server then refuses requests (503, no responders). Pushes without a reply subject are lost; the bridge only
// counts that it happened.

// watchBacklog sheds all load whenever the server holds too much, until the receiver drains.
func (r *Receiver) watchBacklog() {
	for {
		select {
		case <-r.options.Backlog:
		case <-r.serving.Done():
			return
		}
		if r.shedding.underWay.CompareAndSwap(false, true) {
			r.shed("shedding load: the server holds more for the bridge than it can read; for moments the server answers that there are no responders, and pushes without a reply subject are lost uncounted", r.renewAll)
		} else {
			r.shedPushes()
		}
	}
}

// shedPushes ends the subscriptions to pushes while other load is shed.
func (r *Receiver) shedPushes() {
	if pushes := r.shedding.refusing.Swap(nil); pushes != nil {
		r.shedding.pushCount.Add(1)
		for _, sub := range *pushes {
			r.drainRefused(sub)
		}
	}
}

// renewAll ends all subscriptions until the messages that the server holds have been handled, and makes them anew.
func (r *Receiver) renewAll() {
	s, log := &r.shedding, r.options.Logger
	var subs []*nats.Subscription // in the order of Pause
	for _, f := range r.fronts {
		for _, sub := range f.all() {
			if *sub != nil {
				subs = append(subs, *sub)
			}
		}
	}
	for _, sub := range subs {
		if err := r.drain(sub); err != nil {
			log.Error("unsubscribing failed", "subject", sub.Subject, "error", err)
			return // the connection is closed
		}
	}
	r.awaitServer()
	s.count.Add(1)
	s.pushCount.Add(1)
	if r.arrivals.wait(r.serving) != nil || r.barrier(r.serving) != nil {
		return // the bridge drains
	}
	r.forget(subs...)
	for _, f := range r.fronts {
		f.requests, f.signals, f.settlements = nil, nil, nil
	}
	select {
	case <-r.options.Backlog: // about what has been handled
	default:
	}
	if err := r.subscribe(); err != nil {
		log.Error("resubscribing failed", "error", err)
	}
}
