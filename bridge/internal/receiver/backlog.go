package receiver

import "github.com/nats-io/nats.go"

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
