package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/internal/natsurl"
)

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
