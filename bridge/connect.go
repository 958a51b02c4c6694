package bridge

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/internal/natsurl"
)

// Settings of a bridge's connection.
const (
	pingInterval   = 20 * time.Second // the client notices a dead server within a minute, not six
	reconnectWait  = 250 * time.Millisecond
	lameDuckSpread = 8 * time.Second // before the server's grace of 10 s is over
)

// ConnectOptions returns the options that a bridge's connection needs; the caller's own
// options go behind them. The connection should serve the bridge alone: it does not
// receive its own messages.
func ConnectOptions(log *slog.Logger) []nats.Option {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return []nats.Option{
		nats.Name("pqbridge"),
		nats.NoEcho(), // events have the prefix of requests
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectWait, 4*reconnectWait),
		nats.IgnoreAuthErrorAbort(),
		nats.PingInterval(pingInterval),
		// An answer that cannot be sent at once fails. Its lease is given back, and
		// the item is not delivered later to a client that has gone.
		nats.ReconnectBufSize(-1),
		nats.LameDuckModeHandler(func(nc *nats.Conn) { leave(nc, log) }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			log.Warn("disconnected from NATS", "error", err)
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Info("reconnected to NATS", "server", natsurl.Of(nc))
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			subject := ""
			if sub != nil {
				subject = sub.Subject
			}
			level, text := slog.LevelError, "NATS reported an error"
			switch {
			case errors.Is(err, nats.ErrBadHeaderMsg):
				level = slog.LevelDebug // the answer says so
			case errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), "Publish"):
				// Clients choose the subjects of answers.
				level, text = slog.LevelWarn, "an answer may not be published"
			}
			log.Log(context.Background(), level, text, "subject", subject, "error", err)
		}),
	}
}

// leave moves to another server after this one has announced its stop. A random pause
// spreads the clients, which all get the announcement at the same time.
func leave(nc *nats.Conn, log *slog.Logger) {
	log.Info("the NATS server stops soon", "server", natsurl.Of(nc))
	if len(nc.Servers()) < 2 {
		return
	}
	time.AfterFunc(rand.N(lameDuckSpread), func() {
		if err := nc.ForceReconnect(); err != nil {
			log.Warn("leaving the NATS server failed", "error", err)
		}
	})
}
