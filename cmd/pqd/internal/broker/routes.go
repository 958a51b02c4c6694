package broker

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Routes watches the routes of an embedded server to the other nodes. A process that ends closes its connections and
// its machine refuses new ones, so the others know at once that it has ended.
type Routes struct {
	Server *server.Server
	Peers  map[string]string // addresses of the other nodes, by their names

	// Refused is called when the route to a node is closed and its machine refuses another connection.
	Refused func(name string)

	count   int       // of routes
	listed  time.Time // the last time
	missing bool      // a node lacks its route, and may still refuse
	seen    map[string]time.Time
}

const (
	// routesEvery is the time between looks at the number of routes, which cost little, and listEvery that between
	// looks at which routes there are.
	routesEvery = 20 * time.Millisecond
	listEvery   = 100 * time.Millisecond

	// refusesWithin is how long behind the end of a route its node is asked for a connection, and dialLimit the time for an
	// answer.
	refusesWithin = 10 * time.Second
	dialLimit     = 250 * time.Millisecond
)

// Watch watches until ctx ends.
func (r *Routes) Watch(ctx context.Context) {
	look := time.NewTicker(routesEvery)
	defer look.Stop()
	for {
		r.look(ctx)
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}

// look finds out which routes have ended since the last look, and asks their nodes for another connection.
func (r *Routes) look(ctx context.Context) {
	count := r.Server.NumRoutes()
	if count == r.count && (!r.missing || time.Since(r.listed) < listEvery) {
		return
	}
	has, err := r.connected()
	if err != nil {
		return // the server stops
	}
	if r.seen == nil {
		r.seen = make(map[string]time.Time)
	}
	r.count, r.missing, r.listed = count, false, time.Now()
	for name := range has {
		r.seen[name] = r.listed
	}
	for name, last := range r.seen {
		switch {
		case has[name]:
		case r.refuses(ctx, name):
			r.Refused(name)
			delete(r.seen, name)
		case time.Since(last) > refusesWithin:
			delete(r.seen, name) // its machine is gone, or runs and the route will be back
		default:
			r.missing = true
		}
	}
}

// connected are the nodes to which there is a route.
func (r *Routes) connected() (map[string]bool, error) {
	all, err := r.Server.Routez(&server.RoutezOptions{})
	if err != nil {
		return nil, err
	}
	has := make(map[string]bool)
	for _, route := range all.Routes {
		if _, known := r.Peers[route.RemoteName]; known {
			has[route.RemoteName] = true
		}
	}
	return has, nil
}

// refuses reports whether the machine of a node refuses a connection. Its silence says nothing.
func (r *Routes) refuses(ctx context.Context, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", r.Peers[name])
	if err == nil {
		_ = conn.Close() // it was only to find out
		return false
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
