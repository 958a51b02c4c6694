package node

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/bridge"
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
	if err := r.storeLog.broker.RemovePeer(ctx, old); err != nil {
		return done, err
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

// replicas are the nodes that have a replica of the log.
func (r *replacing) replicas(ctx context.Context) ([]string, error) {
	info, err := r.storeLog.stream(ctx, jetstream.Stream(r.storeLog.settings.Store.Place, r.db.Status().Generation))
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
