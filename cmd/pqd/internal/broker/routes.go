package broker

import (
	"cmp"
	"context"
	"errors"
	"hash/fnv"
	"log/slog"
	"net"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/egress"
	"github.com/pqbridge/pqbridge/subjects"
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

// A server has several connections to each other one, and an account always uses the same of them. What the nodes say to each
// other, in the account of the log, should not stand behind what clients send. nats-server can also give an account routes of its own, but then nodes of
// earlier versions, which do not, would not hear of the log any more.

// mostRoutes is how many connections a server has to each other one, at most.
const mostRoutes = 8

// routePool is the number of connections with which an account has one for itself, or shares it with the fewest of the others.
func routePool(account string, others []*server.Account) (size int) {
	names := map[string]bool{server.DEFAULT_GLOBAL_ACCOUNT: true}
	for _, a := range others {
		names[a.Name] = true
	}
	delete(names, account)
	fewest := len(names) + 1
	for n := server.DEFAULT_ROUTE_POOL_SIZE; n <= mostRoutes && fewest > 0; n++ {
		beside := 0
		for name := range names {
			if routeOf(name, n) == routeOf(account, n) {
				beside++
			}
		}
		if beside < fewest {
			size, fewest = n, beside
		}
	}
	return size
}

// routeOf is the connection that an account uses, of so many: nats-server does not export how it chooses.
func routeOf(account string, of int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(account)) // it never fails
	return int(h.Sum32() % uint32(of))
}

// newEgress returns a filter that replaces on the routes of a server what the filter of messages replaces at the bridge of the
// active node, when that node sheds or as much waits for a route as it would let wait for its bridge.
func newEgress(srv *server.Server, grammar subjects.Grammar, client func() (uint64, error), sheds func() bool, log *slog.Logger) (*egress.Filter, error) {
	if err := egress.Check(); err != nil {
		return nil, err
	}
	account, err := accountOf(srv, client)
	if err != nil {
		return nil, err
	}
	varz, err := srv.Varz(nil)
	if err != nil {
		return nil, err
	}
	f := &egress.Filter{Server: srv, Most: varz.MaxPending / pendingPart, Sheds: sheds, Log: log}
	f.Requests = egress.Requests{Account: account, Group: bridge.QueueGroup, Large: filterLarge, Instead: bridge.TooManyBytes}
	for _, g := range grammar.Each() {
		f.Requests.Prefixes = append(f.Requests.Prefixes, g.Prefix()+".")
	}
	return f, nil
}

// accountOf is the name of the account to which a client of the server belongs.
func accountOf(srv *server.Server, client func() (uint64, error)) (string, error) {
	id, err := client()
	if err != nil {
		return "", err
	}
	found, err := srv.Connz(&server.ConnzOptions{CID: id, Username: true})
	if err != nil {
		return "", err
	}
	if len(found.Conns) == 0 {
		return "", nats.ErrConnectionClosed
	}
	return cmp.Or(found.Conns[0].Account, server.DEFAULT_GLOBAL_ACCOUNT), nil // the server leaves the global one out
}
