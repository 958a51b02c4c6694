package node

import (
	"context"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/broker"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
	"github.com/pqbridge/pqbridge/internal/natsurl"
)

// A NATS server that is cut off from the others goes on serving its connections, and nothing tells pqd so. But no
// leader of the log answers there. reach notices that, and makes pqd connect to another server.
type reach struct {
	// reached is the time at which a leader of the log answered last.
	reached func() time.Time

	// leave leaves the server for another one.
	leave func(silence time.Duration)
}

const (
	// unreachedFor is longer than NATS usually takes to elect a leader. If a new connection does not help, the next
	// attempt waits twice as long, up to unreachedAtMost.
	unreachedFor    = 15 * time.Second
	unreachedAtMost = 2 * time.Minute

	// reachEvery is the time between looks.
	reachEvery = time.Second
)

// watch watches until ctx ends.
func (r reach) watch(ctx context.Context) {
	ticker := time.NewTicker(reachEvery)
	defer ticker.Stop()
	patience, left := unreachedFor, time.Time{}
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		last := r.reached()
		if last.After(left) {
			patience = unreachedFor
		} else {
			last = left
		}
		if silence := time.Since(last); silence > patience {
			r.leave(silence)
			patience, left = min(2*patience, unreachedAtMost), time.Now()
		}
	}
}

// reconnect moves log and bridge to another NATS server. Clients have to be at a server that reaches the log, too:
// otherwise this node would be active at a server that clients do not use.
func reconnect(silence time.Duration, log, bridge *nats.Conn, to *slog.Logger) {
	to.Warn("the log is out of reach: connecting to another NATS server, if there is one", "server", natsurl.Of(log), "for", silence.Round(time.Second))
	for _, nc := range []*nats.Conn{log, bridge} {
		if err := nc.ForceReconnect(); err != nil {
			to.Debug("reconnecting failed", "error", err)
		}
	}
}

// outside says whether this node does not belong to the cluster.
type outside struct {
	log    *slog.Logger
	db     *cluster.DB
	broker *broker.Server
}

// err returns the reason why this node does not belong to the cluster, or nil: the others refuse it, and it hears no
// other node.
func (o *outside) err() error {
	for _, m := range o.db.Status().Members {
		if m.Runs {
			return nil
		}
	}
	return o.broker.Refusing()
}

// outsideEvery is the time between looks at clients of a node that does not belong to the cluster.
const outsideEvery = 100 * time.Millisecond

// sendAway closes the connections of clients while this node does not belong to the cluster, so that they go to
// another one.
func (o *outside) sendAway(ctx context.Context) {
	look := time.NewTicker(outsideEvery)
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		if o.err() == nil {
			continue
		}
		if err := o.broker.CloseClients(); err != nil {
			o.log.Debug("looking for clients failed", "error", err)
		}
	}
}
