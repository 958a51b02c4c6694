// Package receiver owns the NATS subscriptions of a bridge, from the first one to the last: it subscribes, sheds
// load, goes on standby and drains. A bridge has one front, and one more for other sites if its site has a name;
// each has subjects of its own, and its own standby.
//
// What it guarantees: requests and settlements (with tenants: of each tenant) are handled one after the other, in
// the order in which the connection received them, whatever the subscription. Every message that arrived before a
// subscription ended is handled before a new one begins, so the order lasts. The subscription to settlements
// outlives the one to requests. If requests arrive faster than the handler returns, the receiver unsubscribes from
// them for a while; see loadshedding.go. Tenants take turns, and a tenant that sends too much is refused before
// that; see lines.go.
//
// The package knows neither queues nor the store, and reads no message.
package receiver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Subjects are the subjects of a front.
type Subjects struct {
	Requests    string
	Settlements string   // requests that the bridge receives for longer when it drains
	Signals     string   // subjects of settlements on which the server reports undeliverable items
	Pushes      []string // requests that are refused while the receiver sheds load
}

// Handlers handle messages. None of them may block.
type Handlers struct {
	// Request handles a request or a settlement.
	Request func(*nats.Msg)

	// Signal handles a message on a signal's subject. It is called for settlements as
	// well, which Request handles.
	Signal func(*nats.Msg)

	// Refuse refuses a push that was not read, while the receiver sheds load. It may run at the same time as the
	// other handlers.
	Refuse func(*nats.Msg)

	// Flood refuses a message that was not read, while its tenant floods the receiver. It may run at the same time
	// as the other handlers, and must not wait for them.
	Flood func(tenant, subject, reply string)
}

// Options configure a receiver. All but Tenant, Floods and Backlog are required.
type Options struct {
	Fronts   []Subjects
	Group    string // queue group of all subscriptions but the one to signals
	Handlers Handlers
	Logger   *slog.Logger

	// Tenant returns the tenant of a message with this subject, "" if it has none. nil: there are no tenants, and
	// Handlers.Flood is never called.
	Tenant func(subject string) string

	// Floods learns which messages the connection may refuse instead of the receiver.
	Floods *Floods

	// Backlog gets a value while the server holds too much for the connection. The receiver then ends all
	// subscriptions until the held messages have been handled.
	Backlog <-chan struct{}
}

// Receiver receives the messages of one bridge.
type Receiver struct {
	nc       *nats.Conn
	options  Options
	arrivals arrivals
	shedding shedding
	draining draining

	serving    context.Context // until the receiver drains
	endServing context.CancelFunc

	// mu guards the subscriptions. It is held whenever the bridge is not subscribed to requests, except on standby.
	mu     sync.Mutex
	fronts []*front
}

// front has the subscriptions to the subjects of a front. They are nil on standby.
type front struct {
	subjects    *Subjects
	paused      bool
	requests    *nats.Subscription // all requests, in the order in which they arrive
	settlements *nats.Subscription // settlements, which are received for longer
	signals     *nats.Subscription // the server's messages that an item had no receiver
}

// all are the subscriptions, in the order in which they end. The one to signals ends before the one to settlements,
// whose messages it matches: while it lasts, the server would not report that a settlement has no responders.
func (f *front) all() []**nats.Subscription {
	return []**nats.Subscription{&f.requests, &f.signals, &f.settlements}
}

// New returns a receiver on a connection. It receives nothing yet.
func New(nc *nats.Conn, o Options) *Receiver {
	r := &Receiver{nc: nc, options: o, arrivals: arrivals{tenant: o.Tenant, refuse: o.Handlers.Flood, floods: o.Floods}}
	for i := range o.Fronts {
		r.fronts = append(r.fronts, &front{subjects: &o.Fronts[i]})
	}
	r.serving, r.endServing = context.WithCancel(context.Background())
	return r
}

// Start subscribes, and handles messages until Close. When it fails, the receiver is
// closed.
func (r *Receiver) Start() error {
	r.arrivals.start(r.handle, r.options.Logger)
	go r.watchBacklog()
	r.mu.Lock()
	err := r.subscribe()
	r.mu.Unlock()
	if err == nil {
		// The server has refused by now what it does not permit.
		if last := r.nc.LastError(); errors.Is(last, nats.ErrPermissionViolation) {
			err = fmt.Errorf("subscribe: %w", last)
		}
	}
	if err != nil {
		r.Close()
	}
	return err
}

// subscribe makes the subscriptions that are missing.
func (r *Receiver) subscribe() error {
	for _, f := range r.fronts {
		if f.paused {
			continue
		}
		if err := r.subscribeTo(f); err != nil {
			return err
		}
	}
	if err := r.nc.Flush(); err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	return nil
}

func (r *Receiver) subscribeTo(f *front) error {
	of := f.subjects
	// The subscription to settlements begins before the one to signals, which matches
	// settlements too and answers none. The one to requests begins last: an item that
	// was delivered before could not be given back.
	err := r.share(&f.settlements, of.Settlements)
	if err == nil && f.signals == nil {
		if f.signals, err = r.nc.Subscribe(of.Signals, r.options.Handlers.Signal); err == nil {
			err = f.signals.SetPendingLimits(-1, pendingBytes)
		}
		err = subscribing(of.Signals, err)
	}
	if err == nil {
		err = r.share(&f.requests, of.Requests)
	}
	return err
}

