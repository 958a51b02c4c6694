package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	streams "github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/broker"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/link"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/room"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
)

// Log is this pqd's access to the log of a store that several pqd keep.
type Log struct {
	settings settings.Settings
	log      *slog.Logger
	broker   *broker.Server // nil: the log is in NATS servers outside
	nc       *nats.Conn
}

const (
	logReconnectWait = 100 * time.Millisecond
	logPing          = 5 * time.Second
)

// ConnectLog connects to the log with a user of its own, because a user that may write to the log owns all queues.
// Without such a user login has the options.
func ConnectLog(ctx context.Context, s settings.Settings, log *slog.Logger, server *broker.Server, login []nats.Option) (l *Log, err error) {
	l = &Log{settings: s, log: log, broker: server}
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
	case l.broker != nil:
		own, err := l.broker.ToLog()
		if err != nil {
			return nil, err
		}
		url, options = "", append(options, own...)
	case l.settings.LogCreds != "":
		// The certificates are the same: it is the same server.
		other := l.settings.NATS
		other.Creds, other.NKey, other.User, other.Password, other.Token = l.settings.LogCreds, "", "", "", ""
		if login, err = link.Login(other); err != nil {
			return nil, err
		}
		options = append(options, login...)
	default:
		options = append(options, login...)
	}
	if l.nc, err = link.Connect(ctx, url, options, l.log); err != nil {
		return nil, err
	}
	return l, nil
}

// Close closes the connection.
func (l *Log) Close() { l.nc.Close() }

// ClientID is the id of the connection at its server.
func (l *Log) ClientID() (uint64, error) { return l.nc.GetClientID() }

// replica is the embedded server's part of the log. Without an embedded server it has none.
func (l *Log) replica() broker.LogReplica {
	if l.broker == nil {
		return broker.LogReplica{}
	}
	return l.broker.Replica(l.nc)
}

// stream is a stream as this pqd sees it.
func (l *Log) stream(ctx context.Context, name string) (*streams.StreamInfo, error) {
	return l.streamSeen(ctx, l.nc, name)
}

// streamSeen is a stream as a connection sees it.
func (l *Log) streamSeen(ctx context.Context, nc *nats.Conn, name string) (*streams.StreamInfo, error) {
	api, err := l.api(nc)
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

// api has the requests to JetStream on a connection.
func (l *Log) api(nc *nats.Conn) (streams.JetStream, error) {
	if domain := l.settings.Store.Stream.Domain; domain != "" {
		return streams.NewWithDomain(nc, domain)
	}
	return streams.New(nc)
}

// changeStream changes the configuration of a stream, unless change reports that there is nothing to change.
func (l *Log) changeStream(ctx context.Context, name string, change func(*streams.StreamConfig) bool) error {
	info, err := l.stream(ctx, name)
	if err != nil {
		return fmt.Errorf("look at stream %s: %w", name, err)
	}
	config := info.Config
	if !change(&config) {
		return nil
	}
	api, err := l.api(l.nc)
	if err != nil {
		return err
	}
	if _, err := api.UpdateStream(ctx, config); err != nil {
		return fmt.Errorf("change stream %s: %w", name, err)
	}
	return nil
}

// openLogLimit bounds the wait for each answer to a login that may get none.
const openLogLimit = 2 * time.Second

// Init makes the store of PQ_STORE=jetstream:<name> that does not exist yet. The
// nodes of PQ_CLUSTER do that by themselves.
func Init(ctx context.Context, s settings.Settings, version string, log *slog.Logger) error {
	switch {
	case !s.Shared():
		return settings.Usagef("PQ_STORE=%s is made by pqd when it starts: expected PQ_STORE=jetstream:<name>", s.Store)
	case len(s.Cluster) > 0:
		return settings.Usagef("the nodes of PQ_CLUSTER make their store when all of them run: expected PQ_STORE=jetstream:<name> with NATS_URL")
	case s.Store.Stream.MaxBytes == 0:
		return settings.Usagef("PQ_STORE=%s: expected ?max_bytes=<size>, the largest size of the stream that is to be made", s.Store)
	}
	login, err := link.Login(s.NATS)
	if err != nil {
		return err
	}
	l, err := ConnectLog(ctx, s, log, nil, login)
	if err != nil {
		return err
	}
	defer l.Close()
	name, err := s.NodeName()
	if err != nil {
		return err
	}
	db, err := openCopy(l, name, version, true, room.NewCopy(l.settings, l.log))
	if err != nil {
		return err
	}
	for {
		changed, status := db.Changed(), db.Status()
		if status.Role == cluster.Stopped {
			return errors.Join(fmt.Errorf("PQ_STORE=%s: %s", s.Store, status.Reason), db.Close())
		}
		if status.Epoch > 0 {
			break
		}
		select {
		case <-changed:
		case <-time.After(readyEvery): // the epoch has no event
		case <-ctx.Done():
			return errors.Join(ctx.Err(), db.Close())
		}
	}
	if err := db.Close(); err != nil && !errors.Is(err, kv.ErrClosed) {
		return err
	}
	log.Info("the store is there", "store", s.Store.String())
	return CheckUsers(ctx, l)
}
