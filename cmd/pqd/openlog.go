package main

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	streams "github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/broker"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/internal/jetstream"
)

// openLogLimit bounds the wait for each answer to somebody who may have none.
const openLogLimit = 2 * time.Second

// checkLog refuses a log in a NATS cluster outside that clients without a login can read
// or purge. Those with the rights of pqd's own login are trusted; it says who they are.
// Before there is a log, it has nothing to try.
func (d *daemon) checkLog(ctx context.Context, log *nats.Conn) error {
	s := d.settings
	if s.Unprotected.Accepts(settings.DoorLog) {
		return nil
	}
	own, err := d.findLog(ctx, log)
	if err != nil || own == nil {
		return err
	}
	may, err := d.mayUse(ctx, own, anonymously(s.NATS.URL), settings.NATS{CA: s.NATS.CA})
	switch {
	case err != nil:
		d.log.Warn("checking whether clients without a login can use the log of the store failed", "error", err)
	case may != "":
		return settings.Usagef("PQ_STORE=%s: clients without a login can %s the log of the store, which has all items of all queues: expected NATS servers with users and an account for the log (PQ_STORE_CREDS), or PQ_UNPROTECTED=%s if everybody who reaches the servers may do that", s.Store, may, settings.DoorLog)
	}
	if s.LogCreds == "" {
		d.log.Warn("the log of the store shares an account with clients: each user with a right to publish to $JS.API.> can read and purge all items. Give the log an account of its own with PQ_STORE_CREDS, or accept the risk with PQ_UNPROTECTED=log", "stream", own.Config.Name)
	} else if may, err := d.mayUse(ctx, own, s.NATS.URL, s.NATS); err == nil && may != "" {
		d.log.Warn("the account of PQ_STORE_CREDS is also that of clients: each user with the rights of pqd's NATS user can "+may+" the log of the store", "stream", own.Config.Name)
	}
	return nil
}

// findLog returns the newest stream of the store, or nil if there is none.
func (d *daemon) findLog(ctx context.Context, log *nats.Conn) (*streams.StreamInfo, error) {
	s := d.settings.Store
	ctx, cancel := context.WithTimeout(ctx, broker.LogConnectLimit)
	defer cancel()
	all, err := jetstream.NewLog(log, jetstream.Options{Name: s.Place, Domain: s.Stream.Domain})
	if err != nil {
		return nil, err
	}
	newest, err := all.Newest(ctx)
	if err != nil || newest == 0 {
		d.log.Debug("no log to check", "error", err)
		return nil, nil // the member waits for it, and says so
	}
	info, err := d.streamSeen(ctx, log, jetstream.Stream(s.Place, newest))
	if err != nil {
		d.log.Debug("no log to check", "error", err)
		return nil, nil
	}
	return info, nil
}

// streamSeen is a stream as a connection sees it.
func (d *daemon) streamSeen(ctx context.Context, nc *nats.Conn, name string) (*streams.StreamInfo, error) {
	api, err := streams.New(nc)
	if domain := d.settings.Store.Stream.Domain; domain != "" {
		api, err = streams.NewWithDomain(nc, domain)
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, openLogLimit)
	defer cancel()
	s, err := api.Stream(ctx, name)
	if err != nil {
		return nil, err
	}
	return s.CachedInfo(), nil
}

// mayUse says what a client with this login can do to a stream, or nothing.
func (d *daemon) mayUse(ctx context.Context, own *streams.StreamInfo, servers string, login settings.NATS) (may string, err error) {
	options, err := loginOptions(login)
	if err != nil {
		return "", err
	}
	ctx, denied := context.WithCancel(ctx)
	defer denied()
	nc, err := nats.Connect(servers, append(options, nats.Name("pqd: who can use the log"), nats.Timeout(broker.LogConnectLimit), nats.NoReconnect(),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) { denied() }))...)
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), refusedTLS(err):
		return "", nil
	case err != nil:
		return "", err
	}
	defer nc.Close()
	seen, err := d.streamSeen(ctx, nc, own.Config.Name)
	if err != nil || !seen.Created.Equal(own.Created) {
		return "", nil // no right, no JetStream, or another account with such a stream
	}
	prefix := streams.DefaultAPIPrefix
	if domain := d.settings.Store.Stream.Domain; domain != "" {
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
	all, err := settings.ParseServers(servers)
	if err != nil {
		return servers // check has read it before
	}
	var bare []string
	for _, u := range all {
		bare = append(bare, (&url.URL{Scheme: u.Scheme, Host: u.Host}).String())
	}
	return strings.Join(bare, ",")
}
