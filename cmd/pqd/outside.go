package main

import (
	"context"
	"time"
)

// outside returns the reason why this node does not belong to the cluster, or nil: the others refuse it, and it hears no
// other node.
func (m *member) outside() error {
	for _, o := range m.db.Status().Members {
		if o.Runs {
			return nil
		}
	}
	return m.embedded.Refusing()
}

// outsideEvery is the time between looks at clients of a node that does not belong to the cluster.
const outsideEvery = 100 * time.Millisecond

// sendAway closes the connections of clients while this node does not belong to the cluster, so that they go to
// another one.
func (m *member) sendAway(ctx context.Context) {
	look := time.NewTicker(outsideEvery)
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		if m.outside() == nil {
			continue
		}
		if err := m.embedded.CloseClients(); err != nil {
			m.log.Debug("looking for clients failed", "error", err)
		}
	}
}
