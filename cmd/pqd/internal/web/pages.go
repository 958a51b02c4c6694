package web

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/broker"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/health"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/link"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/process"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/internal/console"
	"github.com/pqbridge/pqbridge/internal/gateway"
)

// Pages are the pages that pqd serves over HTTP: states, metrics, the console, the HTTP interface.
type Pages struct {
	Settings settings.Settings
	Log      *slog.Logger
	Metrics  *prometheus.Registry
	Health   *health.Health

	// TenantOf is the tenant whose token has a hash, and HaveTokens says whether users of any tenant may use HTTP.
	TenantOf   func(hash [sha256.Size]byte) string
	HaveTokens func() bool

	gateway *gateway.Gateway // nil: off
}

// Start begins to serve them.
func (p *Pages) Start(started *process.Running) (web *Server, err error) {
	if p.gateway, err = p.newGateway(); err != nil {
		return nil, err
	}
	mux := routes(p.Health, p.metricsPage(), p.Settings.HTTPHosts)
	all := withConsole(mux, p.gateway, p.Settings.HTTPHosts)
	if p.Settings.Profile {
		serveProfiles(mux, func(page http.HandlerFunc) http.Handler {
			return p.Settings.HTTPHosts.Guard(p.perCaller(page, nil))
		})
	}
	cert, err := newWebCertificate(p.Settings, p.Log)
	if err != nil {
		return nil, err
	}
	if web, err = startHTTP(p.Settings.HTTP, cert, all, p.Log); err != nil {
		return nil, err
	}
	started.Add("stop the HTTP server", web.stop)
	return web, nil
}

// newGateway returns the HTTP interface, nil if it is off.
func (p *Pages) newGateway() (*gateway.Gateway, error) {
	s := p.Settings
	if s.Mode() == settings.ConsoleOff {
		return nil, nil
	}
	token, in, err := s.WebToken()
	if err != nil {
		return nil, err
	}
	return gateway.New(gateway.Options{
		Prefix: string(s.Prefix), Tenants: s.Tenants != "", Changes: s.Mode() == settings.ConsoleAdmin, Near: s.ChangesNear(),
		Logger: p.Log, Token: token, TokenIn: in, TenantOf: p.TenantOf,
	})
}

// metricsPage serves the metrics of all queues. If tenants have tokens, each of them gets its own metrics.
func (p *Pages) metricsPage() http.Handler {
	own := &tenantMetrics{all: p.Metrics, now: time.Now}
	return p.perCaller(promhttp.HandlerFor(p.Metrics, promhttp.HandlerOpts{}), func(tenant string) http.Handler {
		return promhttp.HandlerFor(prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return own.of(tenant) }), promhttp.HandlerOpts{})
	})
}

// perCaller serves a page about all tenants. As soon as any tenant has a token, its users come to this server, too: then
// the page asks for a token, and a tenant gets its own page, or none.
func (p *Pages) perCaller(all http.Handler, own func(tenant string) http.Handler) http.Handler {
	if p.gateway == nil {
		return all
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !p.HaveTokens() {
			all.ServeHTTP(w, r)
			return
		}
		switch tenant, may := p.gateway.Caller(w, r); {
		case !may:
		case tenant == "":
			all.ServeHTTP(w, r)
		case own == nil:
			http.Error(w, "this page is about all tenants: expected the operator's token", http.StatusForbidden)
		default:
			own(tenant).ServeHTTP(w, r)
		}
	})
}

// Connect makes the connection of the console and the HTTP interface; it is nil if they are off. They have a
// connection of their own, so that they have only the rights of its user.
func (p *Pages) Connect(ctx context.Context, server *broker.Server, started *process.Running) (*link.Link, error) {
	if p.gateway == nil {
		return nil, nil
	}
	login := p.Settings.NATS
	if p.Settings.WebCreds != "" || p.Settings.WebUser != "" {
		// The certificates are the same: it is the same server.
		login.Creds, login.NKey, login.Token = p.Settings.WebCreds, "", ""
		login.User, login.Password = p.Settings.WebUser, p.Settings.WebPass
	}
	own, err := link.Login(login)
	if err != nil {
		return nil, err
	}
	options := slices.Concat(p.gateway.ConnectOptions(), own, []nats.Option{
		nats.CustomInboxPrefix(string(p.Settings.WebInbox)),
		nats.RetryOnFailedConnect(false), // link.Connect does that
	})
	if server != nil {
		options = append(options, server.Connected())
	}
	l := &link.Link{
		Name: "the console's connection", Log: p.Log,
		Dial: func(ctx context.Context, more ...nats.Option) (*nats.Conn, error) {
			return link.Connect(ctx, p.Settings.NATS.URL, slices.Concat(options, more), p.Log)
		},
		Begin: func(_ context.Context, nc *nats.Conn) error {
			p.gateway.Connect(nc)
			return nil
		},
		End: p.gateway.Disconnect,
	}
	err = l.Connect(ctx)
	if err == nil {
		err = l.Use(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("the console, as the user of PQ_CONSOLE_CREDS or PQ_CONSOLE_USER, or as pqd's own: %w", err)
	}
	started.Add("stop the console", func() error {
		p.gateway.Stop()
		return l.Close()
	})
	started.InBackground(ctx, l.Keep)
	p.Health.Console(l.Away)
	return l, nil
}

const consoleIsOff = "the console and the HTTP interface are off: expected PQ_CONSOLE=read or PQ_CONSOLE=admin"

// withConsole returns the pages with the console and the HTTP interface.
//
// The mux gets no path of the interface. It would redirect /v1/queues/jobs/items/.. to
// /v1/queues/jobs, and clients would delete a queue in place of an item.
func withConsole(mux *http.ServeMux, g *gateway.Gateway, names settings.HostNames) http.Handler {
	if g == nil {
		mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, consoleIsOff, http.StatusNotFound) })
	} else {
		page := names.Guard(console.Handler())
		mux.Handle("GET /{$}", page)
		mux.Handle("GET /console/", page)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !isInterface(r.URL.Path) && !isInterface(path.Clean(r.URL.Path)):
			mux.ServeHTTP(w, r)
		case g == nil:
			gateway.Refuse(w, http.StatusNotFound, consoleIsOff)
		case !names.Allow(r):
			gateway.Refuse(w, http.StatusMisdirectedRequest, settings.HostNotAllowed)
		default:
			g.ServeHTTP(w, r)
		}
	})
}

// isInterface reports whether a path is one of the HTTP interface, there or not.
func isInterface(at string) bool { return at == "/v1" || strings.HasPrefix(at, "/v1/") }
