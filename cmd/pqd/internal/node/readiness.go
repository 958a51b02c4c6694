package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/health"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/link"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
	"github.com/pqbridge/pqbridge/internal/jetstream"
	"github.com/pqbridge/pqbridge/protocol"
)

// readiness says whether this node can do its part.
type readiness struct {
	db       *cluster.DB
	link     *link.Link // of the bridge
	storeLog *Log
	outside  *outside
	bridge   *atomic.Pointer[bridge.Bridge] // while this node is active
}

// err says why this node cannot do its part, or nil. The part of a follower is to follow.
func (r *readiness) err() error {
	status := r.db.Status()
	var missing error
	if r.storeLog.broker != nil && status.Epoch > 0 {
		missing = r.storeLog.replica().Missing(jetstream.Stream(r.storeLog.settings.Store.Place, status.Generation), 0)
	}
	if r.storeLog.broker != nil {
		if err := cmp.Or(r.outside.err(), r.storeLog.broker.Groups().Err()); err != nil {
			return health.Waiting(err)
		}
	}
	waits := r.link.Waits()
	switch {
	case status.Role == cluster.Stopped:
		return fmt.Errorf("store: %s", status.Reason)
	case missing != nil && status.Replaced: // its server may have no part in anything, so whatever else it waits for does not help
		return health.Waiting(errReplaced)
	case status.Minority != nil:
		return health.Waiting(alone(status))
	case status.Reason != "":
		return health.Waiting(fmt.Errorf("store: %s", status.Reason))
	case waits != nil:
		return health.Waiting(waits)
	case r.link.Conn().Status() != nats.CONNECTED:
		return errors.New("NATS connection is " + r.link.Conn().Status().String())
	case missing != nil:
		return health.Waiting(missing)
	case status.Role == cluster.Active:
		if b := r.bridge.Load(); b != nil {
			return b.Ready()
		}
		return health.Waiting(errors.New("about to serve"))
	case status.Epoch == 0:
		return health.Waiting(errors.New("store: waiting for the other nodes"))
	}
	if r.storeLog.broker != nil {
		if err := r.storeLog.replica().Ready(); err != nil {
			return health.Waiting(err)
		}
	}
	if err := behind(status); err != nil {
		return health.Waiting(err)
	}
	return nil
}

// errReplaced is what a node waits for that was started again.
var errReplaced = errors.New("this node has no replica of the log any more, although its disk had one: another node has its place, so it serves nothing, and counts for nothing: stop it for good")

// errRemoved is why a process ends whose node was replaced.
var errRemoved = errors.New("another node has the place of this one, so its NATS server was removed: pqd ends; do not start it again with this PQ_DATA")

// alone says that too few nodes are there, and what else the node has to say: that may be what an operator has to do.
func alone(s cluster.Status) error {
	if s.Reason == "" {
		return fmt.Errorf("store: %w", s.Minority)
	}
	return fmt.Errorf("store: %w; %s", s.Minority, s.Reason)
}

// readyLag is how many entries the copy of a follower may lack: more than it lacks under load,
// and less than it reads in a second.
const readyLag = 1000

// behind says that a follower lacks too many entries, or nil. If other nodes ended, it might be the node that has
// to go on.
func behind(s cluster.Status) error {
	if lag := s.Lag(s.Entry); lag > readyLag {
		return fmt.Errorf("store: this node's copy lacks %d entries of the log, and follows", lag)
	}
	if !s.CaughtUp {
		return errors.New("store: this node has not caught up with an active one since it started")
	}
	return nil
}

// readyEvery is the time between looks whether a node is ready.
const readyEvery = 50 * time.Millisecond

// await returns true when the node is ready for the first time, and false when ctx ends. It logs the reason
// for the wait.
func (r *readiness) await(ctx context.Context, log *slog.Logger) bool {
	pause := time.NewTicker(readyEvery)
	defer pause.Stop()
	told := ""
	for {
		err := r.err()
		if err == nil {
			return true
		}
		if reason := err.Error(); reason != told {
			told = reason
			log.Info("waiting", "for", reason)
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return false
		}
	}
}

// view is this node's view of all nodes of the store.
type view struct {
	name, store, version string
	db                   *cluster.DB
}

// cluster describes all nodes.
func (v *view) cluster() protocol.Cluster { return v.of(v.db.Status()) }

// of describes them by a status.
func (v *view) of(s cluster.Status) protocol.Cluster {
	epoch := s.Epoch
	for _, o := range s.Members {
		epoch = max(epoch, o.Epoch)
	}
	all := []protocol.Member{{
		Node: v.name, Role: protocol.Role(s.Role), Version: v.version,
		Epoch: s.Epoch, Entry: s.Entry, Synced: s.Synced, Lag: s.Lag(s.Entry), Reason: cmp.Or(s.Reason, s.Partless),
	}}
	for _, o := range s.Members {
		role := protocol.Role(o.Role)
		if o.Away || role == protocol.RoleActive && o.Epoch < epoch { // a later one is active now
			role = protocol.RoleSilent
		}
		all = append(all, protocol.Member{
			Node: o.Name, Role: role, Version: o.Version,
			Epoch: o.Epoch, Entry: o.Entry, Synced: o.Synced, Lag: s.Lag(o.Entry), Reason: o.Reason,
			Heard: time.Since(o.Heard).Seconds(),
		})
	}
	return protocol.Cluster{
		Node: v.name, Store: v.store, Members: all,
		Log: protocol.ClusterLog{First: s.Log.First, Last: s.Log.Last, Bytes: s.Log.Bytes, MaxBytes: s.Log.MaxBytes},
	}
}
