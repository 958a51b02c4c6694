package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/internal/natsurl"
)

// dial connects to the NATS server. A permission error ends the session, because the refused
// request will never be answered.
func (s *Session) dial() (*nats.Conn, error) {
	return s.DialWith(func(err error) { s.fail(err) })
}

// reconnectWait is between attempts to reach the server again. The library's two seconds would be most of
// the time that a restart of pqd takes from a command which goes on behind it.
const reconnectWait = 250 * time.Millisecond

// DialWith connects, and calls denied with each permission error.
func (s *Session) DialWith(denied func(error)) (*nats.Conn, error) {
	l, _, err := s.Login()
	if err != nil {
		return nil, err
	}
	options, err := l.options()
	if err != nil {
		return nil, err
	}
	options = append(options,
		nats.Name("pq"), nats.Timeout(s.Global.Timeout), nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrPermissionViolation) && !client.AskedWhetherItMay(err) {
				denied(err)
			}
		}))
	if s.Global.Timeout == 0 {
		return nil, Usagef("--timeout 0s: expected more")
	}
	server := cmp.Or(l.Server, nats.DefaultURL)
	if _, err := natsurl.Parse(server); err != nil {
		return nil, Usagef("address of the NATS server: %w", err)
	}
	nc, err := nats.Connect(server, options...)
	if err != nil {
		return nil, &connectError{natsurl.Redact(server), err}
	}
	return nc, nil
}

// Allowed runs requests. denied is the server's word if it lets this user send none of them: that ends them, and not the session.
func (s *Session) Allowed(ask func(context.Context) error) (denied, err error) {
	ctx, cancel := context.WithCancelCause(s.Context)
	defer cancel(nil)
	others := s.NC.ErrorHandler()
	defer s.NC.SetErrorHandler(others)
	s.NC.SetErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrPermissionViolation) && !client.AskedWhetherItMay(err) {
			cancel(err)
			return
		}
		others(nc, sub, err)
	})
	err = ask(ctx)
	if cause := context.Cause(ctx); err != nil && s.Context.Err() == nil && cause != nil {
		return cause, nil
	}
	return nil, err
}

// connectError is a NATS server that cannot be reached or refuses the login.
type connectError struct {
	server string // without its login
	err    error
}

func (e *connectError) Error() string {
	return fmt.Sprintf("connect to %s: %s", e.server, WithoutPrefix(e.err))
}

func (e *connectError) Unwrap() error { return e.err }
