package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/broker"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/internal/console"
	"github.com/pqbridge/pqbridge/internal/gateway"
)

// newGateway returns the HTTP interface, nil if it is off.
func newGateway(s settings.Settings, log *slog.Logger) (*gateway.Gateway, error) {
	if s.Mode() == settings.ConsoleOff {
		return nil, nil
	}
	token, err := s.WebToken()
	if err != nil {
		return nil, err
	}
	return gateway.New(gateway.Options{Prefix: string(s.Prefix), Tenants: s.Tenants != "", Changes: s.Mode() == settings.ConsoleAdmin, Logger: log, Token: token})
}

// connectConsole makes the connection of the console and the HTTP interface. It is one of
// their own, so that the rights of its user are all they have.
func (d *daemon) connectConsole(ctx context.Context, started *parts) (*nats.Conn, error) {
	login := d.settings.NATS
	if d.settings.WebCreds != "" || d.settings.WebUser != "" {
		// The certificates are the same: it is the same server.
		login.Creds, login.NKey, login.Token = d.settings.WebCreds, "", ""
		login.User, login.Password = d.settings.WebUser, d.settings.WebPass
	}
	own, err := loginOptions(login)
	if err != nil {
		return nil, err
	}
	options := slices.Concat(d.gateway.ConnectOptions(), own, []nats.Option{
		nats.CustomInboxPrefix(string(d.settings.WebInbox)),
		nats.RetryOnFailedConnect(false), // connect does that
	})
	if d.embedded != nil {
		options = append(options, nats.InProcessServer(broker.NewPipeDialer(d.embedded)))
	}
	nc, err := connect(ctx, d.settings.NATS.URL, options, d.log)
	if err != nil {
		return nil, fmt.Errorf("the console, as the user of PQ_CONSOLE_CREDS or PQ_CONSOLE_USER, or as pqd's own: %w", err)
	}
	started.add("stop the console", func() error {
		d.gateway.Stop()
		nc.Close()
		return nil
	})
	d.gateway.Connect(nc)
	return nc, nil
}

const consoleIsOff = "the console and the HTTP interface are off: expected PQ_CONSOLE=read or PQ_CONSOLE=admin"

// withConsole returns the pages with the console and the HTTP interface.
//
// The mux gets no path of the interface. It would redirect /v1/queues/jobs/items/.. to
// /v1/queues/jobs, and clients would delete a queue in place of an item.
func withConsole(pages *http.ServeMux, g *gateway.Gateway, names settings.HostNames) http.Handler {
	if g == nil {
		pages.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, consoleIsOff, http.StatusNotFound) })
	} else {
		page := names.Guard(console.Handler())
		pages.Handle("GET /{$}", page)
		pages.Handle("GET /console/", page)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !isInterface(r.URL.Path) && !isInterface(path.Clean(r.URL.Path)):
			pages.ServeHTTP(w, r)
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
