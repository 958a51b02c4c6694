package node

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/nats-io/nats.go"
	streams "github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/broker"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/link"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/internal/jetstream"
	"github.com/pqbridge/pqbridge/internal/natsurl"
)

// logUsers finds out who else can use the log of the store.
type logUsers struct {
	*Log
}

// CheckUsers refuses a log in a NATS cluster outside that clients without a login can read or purge. Clients with the
// rights of pqd's own login are trusted; CheckUsers logs who they are. Before there is a log, it can try nothing.
func CheckUsers(ctx context.Context, l *Log) error {
	u := logUsers{l}
	s := l.settings
	if s.Unprotected.Accepts(settings.DoorLog) {
		return nil
	}
	own, err := u.find(ctx)
	if err != nil || own == nil {
		return err
	}
	may, err := u.mayUse(ctx, own, anonymously(s.NATS.URL), settings.NATS{CA: s.NATS.CA})
	switch {
	case err != nil:
		l.log.Warn("checking whether clients without a login can use the log of the store failed", "error", err)
	case may != "":
		return settings.Usagef("PQ_STORE=%s: clients without a login can %s the log of the store, which has all items of all queues: expected NATS servers with users and an account for the log (PQ_STORE_CREDS), or PQ_UNPROTECTED=%s if everybody who reaches the servers may do that", s.Store, may, settings.DoorLog)
	}
	if s.LogCreds == "" {
		l.log.Warn("the log of the store shares an account with clients: each user with a right to publish to $JS.API.> can read and purge all items. Give the log an account of its own with PQ_STORE_CREDS, or accept the risk with PQ_UNPROTECTED=log", "stream", own.Config.Name)
	} else if may, err := u.mayUse(ctx, own, s.NATS.URL, s.NATS); err == nil && may != "" {
		l.log.Warn("the account of PQ_STORE_CREDS is also that of clients: each user with the rights of pqd's NATS user can "+may+" the log of the store", "stream", own.Config.Name)
	}
	return nil
}

// find returns the newest stream of the store, or nil if there is none.
func (u logUsers) find(ctx context.Context) (*streams.StreamInfo, error) {
	s := u.settings.Store
	ctx, cancel := context.WithTimeout(ctx, broker.LogConnectLimit)
	defer cancel()
	all, err := jetstream.NewLog(u.nc, jetstream.Options{Name: s.Place, Domain: s.Stream.Domain})
	if err != nil {
		return nil, err
	}
	newest, err := all.Newest(ctx)
	if err != nil || newest == 0 {
		u.log.Debug("no log to check", "error", err)
		return nil, nil // the node waits for it, and says so
	}
	info, err := u.stream(ctx, jetstream.Stream(s.Place, newest))
	if err != nil {
		u.log.Debug("no log to check", "error", err)
		return nil, nil
	}
	return info, nil
}

// mayUse names an operation that a client with this login can do to a stream, or nothing.
func (u logUsers) mayUse(ctx context.Context, own *streams.StreamInfo, servers string, login settings.NATS) (may string, err error) {
	options, err := link.Login(login)
	if err != nil {
		return "", err
	}
	ctx, denied := context.WithCancel(ctx)
	defer denied()
	nc, err := nats.Connect(servers, append(options, nats.Name("pqd: who can use the log"), nats.Timeout(broker.LogConnectLimit), nats.NoReconnect(),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) { denied() }))...)
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), link.RefusedTLS(err):
		return "", nil
	case err != nil:
		return "", err
	}
	defer nc.Close()
	seen, err := u.streamSeen(ctx, nc, own.Config.Name)
	if err != nil || !seen.Created.Equal(own.Created) {
		return "", nil // no right, no JetStream, or another account with such a stream
	}
	prefix := streams.DefaultAPIPrefix
	if domain := u.settings.Store.Stream.Domain; domain != "" {
		prefix = "$JS." + domain + ".API."
	}
	var all []string
	// The server refuses a request that is no JSON, if it lets the client ask at all.
	for _, right := range []struct{ what, subject string }{
		{"read", prefix + "DIRECT.GET." + own.Config.Name},
		{"purge", prefix + "STREAM.PURGE." + own.Config.Name},
	} {
		ask, cancel := context.WithTimeout(ctx, openLogLimit)
		_, err := nc.RequestWithContext(ask, right.subject, []byte("{"))
		cancel()
		if err == nil {
			all = append(all, right.what)
		}
	}
	return strings.Join(all, " and "), nil
}

// anonymously is a list of servers without the logins in it.
func anonymously(servers string) string {
	all, err := natsurl.Parse(servers)
	if err != nil {
		return servers // CheckUsers has read it before
	}
	var bare []string
	for _, u := range all {
		bare = append(bare, (&url.URL{Scheme: u.Scheme, Host: u.Host}).String())
	}
	return strings.Join(bare, ",")
}
