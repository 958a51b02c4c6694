// Package gateway serves the protocol over plain HTTP, for clients without NATS.
//
// Each request becomes a request of the protocol on a NATS connection of the gateway's own.
// So the rights of that connection's user, the limits of the bridge and its admission hold
// for HTTP, too. The gateway keeps no items and has no access to a store.
//
// It serves reads alone unless [Options.Changes] is set. It refuses pages of other sites, and
// requests without the token if there is one. It holds a bounded number of requests, and
// refuses more at once. docs/http.md is the reference, openapi.yaml the description for
// programs.
package gateway

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// Gateway is an http.Handler for the paths below /v1/. Get one from [New].
type Gateway struct {
	auth    *auth
	routes  routes
	changes bool
	near    bool // changes are for programs on this machine
	log     *slog.Logger
	wire    atomic.Pointer[wire] // nil until there is a connection
	answers time.Duration        // answerLimit, except in tests
	pending pending
	room    admission
	outbox  *outbox
	running context.Context // ends with Stop
	stop    context.CancelFunc
}

// New returns a gateway. It answers 503 until it is [Gateway.Connect]ed.
func New(o Options) (*Gateway, error) {
	grammar, err := subjects.New(o.Prefix)
	if err != nil {
		return nil, err
	}
	if o.Tenants {
		grammar = grammar.WithTenants()
	}
	g := &Gateway{routes: newRoutes(), changes: o.Changes, near: o.Near, log: o.Logger, room: newAdmission(), outbox: newOutbox(maxUnread), answers: answerLimit}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	g.running, g.stop = context.WithCancel(context.Background())
	g.auth = newAuth(o, grammar, func(c *caller) *sampler { return newSampler(g.running, g.look(c)) })
	return g, nil
}

// ConnectOptions are the options of the gateway's connection.
func (g *Gateway) ConnectOptions() []nats.Option {
	return []nats.Option{
		nats.Name("pqd console"),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		nats.IgnoreAuthErrorAbort(),
		// A request that cannot be sent at once fails, and is not done later.
		nats.ReconnectBufSize(-1),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { g.log.Debug("the console's connection to NATS ended", "error", err) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if subject := forbidden.FindStringSubmatch(err.Error()); subject != nil {
				g.pending.forbid(subject[1], err)
				return
			}
			g.log.Warn("error of the console's connection to NATS", "error", err)
		}),
	}
}

const reconnectWait = 250 * time.Millisecond

// forbidden matches a NATS server's error about a missing right.
var forbidden = regexp.MustCompile(`(?i)permissions violation.*"([^"]+)"`)

// Connect begins to serve, on this connection instead of an earlier one. The connection stays the caller's.
func (g *Gateway) Connect(nc *nats.Conn) {
	g.wire.Store(newWire(nc, &g.pending))
}

// Disconnect ends the requests under way, whose connection was closed, and refuses others until [Gateway.Connect].
func (g *Gateway) Disconnect() {
	if w := g.wire.Swap(nil); w != nil {
		close(w.lost)
	}
}

// Stop ends the requests under way and the streams, and refuses further ones.
func (g *Gateway) Stop() { g.stop() }

// ServeHTTP implements http.Handler.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setAnswerHeaders(w)
	who, why := g.auth.authenticate(r)
	if why != nil {
		why.write(w)
		return
	}
	route, values, why := g.routes.find(r.Method, r.URL.EscapedPath())
	if why != nil {
		why.write(w)
		return
	}
	if why := who.refuses(route); why != nil {
		why.write(w)
		return
	}
	changes := g.changes && (!g.near || near(r))
	switch {
	case !route.changes || changes:
	case g.changes:
		refusef(protocol.CodeForbidden, "without PQ_CONSOLE this pqd changes queues only for programs of its user and machine that call 127.0.0.1, [::1] or localhost, without a proxy: expected PQ_CONSOLE=admin for others").write(w)
		return
	default:
		refusef(protocol.CodeForbidden, "this pqd only shows: expected PQ_CONSOLE=admin for requests that change something").write(w)
		return
	}
	in := &input{
		gateway: g, caller: who, changes: changes, route: route, values: values, header: r.Header,
		from: sourceOf(r.RemoteAddr).of(who), address: addressOf(r),
	}
	if in.query, why = readQuery(route, r); why != nil {
		why.write(w)
		return
	}
	if route.stream != nil {
		route.stream(g, w, r, in)
		return
	}
	g.serve(w, r, in)
}

