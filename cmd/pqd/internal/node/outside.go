package node

import (
	"context"
	"log/slog"
	"time"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/broker"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
)

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
