package bridge

import (
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/results"
	feeds "github.com/pqbridge/pqbridge/bridge/internal/sources"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
)

// Options configure a bridge. The zero value suits most programs.
type Options struct {
	Prefix    string // of all subjects; "": pq
	Site      string // the name of this site: the bridge also serves subjects that begin with it, in front of Prefix; "": none
	Version   string // of the program, for discovery; a semantic version
	StoreName string // the name of the store in _sys.info
	Exclusive bool   // only this process can open the store: go on standby beside a bridge with another store, settle in the transactions of pops
	Logger    *slog.Logger

	// ReplySubjects are further patterns of reply subjects that the bridge answers, besides _INBOX.> and _R_.>. A
	// client chooses the reply subject of its request, and may have chosen the content of the answer, too.
	ReplySubjects []string

	// Backlog gets a value while the server holds too much for the connection. The bridge then unsubscribes until
	// it has read all held messages. Without this channel it stays subscribed.
	Backlog <-chan struct{}

	// Interest returns the subjects, of these, without a subscriber, if the NATS server runs in this process.
	// client is the server's number of the bridge's connection. It reports false if it cannot tell. nil: the bridge
	// asks the server by messages.
	Interest func(client uint64, subjects []string) (gone []string, known bool)

	// Floods tells the connection which messages of tenants the bridge would refuse unread. nil: only the bridge
	// refuses them.
	Floods *Floods

	Tracer trace.Tracer // nil: no spans
	Limits Limits

	// patience is how long requests wait behind a transaction that does not end. A
	// transaction whose result is unknown may take as long as fdbpq's resolveTimeout.
	patience batch.Patience

	// pace is how long a transaction may take, while the store works and while it is known to fail. Zero: txTimeout,
	// txTimeoutDown.
	pace batch.Patience

	// slow is how long the part of a queue in a turn may take. Zero: see desk.Desk.
	slow time.Duration

	// Cluster answers for the processes that keep the store together, of which this one
	// is active. nil: the store belongs to this process alone, or every process that opens
	// it has a bridge.
	Cluster *ClusterEndpoint

	// Room returns the reason why the store takes no new items of this many bytes now, or nil. Other
	// changes go on. Without this function the store always takes them.
	Room func(bytes int) error

	// Reserve returns the reason why the store serves only requests that make room, or nil. Without this function it
	// serves all requests.
	Reserve func() error

	// Last returns the reason why the store serves only requests that end items, or nil. It is nil where Reserve is.
	Last func() error

	// Tenants makes subjects name tenants, and returns the quotas of each. The result may change. nil: there are no
	// tenants.
	Tenants func(tenant string) Quotas

	// Remotes are the NATS servers where sources find streams, by name. The result may change. nil: there are none.
	Remotes func() map[string]Remote

	// hold is how long the reason for a stop of a source has to last. 0: feeds.Hold.
	hold time.Duration

	// unseen is the longest wait of a pop whose client the bridge cannot see. 0: protocol.MaxWaitUnseen.
	unseen time.Duration

	// look is how often requests for results look again that nobody tells of the end of their item. 0: results.LookEvery.
	look time.Duration

	since func(time.Time) time.Duration // time.Since, but in tests
	now   func() time.Time              // of tenants' rates: time.Now, but in tests

	// MetricsQueues is how many queues have metrics of their own. 0: DefaultMetricsQueues;
	// negative: no queue has metrics.
	MetricsQueues int

	// Damage describes the damage known in the store's files. Without this function no damage is known.
	Damage func() []string

	// Disk describes the disk of the store; its result is nil while the state of the disk is unknown.
	Disk func() *protocol.Disk
}

// Remote is a NATS server where a bridge finds streams for sources.
type Remote = feeds.Remote

// DefaultPrefix begins all subjects when Options.Prefix is empty.
const DefaultPrefix = "pq"

// DefaultMetricsQueues is how many queues have metrics of their own when
// Options.MetricsQueues is 0.
const DefaultMetricsQueues = 1000

// QueueGroup is shared by all bridges under a prefix, so one of them gets each
// request. All subscriptions use it, because the server then delivers a message to
// only one of the subscriptions that match.
const QueueGroup = "pq"

func (o Options) withDefaults() Options {
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if o.Version == "" {
		o.Version = "0.0.0"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.MetricsQueues == 0 {
		o.MetricsQueues = DefaultMetricsQueues
	}
	if o.Room == nil {
		o.Room = func(int) error { return nil }
	}
	if o.Reserve == nil {
		o.Reserve = func() error { return nil }
	}
	if o.Last == nil {
		o.Last = func() error { return nil }
	}
	if o.Remotes == nil {
		o.Remotes = func() map[string]Remote { return nil }
	}
	if o.Damage == nil {
		o.Damage = func() []string { return nil }
	}
	if o.Disk == nil {
		o.Disk = func() *protocol.Disk { return nil }
	}
	if o.pace == (batch.Patience{}) {
		o.pace = batch.Patience{First: desk.TxTimeout, Then: desk.TxTimeoutDown}
	}
	if o.patience == (batch.Patience{}) {
		o.patience = o.pace
	}
	if o.unseen == 0 {
		o.unseen = protocol.MaxWaitUnseen
	}
	if o.look == 0 {
		o.look = results.LookEvery
	}
	if o.since == nil {
		o.since = time.Since
	}
	if o.now == nil {
		o.now = time.Now
	}
	o.Limits = o.Limits.withDefaults()
	return o
}

// Limits bound the requests, bytes and waiting pops of a bridge. Zero means the default.
type Limits struct {
	// Requests in flight. A client that sends 10,000 pushes in a row fits. With
	// more, answers would arrive after the time-outs of clients. Settlements free
	// leases, so four times as many of them are accepted.
	Requests int

	// Bytes of requests in flight: with the default, eight of the largest
	// payloads, or 4 KiB for each of the requests.
	Bytes int64

	// Waiters are pops that wait for an item. Each costs about a kilobyte, 6 KiB at most, but no
	// goroutine and no polling.
	Waiters int

	// BatchRequests and BatchBytes bound one transaction. More requests
	// would delay their answers without making each one cheaper. The bytes stay well
	// below the limit of a transaction.
	BatchRequests int
	BatchBytes    int
}

// The default limits.
const (
	DefaultRequests      = 16_384
	DefaultBytes         = 64 << 20
	DefaultWaiters       = 10_000
	DefaultBatchRequests = 512
	DefaultBatchBytes    = 1 << 20
)

func (l Limits) withDefaults() Limits {
	if l.Requests <= 0 {
		l.Requests = DefaultRequests
	}
	if l.Bytes <= 0 {
		l.Bytes = DefaultBytes
	}
	if l.Waiters <= 0 {
		l.Waiters = DefaultWaiters
	}
	if l.BatchRequests <= 0 {
		l.BatchRequests = DefaultBatchRequests
	}
	l.BatchRequests = min(l.BatchRequests, fdbpq.MaxBatch)
	if l.BatchBytes <= 0 {
		l.BatchBytes = DefaultBatchBytes
	}
	return l
}
