package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/internal/console"
	"github.com/pqbridge/pqbridge/internal/gateway"
	"github.com/pqbridge/pqbridge/subjects"
)

// consoleMode is what the console and the HTTP interface serve.
type consoleMode string

const (
	consoleOff   consoleMode = "off"
	consoleRead  consoleMode = "read"
	consoleAdmin consoleMode = "admin"
)

func (m *consoleMode) Decode(value string) error {
	switch *m = consoleMode(value); *m {
	case consoleOff, consoleRead, consoleAdmin:
		return nil
	}
	return errors.New("expected off, read or admin")
}

// inboxPrefix is the first tokens of inboxes.
type inboxPrefix string

func (p *inboxPrefix) Decode(value string) error {
	if err := subjects.CheckPattern(value); err != nil || strings.ContainsAny(value, "*>") {
		return errors.New("expected tokens joined by dots, such as _INBOX.console")
	}
	*p = inboxPrefix(value)
	return nil
}

// mode is what PQ_CONSOLE says, or what is safe if it says nothing.
func (s *settings) mode() consoleMode {
	open := s.HTTP.isLoopback() && s.NATS.URL == "" && s.NATSConfig == ""
	switch {
	case s.Console != "":
		return s.Console
	case open, s.Token != "", s.ownLogin():
		return consoleRead
	}
	return consoleOff
}

// tokenPassword is the password that serves as the token of the HTTP interface, and the
// variable that has it. Callers have the rights of its user, so whoever knows it may do as
// much over NATS.
func (s *settings) tokenPassword() (variable, password string) {
	switch {
	case s.Token != "", s.HTTP.isLoopback() && !s.ownLogin():
		return "", ""
	case s.WebUser != "":
		return "PQ_CONSOLE_PASSWORD", s.WebPass
	case s.WebCreds == "":
		return "NATS_PASSWORD", s.NATS.Password
	}
	return "", ""
}

// webToken is what callers of the HTTP interface show; "": nothing.
func (s *settings) webToken() (string, error) {
	if s.Token != "" {
		return secretIn("PQ_CONSOLE_TOKEN", s.Token)
	}
	variable, password := s.tokenPassword()
	if password != "" && len(password) < minSecret {
		return "", usagef("without PQ_CONSOLE_TOKEN, %s is the token of the HTTP interface: expected at least %d characters", variable, minSecret)
	}
	return password, nil
}

// checkConsole finds settings of the console that are missing or contradict each other.
func (s *settings) checkConsole() error {
	own := s.among("PQ_CONSOLE_TOKEN", "PQ_CONSOLE_CREDS", "PQ_CONSOLE_USER", "PQ_CONSOLE_PASSWORD", "PQ_CONSOLE_INBOX")
	_, password := s.tokenPassword()
	switch {
	case s.mode() == consoleOff && len(own) > 0:
		return usagef("%s is set, but the console is off: expected PQ_CONSOLE=read or PQ_CONSOLE=admin", own[0])
	case s.mode() == consoleOff:
		return nil
	case s.Token == "" && password == "" && !s.HTTP.isLoopback() && !s.Unprotected.accepts(doorHTTP):
		return usagef("PQ_CONSOLE=%s, and other machines reach PQ_HTTP=%s: expected PQ_CONSOLE_TOKEN, a file with the token that users show, NATS_USER and NATS_PASSWORD, whose password is the token then, a loopback address, or PQ_UNPROTECTED=%s if everybody there may do that",
			s.Console, s.HTTP, doorHTTP)
	case s.set["PQ_CONSOLE_USER"] != s.set["PQ_CONSOLE_PASSWORD"]:
		return usagef("%s is set alone: expected PQ_CONSOLE_USER and PQ_CONSOLE_PASSWORD together", s.among("PQ_CONSOLE_USER", "PQ_CONSOLE_PASSWORD")[0])
	case s.WebCreds != "" && s.WebUser != "":
		return usagef("PQ_CONSOLE_CREDS and PQ_CONSOLE_USER are set: expected one way to log in")
	case (s.WebCreds != "" || s.WebUser != "") && s.NATS.URL == "" && s.NATSConfig == "":
		return usagef("%s is set, but the embedded NATS server asks for no login: expected NATS_URL, or PQ_NATS_CONFIG with users", s.among("PQ_CONSOLE_CREDS", "PQ_CONSOLE_USER")[0])
	}
	return nil
}

// isLoopback reports whether no other machine can reach the address.
func (a address) isLoopback() bool { return node{host: a.host}.isLoopback() }

// newGateway returns the HTTP interface, nil if it is off.
func newGateway(s settings, log *slog.Logger) (*gateway.Gateway, error) {
	if s.mode() == consoleOff {
		return nil, nil
	}
	token, err := s.webToken()
	if err != nil {
		return nil, err
	}
	return gateway.New(gateway.Options{Prefix: string(s.Prefix), Changes: s.mode() == consoleAdmin, Logger: log, Token: token})
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
		options = append(options, nats.InProcessServer(newPipeDialer(d.embedded)))
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
func withConsole(pages *http.ServeMux, g *gateway.Gateway, names hostNames) http.Handler {
	if g == nil {
		pages.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, consoleIsOff, http.StatusNotFound) })
	} else {
		page := names.guard(console.Handler())
		pages.Handle("GET /{$}", page)
		pages.Handle("GET /console/", page)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !isInterface(r.URL.Path) && !isInterface(path.Clean(r.URL.Path)):
			pages.ServeHTTP(w, r)
		case g == nil:
			gateway.Refuse(w, http.StatusNotFound, consoleIsOff)
		case !names.allow(r):
			gateway.Refuse(w, http.StatusMisdirectedRequest, hostNotAllowed)
		default:
			g.ServeHTTP(w, r)
		}
	})
}

// isInterface reports whether a path is one of the HTTP interface, there or not.
func isInterface(at string) bool { return at == "/v1" || strings.HasPrefix(at, "/v1/") }
