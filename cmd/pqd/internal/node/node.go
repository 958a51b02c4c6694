package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/link"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/process"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/room"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/store"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
)

// Node is the part of pqd that keeps a store together with others.
type Node struct {
	needs Needs
	name  string
	db    *cluster.DB // the copy of the store
	room  *room.Copy

	fronts    *fronts
	handovers *handovers
	terms     *terms
	readiness *readiness
	damage    *copyDamage

	failed chan error
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// Start starts to take part in keeping the store.
func Start(ctx context.Context, needs Needs) (*Node, error) {
	n := &Node{needs: needs, room: room.NewCopy(needs.Settings, needs.Logger), failed: make(chan error, 1)}
	var err error
	if n.name, err = needs.Settings.NodeName(); err != nil {
		return nil, err
	}
	if n.db, err = openCopy(needs.Log, n.name, needs.Version, false, n.room); err != nil {
		return nil, err
	}
	n.room.Of(n.db)
	process.AddSpareProcessors()
	outside := n.join()
	needs.Link.Begin, needs.Link.End = n.fronts.open, n.fronts.stop
	if err := needs.Link.Use(ctx); err != nil {
		return nil, errors.Join(err, n.db.Close())
	}
	ctx, n.cancel = context.WithCancel(context.Background())
	n.done.Go(func() { n.terms.run(ctx) })
	n.done.Go(func() { needs.Link.Keep(ctx) })
	n.watch(ctx, outside)
	return n, nil
}

// join makes the parts of the node, which do nothing yet.
func (n *Node) join() *outside {
	s, log, storeLog := n.needs.Settings, n.needs.Logger, n.needs.Log
	n.fronts = &fronts{link: n.needs.Link}
	n.handovers = &handovers{log: log, name: n.name, db: n.db, storeLog: storeLog, fronts: n.fronts, asked: make(chan *handover)}
	n.fronts.options = bridge.ClusterOptions{
		Prefix: string(s.Prefix), Site: string(s.Site), ReplySubjects: s.Replies, Logger: log,
		Status:   (&view{name: n.name, store: s.Store.String(), version: n.needs.Version, db: n.db}).cluster,
		StepDown: n.handovers.stepDown,
		Replace:  (&replacing{log: log, name: n.name, db: n.db, storeLog: storeLog}).replace,
	}
	n.damage = &copyDamage{log: log, settings: s, db: n.db}
	n.terms = &terms{needs: n.needs, name: n.name, db: n.db, fronts: n.fronts, handovers: n.handovers, room: nodeRoom{n.room, n.db}, damage: n.damage}
	outside := &outside{log: log, db: n.db, broker: storeLog.broker}
	n.readiness = &readiness{db: n.db, link: n.needs.Link, storeLog: storeLog, outside: outside, bridge: &n.terms.bridge}
	return outside
}

// watch watches the NATS servers until ctx ends.
func (n *Node) watch(ctx context.Context, outside *outside) {
	storeLog := n.needs.Log
	server := storeLog.broker
	if server == nil {
		n.done.Go(func() {
			reach{
				reached: func() time.Time { return n.db.Status().Reached },
				leave:   func(silence time.Duration) { reconnect(silence, storeLog.nc, n.needs.Link.Conn(), n.needs.Logger) },
			}.watch(ctx)
		})
		return
	}
	n.done.Go(func() { (&replicaWatch{storeLog, n.failed}).watch(ctx) })
	n.done.Go(func() { outside.sendAway(ctx) })
	n.done.Go(func() { (&returned{replacing: &replacing{n.needs.Logger, n.name, n.db, storeLog}}).watch(ctx) })
	peers := make(map[string]string)
	for _, other := range n.needs.Settings.Cluster {
		if other.Name() != n.name {
			peers[other.Name()] = other.Address()
		}
	}
	n.done.Go(func() { server.Routes(peers, n.db.Refuses).Watch(ctx) }) // they tell the store which nodes have ended
	if filter, err := server.Egress(n.needs.Link.Conn().GetClientID, n.db.Sheds); err == nil {
		n.done.Go(func() { filter.Watch(ctx) })
	} else {
		n.needs.Logger.Warn("a flood of large messages at a follower holds up the requests of others there: its routes have no filter", "error", err)
	}
	n.done.Go(func() { server.Elector(n.db.Lost).Watch(ctx) })
}

// Stop answers the requests under way, and hands over to another node, with the leadership of the log if the
// embedded server has it.
func (n *Node) Stop(drain context.Context) error {
	n.terms.drain = drain
	n.cancel()
	n.done.Wait()
	n.handovers.moveLog(drain)
	err := n.db.Close()
	n.fronts.stop()
	return err
}

// Failed gets an error after which this process has to end.
func (n *Node) Failed() <-chan error { return n.failed }

// Ready says why this node cannot do its part, or nil. The part of a follower is to follow.
func (n *Node) Ready() error { return n.readiness.err() }

// AwaitReady returns true when the node is ready for the first time, and false when ctx ends. It logs the reason for the wait.
func (n *Node) AwaitReady(ctx context.Context) bool { return n.readiness.await(ctx, n.needs.Logger) }

// Role is the role of this node in the cluster.
func (n *Node) Role() string { return string(n.db.Status().Role) }

// Damaged describes damage in the files of this node's copy, or is nil.
func (n *Node) Damaged() error { return n.damage.err() }

// DB is the copy, for backups and recoveries.
func (n *Node) DB() *cluster.DB { return n.db }

// Metrics are the numbers of the node.
func (n *Node) Metrics() prometheus.Collector { return nodeMetrics{n.db} }

// front is a connection with the responder that answers on it whether or not this node is active.
type front struct {
	*bridge.ClusterEndpoint
	nc    *nats.Conn
	ended <-chan struct{} // closed when the connection is
}

// fronts are the fronts of this node, one after another.
type fronts struct {
	options bridge.ClusterOptions
	link    *link.Link
	last    atomic.Pointer[front]
}

// open makes a front on a new connection.
func (f *fronts) open(_ context.Context, nc *nats.Conn) error {
	endpoint, err := bridge.ServeCluster(nc, f.options)
	if err == nil {
		f.last.Store(&front{endpoint, nc, f.link.Ended()})
	}
	return err
}

// latest is the front in use.
func (f *fronts) latest() *front { return f.last.Load() }

// stop ends it.
func (f *fronts) stop() { f.latest().Stop() }

// Needs are what a node needs. They belong to the caller, who closes the connections.
type Needs struct {
	Settings settings.Settings
	Version  string // of this program
	Logger   *slog.Logger
	Metrics  prometheus.Registerer
	Link     *link.Link     // of the bridge
	Log      *Log           // of the store
	Bridge   bridge.Options // of the bridge of each term
}

// nodeMetrics are the numbers of a store that several pqd keep together.
type nodeMetrics struct {
	db *cluster.DB
}

var (
	clusterActive    = prometheus.NewDesc("pq_cluster_active", "Whether this pqd serves the store: 1 or 0.", nil, nil)
	clusterStopped   = prometheus.NewDesc("pq_cluster_stopped", "Whether this pqd has stopped, because its copy and the log do not belong together: 1 or 0.", nil, nil)
	clusterEpoch     = prometheus.NewDesc("pq_cluster_epoch", "The epoch of the log; it grows with each takeover.", nil, nil)
	clusterEntry     = prometheus.NewDesc("pq_cluster_entry", "The last entry of the log in the copy of this pqd.", nil, nil)
	clusterLag       = prometheus.NewDesc("pq_cluster_lag_entries", "Entries of the log that the copy of this pqd lacks, as far as it knows.", nil, nil)
	clusterLogBytes  = prometheus.NewDesc("pq_cluster_log_bytes", "Bytes of the log.", nil, nil)
	clusterLogMost   = prometheus.NewDesc("pq_cluster_log_max_bytes", "Bytes that the log may have.", nil, nil)
	clusterAppends   = prometheus.NewDesc("pq_cluster_appends_total", "Entries that this pqd has written to the log.", nil, nil)
	clusterTakeovers = prometheus.NewDesc("pq_cluster_takeovers_total", "How often this pqd began to serve the store.", nil, nil)
)

func (n nodeMetrics) Describe(descs chan<- *prometheus.Desc) {
	prometheus.DescribeByCollect(n, descs)
}

func (n nodeMetrics) Collect(metrics chan<- prometheus.Metric) {
	s := n.db.Status()
	for desc, value := range map[*prometheus.Desc]uint64{
		clusterActive: count(s.Role == cluster.Active), clusterStopped: count(s.Role == cluster.Stopped),
		clusterEpoch: s.Epoch, clusterEntry: s.Entry, clusterLag: s.Lag(s.Entry),
		clusterLogBytes: s.Log.Bytes, clusterLogMost: s.Log.MaxBytes,
	} {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value))
	}
	metrics <- store.DamagedFiles(len(n.db.Damage()))
	metrics <- store.SpareFile(n.db.Spare())
	store.Counters(metrics, map[*prometheus.Desc]uint64{clusterAppends: s.Appends, clusterTakeovers: s.Takeovers})
}

