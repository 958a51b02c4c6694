package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	streams "github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/broker"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
	"github.com/pqbridge/pqbridge/internal/jetstream"
	"github.com/pqbridge/pqbridge/protocol"
)

// replacing puts nodes in the place of nodes that are lost for good.
type replacing struct {
	log      *slog.Logger
	name     string // of this node
	db       *cluster.DB
	storeLog *Log
}

// replace puts a node in the place of a node that is lost for good: where the servers agree on streams, and as a
// replica of the log. It returns when the log has a replica there, which may still have to catch up.
func (r *replacing) replace(ctx context.Context, old, by string) (done protocol.Replaced, err error) {
	if r.storeLog.broker == nil {
		return done, &bridge.Refusal{Malformed: true, Text: "the log is in NATS servers outside: replace one of them with their own tools, such as nats server cluster peer-remove"}
	}
	if err := r.replaceable(old, by); err != nil {
		return done, err
	}
	if err := r.remember(ctx, old, by); err != nil {
		return done, err
	}
	if err := r.storeLog.broker.RemovePeer(ctx, old); err != nil {
		// It is no refusal: what the log remembers is done later, too.
		return done, fmt.Errorf("the log remembers that node %s was replaced, and its NATS server still counts: %s", old, err.Error())
	}
	r.log.Warn("a node takes the place of another one", "old", old, "new", by)
	for look := time.NewTicker(readyEvery); ; {
		replicas, err := r.replicas(ctx)
		if err == nil && slices.Contains(replicas, by) && !slices.Contains(replicas, old) {
			look.Stop()
			return protocol.Replaced{Old: old, New: by, Replicas: replicas}, nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return done, fmt.Errorf("node %s is no member any more, and the log has no replica on %s yet: it has them on %s", old, by, strings.Join(replicas, ", "))
		}
	}
}

// replaceable refuses to replace a node that runs, and to replace a node by one that does not run.
func (r *replacing) replaceable(old, by string) error {
	runs := map[string]bool{r.name: true}
	for _, o := range r.db.Status().Members {
		runs[o.Name] = o.Runs
	}
	switch {
	case old == "" || by == "" || old == by:
		return &bridge.Refusal{Malformed: true, Text: fmt.Sprintf("found old %.80q and new %.80q: expected the names of two nodes", old, by)}
	case runs[old]:
		return &bridge.Refusal{Malformed: true, Text: fmt.Sprintf("node %s runs: expected one that is lost; stop it first, and it is known to be lost after 10 seconds", old)}
	case !runs[by]:
		return &bridge.Refusal{Malformed: true, Text: fmt.Sprintf("node %.80q does not run, or has another name: expected one that the status names", by)}
	}
	return nil
}

// remember has the log remember that a node was replaced, before it is: from then on that node is not to come back.
func (r *replacing) remember(ctx context.Context, old, by string) error {
	return r.storeLog.changeStream(ctx, r.stream(), func(c *streams.StreamConfig) bool { return jetstream.Replace(c, old, by) })
}

// stream is the stream that has the log.
func (r *replacing) stream() string {
	return jetstream.Stream(r.storeLog.settings.Store.Place, r.db.Status().Generation)
}

// replicas are the nodes that have a replica of the log.
func (r *replacing) replicas(ctx context.Context) ([]string, error) {
	info, err := r.storeLog.stream(ctx, r.stream())
	if err != nil || info.Cluster == nil {
		return nil, err
	}
	all := []string{info.Cluster.Leader}
	for _, other := range info.Cluster.Replicas {
		all = append(all, other.Name)
	}
	slices.Sort(all)
	return all, nil
}

// replicaWatch watches the replica of the log on the embedded NATS server.
type replicaWatch struct {
	storeLog *Log
	failed   chan<- error // an error after which this process has to end
}

// replicaEvery is the time between looks.
const replicaEvery = time.Second

// watch ends this process when its NATS server stops replicating the log. A new start mends that, if the
// disk has room again.
func (w *replicaWatch) watch(ctx context.Context) {
	look := time.NewTicker(replicaEvery)
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		if w.mendStream(ctx) {
			w.failed <- errors.New("damaged files of the NATS server of this node are set aside now: pqd ends, and fetches what was in them when it is started again; acknowledged items are safe")
			return
		}
		if w.storeLog.broker.Removed() {
			w.failed <- errRemoved
			return
		}
		if err := w.storeLog.replica().Failed(); err != nil {
			w.failed <- fmt.Errorf("the disk of the log failed or is full: pqd ends; acknowledged items are safe: %w", err)
			return
		}
	}
}

// mendStream notes that the others can spare the damaged group of a stream, and reports whether they can. The group
// is set aside when the server has stopped.
func (w *replicaWatch) mendStream(ctx context.Context) bool {
	group := w.storeLog.broker.Groups().First()
	if group == "" || group == broker.MetaGroup {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, openLogLimit)
	defer cancel()
	api, err := streams.New(w.storeLog.nc)
	if err != nil {
		return false
	}
	for name := range api.StreamNames(ctx).Name() {
		info, err := w.storeLog.stream(ctx, name) // its leader answers
		if err != nil || info.Cluster == nil || info.Cluster.RaftGroup != group {
			continue
		}
		var all []broker.Replica
		for _, p := range info.Cluster.Replicas {
			all = append(all, broker.Replica{Name: p.Name, All: p.Current && !p.Offline && p.Lag == 0})
		}
		if broker.Spared(&w.storeLog.settings, info.Cluster.Leader, all) {
			w.storeLog.broker.Groups().CanSpare(group)
			return true
		}
	}
	return false
}
