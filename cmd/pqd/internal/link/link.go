// Package link makes connections to NATS, and keeps one for as long as pqd runs.
//
// [Connect] waits for a server that cannot be reached yet, and fails at once when one refuses the login.
//
// nats.go itself restores a connection that was lost. But a connection that the server has ended for an error, such
// as a line longer than its max_control_line, is closed for good. Then a [Link] makes another connection, and the
// users of the connection start anew on it.
package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/internal/natsurl"
)

// Link is a connection that is replaced when the server has ended it. Its exported fields are set before it is
// used.
type Link struct {
	Name string // of the connection, for the log
	Log  *slog.Logger
	Dial func(ctx context.Context, more ...nats.Option) (*nats.Conn, error)

	Begin func(ctx context.Context, nc *nats.Conn) error // starts the user of a connection
	End   func()                                         // ends the user when the connection is closed

	mu    sync.Mutex
	nc    *nats.Conn
	over  chan struct{} // closed when the connection is closed
	since time.Time     // when the connection was made
	up    chan struct{} // closed while the connection has a user
}

// Pauses before another connection is made. They double, so that a client that makes the server end connections
// causes few.
const (
	firstRest = time.Second
	lastRest  = 30 * time.Second
	longLived = time.Minute // after a connection that lived so long the pauses begin anew
)

// Connect makes the first connection.
func (l *Link) Connect(ctx context.Context) error {
	over := make(chan struct{})
	closed := sync.OnceFunc(func() { close(over) })
	nc, err := l.Dial(ctx, nats.ClosedHandler(func(*nats.Conn) { closed() }))
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nc, l.over, l.since = nc, over, time.Now()
	if l.up == nil {
		l.up = make(chan struct{})
	}
	return nil
}

// Conn is the connection; it may be closed.
func (l *Link) Conn() *nats.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nc
}

// Use starts the user of the connection.
func (l *Link) Use(ctx context.Context) error {
	if err := l.Begin(ctx, l.Conn()); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.up)
	return nil
}

// Away says why no connection is in use, or nil.
func (l *Link) Away() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.up:
		return nil
	default:
	}
	return fmt.Errorf("the NATS server ended %s for an error: another one is about to be made", l.Name)
}

// Waits says why the connection is away that is about to come back by itself, or about to be made again, or nil.
func (l *Link) Waits() error {
	if err := l.Away(); err != nil {
		return err
	}
	if l.Conn().Status() == nats.RECONNECTING {
		return errors.New("NATS connection is reconnecting")
	}
	return nil
}

// Ended is closed when the connection is closed.
func (l *Link) Ended() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

// Await waits until a connection is in use, or ctx ends.
func (l *Link) Await(ctx context.Context) {
	l.mu.Lock()
	up := l.up
	l.mu.Unlock()
	select {
	case <-up:
	case <-ctx.Done():
	}
}

// Keep replaces the connection as often as the server ends it, until ctx ends.
func (l *Link) Keep(ctx context.Context) {
	rest := firstRest
	for {
		select {
		case <-l.Ended():
		case <-ctx.Done():
			return
		}
		lived := l.lost()
		if lived >= longLived {
			rest = firstRest
		}
		for {
			select {
			case <-time.After(rest):
			case <-ctx.Done():
				return
			}
			rest = min(2*rest, lastRest)
			err := l.Connect(ctx)
			if err == nil {
				if err = l.Use(ctx); err == nil {
					l.Log.Info("made another connection to NATS", "connection", l.Name)
					break
				}
				l.Conn().Close()
			}
			if ctx.Err() != nil {
				return
			}
			l.Log.Error("making another connection to NATS failed", "connection", l.Name, "error", err, "again", rest.String())
		}
	}
}

// lost ends the user of the connection, and returns how long it lived.
func (l *Link) lost() time.Duration {
	l.mu.Lock()
	l.up = make(chan struct{})
	nc, lived := l.nc, time.Since(l.since)
	l.mu.Unlock()
	l.Log.Error("the NATS server ended a connection for an error: making another one", "connection", l.Name, "error", nc.LastError())
	l.End()
	return lived
}

// Close closes the connection.
func (l *Link) Close() error {
	nc := l.Conn()
	nc.SetDisconnectErrHandler(nil) // this disconnect is no news
	nc.Close()
	return nil
}

// The pauses between attempts to reach a server that is not there yet.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// Login are the connection options that the NATS_* variables ask for.
func Login(s settings.NATS) ([]nats.Option, error) {
	var options []nats.Option
	if s.Creds != "" {
		options = append(options, nats.UserCredentials(string(s.Creds)))
	}
	if s.NKey != "" {
		option, err := nats.NkeyOptionFromSeed(string(s.NKey))
		if err != nil {
			return nil, settings.Usagef("NATS_NKEY=%q: expected a file with an NKey seed: %w", s.NKey, err)
		}
		options = append(options, option)
	}
	if s.User != "" {
		options = append(options, nats.UserInfo(s.User, s.Password))
	}
	if s.Token != "" {
		options = append(options, nats.Token(s.Token))
	}
	if s.CA != "" {
		options = append(options, nats.RootCAs(string(s.CA)))
	}
	if s.Cert != "" {
		options = append(options, nats.ClientCert(string(s.Cert), string(s.Key)))
	}
	return options, nil
}

// Connect connects to NATS. It waits while no server can be reached. It fails at once when
// a server refuses the login or the certificate, because a retry would not help.
func Connect(ctx context.Context, url string, options []nats.Option, log *slog.Logger) (nc *nats.Conn, err error) {
	log = log.With("url", natsurl.Redact(url))
	err = Patiently(ctx, log, "waiting for NATS", unreachable, func() error {
		nc, err = nats.Connect(url, options...)
		return err
	})
	switch {
	case err == nil:
		return nc, nil
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired):
		who := ""
		if url == "" && errors.Is(err, nats.ErrAuthorization) {
			who = ", as a user who may connect IN_PROCESS and from anywhere"
		}
		return nil, fmt.Errorf("connect to NATS%s: %w: log in with NATS_CREDS, NATS_NKEY, NATS_TOKEN, or NATS_USER and NATS_PASSWORD%s", at(url), err, who)
	case RefusedTLS(err):
		return nil, fmt.Errorf("connect to NATS%s: %w: show a certificate that the server trusts with NATS_CERT and NATS_KEY", at(url), err)
	}
	return nil, fmt.Errorf("connect to NATS%s: %w", at(url), err)
}

// Patiently retries until an attempt succeeds, fails with an error that does not pass, or
// ctx ends.
func Patiently(ctx context.Context, log *slog.Logger, waiting string, passes func(error) bool, attempt func() error) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := attempt()
		if err == nil || !passes(err) {
			return err
		}
		log.Warn(waiting, "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

func unreachable(err error) bool {
	if RefusedTLS(err) {
		return false
	}
	return errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout) || errors.As(err, new(net.Error))
}

// RefusedTLS reports whether the server refused pqd's certificate, or required one.
// crypto/tls has no exported error type for that.
func RefusedTLS(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

func at(url string) string {
	if url == "" {
		return ", embedded" // the in-process connection has no address
	}
	return " at " + natsurl.Redact(url)
}
