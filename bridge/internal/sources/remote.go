package sources

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq/source"
)

// Remote is a NATS server where a bridge finds streams.
type Remote struct {
	// Connect makes a connection. These options come behind the options of the remote.
	Connect func(options ...nats.Option) (*nats.Conn, error)

	Identity string              // changes when Connect leads elsewhere
	Domain   string              // of JetStream
	Read     map[string][]string // the queues that may read a stream; * is any
	Take     map[string][]string // the queues that may take the items of a queue there, by its prefix and name
}

// allows reports whether a queue may have a source.
func (r Remote) allows(queue string, c *source.Config) bool {
	may := r.Read[c.Stream]
	if c.OfLink() {
		may = r.Take[c.Queue]
	}
	return slices.Contains(may, queue) || slices.Contains(may, "*")
}

// Allowed returns the reason why a queue may not read a stream, or nil.
func (r *Runners) Allowed(queue string, c *source.Config) *failure.Failure {
	remote, known := r.Remotes()[c.Remote]
	switch {
	case !known:
		return failure.Newf(403, "there is no remote %s: see PQ_REMOTES", failure.Quote(c.Remote))
	case remote.allows(queue, c):
	case c.OfLink():
		return failure.Newf(403, "remote %s lets queue %s take no items of %s: see PQ_REMOTES", failure.Quote(c.Remote), failure.Quote(queue), failure.Quote(c.Queue))
	default:
		return failure.Newf(403, "remote %s lets queue %s read no stream %s: see PQ_REMOTES", failure.Quote(c.Remote), failure.Quote(queue), failure.Quote(c.Stream))
	}
	return nil
}

// connections are the connections with remotes. All sources of a remote share one. Nobody waits for a lock while a
// connection is made.
type connections struct {
	mu   sync.Mutex
	open map[string]*connection
}

type connection struct {
	identity string
	nc       *nats.Conn
	dialing  *dialing // nil: nobody connects
}

// dialing is an attempt to connect.
type dialing struct {
	identity string
	done     chan struct{}
	err      error
}

// to returns the connection with a remote. It waits for one until ctx ends.
func (c *connections) to(ctx context.Context, name string, r Remote) (*nats.Conn, error) {
	for {
		nc, d := c.find(name, r)
		if nc != nil {
			return nc, nil
		}
		select {
		case <-d.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if d.err != nil {
			return nil, fmt.Errorf("connect to remote %q: %w", name, d.err)
		}
	}
}

// find returns the connection with a remote, or the attempt to make one.
func (c *connections) find(name string, r Remote) (*nats.Conn, *dialing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = make(map[string]*connection)
	}
	one := c.open[name]
	if one == nil {
		one = new(connection)
		c.open[name] = one
	}
	if one.nc != nil && (one.identity != r.Identity || one.nc.IsClosed()) {
		go one.nc.Close()
		one.nc = nil
	}
	if one.nc == nil && (one.dialing == nil || one.dialing.identity != r.Identity) {
		one.dialing = &dialing{identity: r.Identity, done: make(chan struct{})}
		go c.dial(name, one, one.dialing, r)
	}
	return one.nc, one.dialing
}

// dial makes a connection, and keeps it if it is still needed.
func (c *connections) dial(name string, one *connection, d *dialing, r Remote) {
	nc, err := r.Connect(nats.Name("pqd sources"), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1), nats.IgnoreAuthErrorAbort(), nats.RetryOnFailedConnect(false))
	c.mu.Lock()
	wanted := c.open[name] == one && one.dialing == d
	if wanted {
		one.nc, one.identity, one.dialing = nc, d.identity, nil
	}
	c.mu.Unlock()
	if d.err = err; err == nil && !wanted {
		nc.Close()
	}
	close(d.done)
}

// keep closes the connections with remotes that no source needs any more.
func (c *connections) keep(needed map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, one := range c.open {
		if needed[name] {
			continue
		}
		delete(c.open, name)
		if one.nc != nil {
			go one.nc.Close()
		}
	}
}