// share subscribes to requests of which each bridge gets some.
func (r *Receiver) share(sub **nats.Subscription, subject string) (err error) {
	if *sub == nil {
		*sub, err = r.nc.ChanQueueSubscribe(subject, r.options.Group, r.arrivals.came)
	}
	return subscribing(subject, err)
}

func subscribing(subject string, err error) error {
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	return nil
}

// Pause unsubscribes from a front. It returns when the messages that have arrived are handled. Before Start it
// makes the front begin on standby.
func (r *Receiver) Pause(ctx context.Context, front int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.fronts[front]
	f.paused = true
	var err error
	for _, sub := range f.all() {
		err = errors.Join(err, r.end(ctx, sub))
	}
	return err
}

// Resume subscribes to a front again after Pause. When it fails, the front stays paused.
func (r *Receiver) Resume(front int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.fronts[front]
	f.paused = false
	err := r.subscribe()
	if err != nil {
		f.paused = true
		r.unsubscribe(f)
	}
	return err
}

// Flood makes the receiver refuse messages of a tenant unread for a while, as when it has sent more than can be
// handled.
func (r *Receiver) Flood(tenant string) { r.arrivals.flood(tenant) }

// Await returns when all messages that the server has sent so far are handled.
func (r *Receiver) Await(ctx context.Context) error {
	err := r.arrived(ctx)
	if err == nil {
		err = r.arrivals.wait(ctx)
	}
	if err == nil {
		err = r.barrier(ctx)
	}
	return err
}

// DrainRequests unsubscribes from requests for good, and returns when those that have
// arrived are handled.
func (r *Receiver) DrainRequests(ctx context.Context) (err error) {
	r.endServing()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.fronts {
		err = errors.Join(err, r.end(ctx, &f.requests))
	}
	return err
}

// DrainSettlements does the same for signals and settlements.
func (r *Receiver) DrainSettlements(ctx context.Context) (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.fronts {
		err = errors.Join(err, r.end(ctx, &f.signals), r.end(ctx, &f.settlements))
	}
	return err
}

// Close ends the receiver at once; messages that have arrived are still handled.
func (r *Receiver) Close() {
	r.endServing()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.fronts {
		r.unsubscribe(f)
	}
	r.arrivals.stop()
}

// unsubscribe ends all subscriptions of a front at once.
func (r *Receiver) unsubscribe(f *front) {
	for _, sub := range f.all() {
		if *sub != nil {
			r.unsubscribeFrom(*sub)
			*sub = nil
		}
	}
}

// unsubscribeFrom ends a subscription at once. A drained one has ended by itself.
func (r *Receiver) unsubscribeFrom(sub *nats.Subscription) {
	if err := sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrBadSubscription) && !r.nc.IsClosed() {
		r.options.Logger.Warn("unsubscribing failed", "subject", sub.Subject, "error", err)
	}
}

// end ends a subscription if there is one, and waits until all messages that the
// server has sent for it are handled.
func (r *Receiver) end(ctx context.Context, of **nats.Subscription) error {
	sub := *of
	if sub == nil { // on standby
		return nil
	}
	*of = nil
	err := r.drain(sub)
	if err == nil {
		err = r.arrived(ctx)
	}
	if sub.Type() == nats.ChanSubscription {
		defer r.forget(sub) // the line keeps its messages
		if err == nil {
			err = r.arrivals.wait(ctx)
		}
	} else if err == nil {
		if err = r.barrier(ctx); err == nil {
			r.forget(sub)
		}
	}
	if err != nil {
		return fmt.Errorf("drain %s: %w", sub.Subject, err)
	}
	return nil
}

// arrived returns when all messages that the server has sent on this connection have arrived. The connection may be
// lost meanwhile.
func (r *Receiver) arrived(ctx context.Context) error {
	err := Flush(ctx, r.nc)
	if errors.Is(err, nats.ErrConnectionClosed) && !r.nc.IsClosed() {
		return nil
	}
	return err
}

// barrier returns when the handlers of all messages that have arrived have returned.
func (r *Receiver) barrier(ctx context.Context) error {
	handled := make(chan struct{})
	if err := r.nc.Barrier(func() { close(handled) }); err != nil {
		return err
	}
	select {
	case <-handled:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

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

// flushPatience bounds the wait for a server that does not answer. If half of the time until the deadline is
// longer, the wait takes that half: the server's machine may be busy, and the rest of the shutdown needs the other
// half.
const flushPatience = 2 * time.Second

// Flush waits until the server has received all messages. Without a connection it
// does nothing. When ctx has ended before, it fails, even if the server were to answer at once.
func Flush(ctx context.Context, nc *nats.Conn) error {
	if !nc.IsConnected() {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience(ctx))
	defer cancel()
	if err := nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	return nil
}

// patience is how long a flush waits.
func patience(ctx context.Context) time.Duration {
	if end, bounded := ctx.Deadline(); bounded {
		return max(flushPatience, time.Until(end)/2)
	}
	return flushPatience
}
