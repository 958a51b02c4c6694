package bridge

import (
	"context"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/waiting"
	"github.com/pqbridge/pqbridge/internal/testkit/patience"
)

// EndMaintenance ends the transactions that a bridge has of its own.
func EndMaintenance(b *Bridge) { b.keeper.Stop() }

// InterestPatience sets how long a bridge waits for the server to say whether a
// client still listens. It must be called before the first pop waits.
func InterestPatience(b *Bridge, d time.Duration) { b.asker.SetPatience(d) }

// OwnCollector returns the bridge's metrics without the metrics of queues, for which it would ask the store.
func OwnCollector(b *Bridge) prometheus.Collector {
	c := b.Collector().(collector)
	c.queues = prometheus.CollectorFunc(func(chan<- prometheus.Metric) {})
	return c
}

// LookAtLengths does what a bridge does each minute.
func LookAtLengths(b *Bridge, ctx context.Context) { b.historian.Look(ctx) }

// StuckAfter are options with which requests are refused that wait for so long behind a
// transaction.
func StuckAfter(d time.Duration) Options {
	return Options{patience: batch.Patience{First: d, Then: d}}
}

// Patient are options with which requests wait behind a transaction as long as they
// must, unless the options say otherwise, and no queue's part in one is too slow.
func Patient(o Options) Options {
	if o.patience == (batch.Patience{}) {
		o.patience = batch.Patience{First: time.Hour, Then: time.Hour}
	}
	o.slow = time.Hour
	return o
}

// Paced are options with which transactions may take as much longer as all takes on a busy machine, unless the options
// say otherwise: there a test is about something else.
func Paced(o Options) Options {
	if o.patience == (batch.Patience{}) {
		o.pace = batch.Patience{First: patience.Times(desk.TxTimeout), Then: patience.Times(desk.TxTimeoutDown)}
	}
	return o
}

// Timed are options with a clock of tests.
func Timed(now func() time.Time, o Options) Options {
	o.now = now
	return o
}

// Deaf has a bridge answer no other one's question.
func Deaf(b *Bridge) { b.survey.Stop() }

// Since are options that say how long ago requests arrived.
func Since(since func(time.Time) time.Duration) Options { return Options{since: since} }

// IdleSlots returns how many workers wait for work, of all kinds.
func IdleSlots(b *Bridge) (idle int) {
	for _, kind := range b.workers.all() {
		idle += kind.Idle()
	}
	return idle
}

// InLine returns how many lines of requests that change something wait for a turn, but for those of bulk operations.
func InLine(b *Bridge) (lines int) {
	lines = b.workers.pop.Waiting() + b.workers.change.Waiting() + b.workers.imports.Waiting()
	if b.workers.push != b.workers.pop {
		lines += b.workers.push.Waiting()
	}
	return lines
}

// Counted is what a bridge has counted at a queue.
func Counted(b *Bridge, queue string) request.Tally {
	of, _ := b.responder.Stats.Queues.Counts()
	return of[queue].Tally
}

// AwaitWorkers returns when no worker is left.
func AwaitWorkers(b *Bridge) {
	for _, kind := range b.workers.all() {
		kind.Wait()
	}
}

// Leave has a connection do what it does when its server is about to stop.
func Leave(nc *nats.Conn) { leave(nc, slog.New(slog.DiscardHandler)) }

// ReceiveDuringDrain has the bridge handle a message of its subscription to settlements
// while it drains.
func ReceiveDuringDrain(b *Bridge, secret []byte, m *nats.Msg) error {
	wr, err := codec.New(DefaultPrefix, secret, b.nc.MaxPayload)
	if err != nil {
		return err
	}
	draining := *b.responder
	draining.Gate = request.NewGate(1, 1)
	draining.Gate.Close()
	d := dispatcher{Responder: &draining, Wire: wr, workers: &b.workers}
	d.receive(m)
	return nil
}

// RefuseUnread has the bridge handle a push as it does while it sheds load.
func RefuseUnread(b *Bridge, storeID string, m *nats.Msg) error {
	o := Options{}.withDefaults()
	replies, err := newReplies(o, storeID)
	if err != nil {
		return err
	}
	wr, err := codec.New(o.Prefix, nil, b.nc.MaxPayload)
	if err != nil {
		return err
	}
	d := dispatcher{Responder: b.responder, Wire: wr, replies: replies}
	d.refusePush(m)
	return nil
}

// EnterStandby pauses a bridge as when it goes on standby.
func EnterStandby(ctx context.Context, b *Bridge) error {
	s := standby{b.receiver, b.awaits}
	return s.enter(ctx)
}

// LeaveStandby resumes a bridge as when it leaves standby.
func LeaveStandby(b *Bridge) error {
	s := standby{b.receiver, b.awaits}
	return s.leave()
}

// Contest has a bridge find that others pop a queue, as after a conflict with one.
func Contest(b *Bridge, queue string) { b.peers.Owners.Lost(queue) }

// Passed is how many requests to pop a bridge has passed on to others, and taken from others.
func Passed(b *Bridge) (passed, taken int64) { return b.peers.Owners.Counts() }

// Owner is the bridge that pops a contested queue for all, as a bridge sees it, and whether it
// is that one.
func Owner(b *Bridge, queue string) (id string, own bool) { return b.peers.Owners.Owner(queue) }

// Hold has stops of sources be believed when they were true for so long.
func Hold(o Options, d time.Duration) Options {
	o.hold = d
	return o
}

// Unseen has waits of clients that the bridge cannot see last so long.
func Unseen(o Options, d time.Duration) Options {
	o.unseen = d
	return o
}

// Told has requests for results look only when they are told of the end of their item.
func Told(o Options) Options {
	o.look = 24 * time.Hour
	return o
}

// Sweep has a bridge ask about clients at these reply subjects, as it does from time to time.
func Sweep(b *Bridge, replies ...string) (gone []string) {
	var of []waiting.Wait
	for _, reply := range replies {
		of = append(of, waiting.Wait{Queue: "jobs", Reply: reply})
	}
	return b.waits.Sweep(of)
}

// Rated are options whose tenants' rates go by a clock.
func Rated(o Options, now func() time.Time) Options {
	o.now = now
	return o
}

// NewRefusals returns refusals, none of which waits. The flush is called behind as many as are sent at once.
func NewRefusals(flush func()) (do func(refuse func()), after func(pause time.Duration, room int, refuse func())) {
	q := &refusals{flush: flush}
	return q.do, q.after
}