func count(is bool) uint64 {
	if is {
		return 1
	}
	return 0
}

// nodeRoom says what the active node refuses when its disk, or the log, is nearly full.
type nodeRoom struct {
	copy *room.Copy
	db   *cluster.DB
}

// refusePushesAt is the part of the log's room beyond which pushes are refused. The rest is for settlements and
// pops, which make room.
const refusePushesAt = 0.9

// admit says why new items are refused, or nil.
func (r nodeRoom) admit(int) error {
	if err := r.db.DiskFull(); err != nil {
		return fmt.Errorf("a disk of the store is nearly full: new items are refused, and settles and pops go on: %w", err)
	}
	if fill := r.db.Fill(); fill >= refusePushesAt {
		return fmt.Errorf("the log of the store is %.0f %% full: it takes new items below %.0f %%, and settles and pops go on. It forgets what the disks of two pqd have: are they all running?", 100*fill, 100*refusePushesAt)
	}
	return nil
}

// reserve says why only requests that make room are served, or nil. It asks the disk only when that is known to be nearly
// full: one that hangs must not keep requests waiting.
func (r nodeRoom) reserve() error {
	if r.db.DiskFull() == nil {
		return nil
	}
	return r.copy.Exhausted()
}

// low says why no item is written again, or nil.
func (r nodeRoom) low() error {
	if r.db.DiskFull() == nil {
		return nil
	}
	return r.copy.Low()
}

// last says why only requests that end items are served, or nil.
func (r nodeRoom) last() error {
	if r.db.DiskFull() == nil {
		return nil
	}
	return r.copy.Last()
}
