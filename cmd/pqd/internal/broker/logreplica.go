package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
)

// LogReplica is the embedded server of a node of PQ_CLUSTER in its role as a replica of the log.
type LogReplica struct {
	Server *server.Server
	Log    *nats.Conn
}

// Ready says what the server lacks to replicate the log, or nil. Until it replicates the log, the loss of another
// node stops the log.
func (r LogReplica) Ready() error {
	if h := r.Server.Healthz(&server.HealthzOptions{Account: logAccount}); h.Error != "" {
		return fmt.Errorf("the NATS server of this node: %s", h.Error)
	}
	return nil
}

// Failed says why the server will not replicate the log until pqd starts again, or nil. A server whose disk is
// full, or cannot be written, gives up JetStream, or a stream, for good.
func (r LogReplica) Failed() error {
	if !r.Server.JetStreamEnabled() {
		return errors.New("the NATS server of this node has ended JetStream")
	}
	if err := r.Ready(); err != nil && strings.Contains(err.Error(), "write error") {
		return err
	}
	return nil
}

// leaderEvery is the time between looks whether the log has a new leader.
const leaderEvery = 5 * time.Millisecond

// MoveLeader makes one of these servers lead the log, if this server does, and returns when the new leader leads.
// If a server ends while it leads, the others elect a leader only after seconds.
func (r LogReplica) MoveLeader(ctx context.Context, to []string) error {
	streams, err := r.led()
	if err != nil {
		return err
	}
	for _, s := range streams {
		if err := r.resign(ctx, s.Name, furthest(s.Cluster.Replicas, to)); err != nil {
			return fmt.Errorf("stream %s: %w", s.Name, err)
		}
	}
	for look := time.NewTicker(leaderEvery); len(streams) > 0; {
		select {
		case <-look.C:
		case <-ctx.Done():
			look.Stop()
			return ctx.Err()
		}
		if streams, err = r.led(); err != nil {
			return err
		}
	}
	return nil
}

// led are the streams of the log that no other server leads.
func (r LogReplica) led() (found []server.StreamDetail, err error) {
	all, err := r.Server.Jsz(&server.JSzOptions{Account: logAccount, Streams: true})
	if err != nil {
		return nil, err
	}
	for _, a := range all.AccountDetails {
		for _, s := range a.Streams {
			if s.Cluster != nil && (s.Cluster.Leader == r.Server.Name() || s.Cluster.Leader == "") {
				found = append(found, s)
			}
		}
	}
	return found, nil
}

// furthest is the server, of these, that has most of a stream; "" if none was heard recently. A new replica is
// Current even before it has an entry, and a stream with such a leader stands still: so the caller has to know
// which servers have the log.
func furthest(replicas []*server.PeerInfo, of []string) (name string) {
	var least uint64
	for _, p := range replicas {
		if slices.Contains(of, p.Name) && !p.Offline && p.Current && (name == "" || p.Lag < least) {
			name, least = p.Name, p.Lag
		}
	}
	return name
}

// resign asks this server to give the leadership of a stream to another one.
func (r LogReplica) resign(ctx context.Context, stream, to string) error {
	if to == "" {
		return errors.New("no other server has all of it")
	}
	request, err := json.Marshal(server.JSApiLeaderStepdownRequest{Placement: &server.Placement{Preferred: to}})
	if err != nil {
		return err
	}
	reply, err := r.Log.RequestWithContext(ctx, fmt.Sprintf(server.JSApiStreamLeaderStepDownT, stream), request)
	if err != nil {
		return err
	}
	var answer struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return answer.Error
	}
	return nil
}

// Missing says that the server has no replica of this stream (ErrNoReplica), or one without this entry, or
// returns nil.
func (r LogReplica) Missing(stream string, entry uint64) error {
	all, err := r.Server.Jsz(&server.JSzOptions{Account: logAccount, Streams: true})
	if err != nil {
		return err
	}
	for _, a := range all.AccountDetails {
		if at := slices.IndexFunc(a.Streams, func(s server.StreamDetail) bool { return s.Name == stream }); at >= 0 {
			if last := a.Streams[at].State.LastSeq; last < entry {
				return fmt.Errorf("the replica of the log on this node ends at entry %d: it lacks entries up to %d", last, entry)
			}
			return nil
		}
	}
	return fmt.Errorf("%w: have it take the place of a node that is lost: pq cluster replace <lost node> %s", ErrNoReplica, r.Server.Name())
}

// ErrNoReplica means that a server has no replica of a stream, not even one that lacks entries.
var ErrNoReplica = errors.New("this node has no replica of the log, so the loss of another one may stop the store")

// mending starts a node's server whose files of the group that replicates the list of streams are damaged. Such a server
// does not start by itself.
type mending struct {
	settings settings.Settings
	log      *slog.Logger
	groups   *DamagedGroups
	read     func() (serverOptions, error) // the server's settings, anew
}

// start starts the server, after mending if that is needed.
func (m *mending) start(ctx context.Context, options serverOptions) (*server.Server, error) {
	srv, err := options.start(m.log)
	if err == nil || m.groups.First() != MetaGroup {
		return srv, err
	}
	if err := m.mend(ctx, err); err != nil {
		return nil, err
	}
	again, err := m.read()
	if err != nil {
		return nil, err
	}
	m.groups.forget()
	return again.start(m.log)
}

const (
	// spareLimit bounds the wait for the other nodes; a service manager starts pqd again.
	spareLimit = time.Minute
	spareEvery = time.Second
)

// mend sets aside the group without which the server does not start, as soon as the other nodes can spare it.
// Until then it asks them through a server that stores nothing and takes no clients.
func (m *mending) mend(ctx context.Context, why error) error {
	asking, err := m.read()
	if err != nil {
		return err
	}
	o := asking.Options
	o.JetStream = false
	o.Host, o.Port, o.NoAuthUser = "127.0.0.1", server.RANDOM_PORT, "" // routes need a listener
	o.Websocket, o.MQTT, o.LeafNode = server.WebsocketOpts{}, server.MQTTOpts{}, server.LeafNodeOpts{}
	asking.groups, asking.removed = new(DamagedGroups), new(atomic.Bool)
	srv, err := asking.start(m.log)
	if err != nil {
		return errors.Join(why, err)
	}
	stop := sync.OnceFunc(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	defer stop()
	m.log.Warn("waiting until the other nodes can spare damaged files", "error", errors.Join(why, m.groups.Err()))
	ctx, cancel := context.WithTimeout(ctx, spareLimit)
	defer cancel()
	for !m.spared(ctx, srv) {
		select {
		case <-time.After(spareEvery):
		case <-ctx.Done():
			return errors.Join(why, m.groups.Err())
		}
	}
	stop()
	return setAside(m.settings, o, MetaGroup, m.log)
}

// spared asks the other nodes whether they can.
func (m *mending) spared(ctx context.Context, srv *server.Server) bool {
	ctx, cancel := context.WithTimeout(ctx, spareEvery)
	defer cancel()
	meta, err := metaLeader(ctx, srv)
	if err != nil {
		m.log.Debug("asking the other nodes for their state failed", "error", err)
		return false
	}
	var all []Replica
	for _, p := range meta.Replicas {
		all = append(all, Replica{Name: p.Name, All: p.Current && !p.Offline && p.Lag == 0})
	}
	return Spared(&m.settings, meta.Leader, all)
}
