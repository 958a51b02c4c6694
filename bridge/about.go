package bridge

import (
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/peers"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
)

// about is a bridge's description of itself.
type about struct {
	options Options
	storeID string
	started time.Time
	id      string // as in discovery

	maxQueueBytes int64
}

// identity is for the other bridges.
func (a *about) identity() peers.Identity {
	self := peers.Identity{ID: a.id, Prefix: a.options.Prefix, Site: a.options.Site, StoreID: a.storeID}
	if a.options.Exclusive {
		self.Started = a.started
	}
	return self
}

// system is the answer of _sys.info, except the size of a payload, which may change.
func (a *about) system() protocol.System {
	limits := &a.options.Limits
	system := protocol.System{
		Version: a.options.Version, Store: a.options.StoreName, StoreID: a.storeID,
		Prefix: a.options.Prefix, Site: a.options.Site, Uptime: time.Since(a.started).Seconds(), Damage: a.options.Damage(), Disk: a.options.Disk(),
		Limits: protocol.Limits{
			Requests: limits.Requests, Bytes: limits.Bytes, Waiters: limits.Waiters,
			Batch: fdbpq.MaxBatch, BatchBytes: fdbpq.MaxBatchBytes, Bundle: protocol.MaxBundle,
			Wait: protocol.Duration(protocol.MaxWait), WaitUnseen: protocol.Duration(a.options.unseen), Lease: protocol.Duration(fdbpq.MaxLease),
			QueueBytes: a.maxQueueBytes,
		},
	}
	if a.options.Cluster != nil {
		cluster := a.options.Cluster.options.Status()
		system.Cluster = &cluster
	}
	return system
}

// history adds the bridge to a history.
func (a *about) history(h *protocol.History) *protocol.History {
	h.Bridge = a.id
	return h
}
