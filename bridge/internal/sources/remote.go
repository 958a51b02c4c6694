package sources

import (
	"fmt"
	"slices"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
)

// Remote is where a bridge finds streams.
type Remote struct {
	// Connect makes a connection. Its options go behind those of the remote.
	Connect func(options ...nats.Option) (*nats.Conn, error)

	Identity string              // another one when Connect leads elsewhere
	Domain   string              // of JetStream
	Read     map[string][]string // the queues that may read a stream; * is any
	Take     map[string][]string // the queues that may take the items of a queue there, by its prefix and name
}

// allows reports whether a queue may have a source.
func (r Remote) allows(queue string, c *fdbpq.SourceConfig) bool {
	may := r.Read[c.Stream]
	if c.OfLink() {
		may = r.Take[c.Queue]
	}
	return slices.Contains(may, queue) || slices.Contains(may, "*")
}

// Allowed says why a queue may not read a stream, nil: it may.
func (r *Runners) Allowed(queue string, c *fdbpq.SourceConfig) *failure.Failure {
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

// connections are those with remotes. All sources of a remote share one.
type connections struct {
	mu   sync.Mutex
	open map[string]*connection
}

type connection struct {
	mu       sync.Mutex
	identity string
	nc       *nats.Conn
}

func (c *connections) to(name string, r Remote) (*nats.Conn, error) {
	c.mu.Lock()
	if c.open == nil {
		c.open = make(map[string]*connection)
	}
	one := c.open[name]
	if one == nil {
		one = new(connection)
		c.open[name] = one
	}
	c.mu.Unlock()
	one.mu.Lock() // connecting takes its time, which sources of other remotes do not wait for
	defer one.mu.Unlock()
	if one.nc != nil && (one.identity != r.Identity || one.nc.IsClosed()) {
		one.nc.Close()
		one.nc = nil
	}
	if one.nc == nil {
		nc, err := r.Connect(nats.Name("pqd sources"), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1), nats.IgnoreAuthErrorAbort(), nats.RetryOnFailedConnect(false))
		if err != nil {
			return nil, fmt.Errorf("connect to remote %q: %w", name, err)
		}
		one.nc, one.identity = nc, r.Identity
	}
	return one.nc, nil
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
		one.mu.Lock()
		if one.nc != nil {
			one.nc.Close()
		}
		one.mu.Unlock()
	}
}
