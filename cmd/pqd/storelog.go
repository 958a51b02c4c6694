package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	streams "github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/broker"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/link"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/room"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/store"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/internal/jetstream"
	"github.com/pqbridge/pqbridge/internal/natsurl"
)

// storeLog is this pqd's access to the log of a store that several pqd keep.
type storeLog struct {
	settings settings.Settings
	log      *slog.Logger
	embedded *broker.Server
	nc       *nats.Conn // nil before connect
}

// apartLimit bounds how long the active node appends nothing so that another server can become the leader of the
// log.
const apartLimit = 500 * time.Millisecond

const (
	logReconnectWait = 100 * time.Millisecond
	logPing          = 5 * time.Second
)

// connect connects to the log with a user of its own, because a user that may write to the log owns all queues.
// Without such a user login has the options.
func (l *storeLog) connect(ctx context.Context, login []nats.Option) (err error) {
	options := []nats.Option{
		nats.Name("pqd log"), nats.RetryOnFailedConnect(false),
		nats.MaxReconnects(-1), nats.ReconnectWait(logReconnectWait), nats.PingInterval(logPing), nats.MaxPingsOutstanding(2),
		nats.ReconnectBufSize(-1), // a message is sent at once or not at all
		nats.Timeout(broker.LogConnectLimit),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			l.log.Warn("error of the connection to the log", "error", err)
		}),
	}
	url := l.settings.NATS.URL
	switch {
	case l.embedded != nil:
		own, err := l.embedded.ToLog()
		if err != nil {
			return err
		}
		url, options = "", append(options, own...)
	case l.settings.LogCreds != "":
		// The certificates are the same: it is the same server.
		other := l.settings.NATS
		other.Creds, other.NKey, other.User, other.Password, other.Token = l.settings.LogCreds, "", "", "", ""
		if login, err = link.Login(other); err != nil {
			return err
		}
		options = append(options, login...)
	default:
		options = append(options, login...)
	}
	l.nc, err = link.Connect(ctx, url, options, l.log)
	return err
}

// openCopy opens the copy of this pqd. It serves nothing yet.
func (l *storeLog) openCopy(name string, init bool) (*cluster.DB, error) {
	s := l.settings
	size := s.Store.Stream.MaxBytes
	if err := os.MkdirAll(string(s.Data), 0o700); err != nil {
		return nil, store.UnlessMade(string(s.Data), fmt.Errorf("PQ_DATA=%s: %w", s.Data, err))
	}
	if size == 0 && len(s.Cluster) > 0 {
		free, _, err := room.Free(string(s.Data))
		if err != nil {
			return nil, fmt.Errorf("PQ_DATA=%s: look how much room there is: %w", s.Data, err)
		}
		size = free / 2
	}
	replicas := s.Store.Stream.Replicas
	if len(s.Cluster) > 0 {
		replicas = len(s.Cluster)
	}
	if replicas == 1 {
		l.log.Warn("the stream has one replica: the store is lost with the disk of its server", "store", s.Store.String())
	}
	stream, err := jetstream.NewLog(l.nc, jetstream.Options{Name: s.Store.Place, Replicas: replicas, MaxBytes: size, Domain: s.Store.Stream.Domain})
	if err != nil {
		return nil, fmt.Errorf("PQ_STORE=%s: %w", s.Store, err)
	}
	members, err := jetstream.NewMembers(l.nc, s.Store.Place)
	if err != nil {
		return nil, fmt.Errorf("PQ_STORE=%s: %w", s.Store, err)
	}
	var replica func(generation, entry uint64) error
	var apart func(ctx context.Context, others []string)
	if r := l.replica(); l.embedded != nil {
		replica = func(generation, entry uint64) error {
			return cmp.Or(r.Missing(jetstream.Stream(s.Store.Place, generation), entry), r.Ready())
		}
		apart = func(ctx context.Context, others []string) {
			ctx, cancel := context.WithTimeout(ctx, apartLimit)
			defer cancel()
			if err := r.MoveLeader(ctx, others); err != nil {
				l.log.Debug("the log is led by the server of the active node", "error", err)
			}
		}
	}
	db, err := cluster.Open(s.CopyDir(), stream, members, cluster.Options{
		Name: name, Members: s.Cluster.Names(), Version: version(), Init: init, DiskFull: room.Full(s.MinFree, string(s.Data)),
		LogReplica: replica, Apart: apart, Silence: time.Duration(s.Silence),
		Replica: local.Options{Log: l.log, Fatal: func(err error) { store.GiveUp(l.log, err) }},
	})
	if err != nil {
		return nil, fmt.Errorf("PQ_STORE=%s: %w", s.Store, store.AdviseDamage(err, s))
	}
	return db, nil
}

