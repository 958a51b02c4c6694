package receiver

import (
	"sync"

	"github.com/nats-io/nats.go"
)

// When nats.go reconnects while a subscription drains, it subscribes it again, and forgets it without a word to the
// server. The server would go on to send requests to a subscription that nobody reads, until the next reconnect.

// draining are the subscriptions that drain, with the number of the connection on which each began to drain.
type draining struct {
	mu    sync.Mutex
	since map[*nats.Subscription]uint64
}

// connection numbers the connections of the receiver.
func (r *Receiver) connection() uint64 { return r.nc.Stats().Reconnects }

// drain begins to end a subscription, which may have ended already: the server hears of it, and messages that the
// server has sent still arrive. The caller forgets the subscription when they are handled.
func (r *Receiver) drain(sub *nats.Subscription) error {
	if sub.Type() == nats.ChanSubscription && !r.nc.IsConnected() {
		r.unsubscribeFrom(sub) // the line keeps its messages
		return nil
	}
	r.draining.begin(sub, r.connection())
	return sub.Drain()
}

// forget ends subscriptions that drain. It drops messages that wait for a callback.
func (r *Receiver) forget(subs ...*nats.Subscription) {
	renewed := false
	for _, sub := range subs {
		r.unsubscribeFrom(sub)
		since, drained := r.draining.end(sub)
		renewed = renewed || drained && since != r.connection()
	}
	if renewed && r.nc.IsConnected() {
		if err := r.nc.ForceReconnect(); err != nil {
			r.options.Logger.Warn("reconnecting failed", "error", err)
		}
	}
}

// begin notes the connection on which a subscription began to drain, the first time.
func (d *draining) begin(sub *nats.Subscription, connection uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.since == nil {
		d.since = make(map[*nats.Subscription]uint64)
	}
	if _, drains := d.since[sub]; !drains {
		d.since[sub] = connection
	}
}

// end forgets a subscription, and returns on which connection it began to drain, if it did.
func (d *draining) end(sub *nats.Subscription) (connection uint64, drained bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	connection, drained = d.since[sub]
	delete(d.since, sub)
	return connection, drained
}
