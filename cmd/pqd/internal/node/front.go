package node

import (
	"context"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/link"
)

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