// replica is the embedded server's part of the log. Without an embedded server it has none.
func (l *storeLog) replica() broker.LogReplica {
	if l.embedded == nil {
		return broker.LogReplica{}
	}
	return l.embedded.Replica(l.nc)
}

// stream is a stream as this pqd sees it.
func (l *storeLog) stream(ctx context.Context, name string) (*streams.StreamInfo, error) {
	return l.streamSeen(ctx, l.nc, name)
}

// streamSeen is a stream as a connection sees it.
func (l *storeLog) streamSeen(ctx context.Context, nc *nats.Conn, name string) (*streams.StreamInfo, error) {
	api, err := streams.New(nc)
	if domain := l.settings.Store.Stream.Domain; domain != "" {
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

// openLogLimit bounds the wait for each answer to a login that may get none.
const openLogLimit = 2 * time.Second

// check refuses a log in a NATS cluster outside that clients without a login can read or purge. Clients with the
// rights of pqd's own login are trusted; check logs who they are. Before there is a log, it can try nothing.
func (l *storeLog) check(ctx context.Context) error {
	s := l.settings
	if s.Unprotected.Accepts(settings.DoorLog) {
		return nil
	}
	own, err := l.find(ctx)
	if err != nil || own == nil {
		return err
	}
	may, err := l.mayUse(ctx, own, anonymously(s.NATS.URL), settings.NATS{CA: s.NATS.CA})
	switch {
	case err != nil:
		l.log.Warn("checking whether clients without a login can use the log of the store failed", "error", err)
	case may != "":
		return settings.Usagef("PQ_STORE=%s: clients without a login can %s the log of the store, which has all items of all queues: expected NATS servers with users and an account for the log (PQ_STORE_CREDS), or PQ_UNPROTECTED=%s if everybody who reaches the servers may do that", s.Store, may, settings.DoorLog)
	}
	if s.LogCreds == "" {
		l.log.Warn("the log of the store shares an account with clients: each user with a right to publish to $JS.API.> can read and purge all items. Give the log an account of its own with PQ_STORE_CREDS, or accept the risk with PQ_UNPROTECTED=log", "stream", own.Config.Name)
	} else if may, err := l.mayUse(ctx, own, s.NATS.URL, s.NATS); err == nil && may != "" {
		l.log.Warn("the account of PQ_STORE_CREDS is also that of clients: each user with the rights of pqd's NATS user can "+may+" the log of the store", "stream", own.Config.Name)
	}
	return nil
}

// find returns the newest stream of the store, or nil if there is none.
func (l *storeLog) find(ctx context.Context) (*streams.StreamInfo, error) {
	s := l.settings.Store
	ctx, cancel := context.WithTimeout(ctx, broker.LogConnectLimit)
	defer cancel()
	all, err := jetstream.NewLog(l.nc, jetstream.Options{Name: s.Place, Domain: s.Stream.Domain})
	if err != nil {
		return nil, err
	}
	newest, err := all.Newest(ctx)
	if err != nil || newest == 0 {
		l.log.Debug("no log to check", "error", err)
		return nil, nil // the member waits for it, and says so
	}
	info, err := l.stream(ctx, jetstream.Stream(s.Place, newest))
	if err != nil {
		l.log.Debug("no log to check", "error", err)
		return nil, nil
	}
	return info, nil
}

// mayUse names an operation that a client with this login can do to a stream, or nothing.
func (l *storeLog) mayUse(ctx context.Context, own *streams.StreamInfo, servers string, login settings.NATS) (may string, err error) {
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
	seen, err := l.streamSeen(ctx, nc, own.Config.Name)
	if err != nil || !seen.Created.Equal(own.Created) {
		return "", nil // no right, no JetStream, or another account with such a stream
	}
	prefix := streams.DefaultAPIPrefix
	if domain := l.settings.Store.Stream.Domain; domain != "" {
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
		return servers // check has read it before
	}
	var bare []string
	for _, u := range all {
		bare = append(bare, (&url.URL{Scheme: u.Scheme, Host: u.Host}).String())
	}
	return strings.Join(bare, ",")
}