// Caller returns the tenant that sends a request to another page, "" for the operator. If it refuses the request,
// it answers it and returns false.
func (g *Gateway) Caller(w http.ResponseWriter, r *http.Request) (tenant string, may bool) {
	c, why := g.auth.authenticate(r)
	if why != nil {
		setAnswerHeaders(w)
		why.write(w)
		return "", false
	}
	return c.tenant, true
}

// answerHeaders are the headers of all answers. An answer is data that others wrote: no browser shows it as a page,
// keeps it, or hands it to another site.
var answerHeaders = map[string]string{
	"Content-Type":                 "application/json",
	"X-Content-Type-Options":       "nosniff",
	"Content-Security-Policy":      "default-src 'none'; frame-ancestors 'none'",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cache-Control":                "no-store",
}

func setAnswerHeaders(w http.ResponseWriter) {
	for name, value := range answerHeaders {
		w.Header().Set(name, value)
	}
}

// serve answers a request that has one answer.
func (g *Gateway) serve(w http.ResponseWriter, r *http.Request, in *input) {
	body, release, why := g.readBody(w, r, in)
	if why != nil {
		why.write(w)
		return
	}
	defer release()
	in.body = body
	leave, why := g.room.enter(in)
	if why != nil {
		why.write(w)
		return
	}
	leave = sync.OnceFunc(leave)
	defer leave()
	// The server's deadlines are for requests that do not wait.
	control := http.NewResponseController(w)
	if err := deadlines(control, in.patience()+writeLimit); err != nil {
		g.log.Debug("setting the deadlines of a connection failed", "error", err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), in.patience())
	defer cancel()
	defer context.AfterFunc(g.running, cancel)()
	in.ctx = ctx
	a, why := in.route.serve(in)
	leave() // the answer needs no place
	if why != nil {
		if g.running.Err() != nil && why.Code == protocol.CodeUnknownResult {
			w.Header().Set("Connection", "close")
		}
		why.write(w)
		return
	}
	defer g.outbox.begin(in.from, int64(len(a.body)), func() { _ = control.SetWriteDeadline(time.Now()) })() // fails on a closed one
	// After the answer a client may close its connection, so this comes first.
	err := r.Context().Err()
	if err == nil {
		err = a.write(w)
	}
	if err == nil {
		err = control.Flush()
	}
	if err != nil && a.unsent != nil {
		a.unsent()
	}
}

// writeLimit bounds writing an answer.
const writeLimit = 30 * time.Second

func deadlines(control *http.ResponseController, limit time.Duration) error {
	if err := control.SetReadDeadline(time.Time{}); err != nil { // reading on only tells that the client has gone
		return fmt.Errorf("read: %w", err)
	}
	if err := control.SetWriteDeadline(time.Now().Add(limit)); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// Options configure a gateway.
type Options struct {
	Prefix  string // of the subjects
	Tenants bool   // subjects name tenants: queues have names such as acme.jobs
	Changes bool   // serve requests that change something
	Near    bool   // serve these only to programs of this user that call this machine by a loopback address, and not through a proxy; needs [ConnContext]
	Token   string // the operator's; "": callers need no token
	TokenIn string // where callers without a token find it; "": the line in the file PQ_CONSOLE_TOKEN

	// TenantOf returns the tenant whose token has a hash, or "". Without this function no tenant has a token. It needs Token.
	TenantOf func(hash [sha256.Size]byte) string

	Logger *slog.Logger // nil: none
}

// maxConns are enough for all requests and streams that a gateway may have, and for health checks.
const maxConns = 1024

// Limit returns a listener that at once closes connections beyond its limit, half of which are for one address: so
// no address takes all descriptors of the process, or keeps the others out.
func Limit(l net.Listener) net.Listener { return limit(l, maxConns) }

func limit(l net.Listener, most int64) net.Listener {
	return &limited{Listener: l, conns: newPlaces("connections", most)}
}

type limited struct {
	net.Listener
	conns *places
}

func (l *limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		leave, why := l.conns.enter(sourceOf(conn.RemoteAddr().String()))
		if why == nil {
			return &placed{Conn: conn, leave: sync.OnceFunc(leave)}, nil
		}
		_ = conn.Close() // nothing was sent
	}
}

// placed is a connection with a place.
type placed struct {
	net.Conn
	leave func()
}

func (c *placed) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// openAPI describes all routes.
//
//go:embed openapi.yaml
var openAPI []byte

func serveOpenAPI(_ *Gateway, w http.ResponseWriter, _ *http.Request, _ *input) {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(openAPI) // the client went away
}
