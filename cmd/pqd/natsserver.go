package main

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/broker"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/election"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/link"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/process"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/internal/interest"
)

// natsServer is the embedded NATS server. There is none, and it is nil, when NATS_URL is set.
type natsServer struct {
	settings settings.Settings
	log      *slog.Logger
	options  broker.EmbeddedServer // that it starts with
	srv      *server.Server        // nil before the start
	pipe     *broker.PipeDialer    // of the bridge
	interest interest.Func         // nil: the server cannot tell whether a subject has a subscriber
	secret   *broker.OtherSecret   // of a node of PQ_CLUSTER
	groups   broker.DamagedGroups  // of such a node
	lameDuck chan struct{}         // closed when the server has announced that it stops
	announce sync.Once             // of lameDuck
}

// newNATSServer checks the server's settings, and starts nothing.
func newNATSServer(s settings.Settings, log *slog.Logger) (*natsServer, error) {
	n := &natsServer{settings: s, log: log, lameDuck: make(chan struct{})}
	if len(s.Cluster) > 0 {
		n.secret = &broker.OtherSecret{Log: log}
	}
	var err error
	n.options, err = n.read()
	return n, err
}

// read reads the server's settings. Lines of a node's log go to secret and groups.
func (n *natsServer) read() (broker.EmbeddedServer, error) {
	e, err := broker.EmbeddedSettings(n.settings)
	if n.secret != nil {
		e.Secret, e.Groups = n.secret, &n.groups
	}
	return e, err
}

// start starts the server.
func (n *natsServer) start(ctx context.Context, started *process.Parts) (err error) {
	if n.secret != nil {
		if err := election.Prepare(); err != nil {
			n.log.Warn("a lost leader of the log is replaced later than it could be", "error", err)
		}
	}
	if n.srv, err = n.startMended(ctx); err != nil {
		return err
	}
	n.pipe = broker.NewBridgePipeDialer(n.srv)
	started.Add("stop the embedded NATS server", func() error {
		n.srv.Shutdown()
		n.srv.WaitForShutdown()
		return n.groups.SetAside(n.settings, n.options.Options, n.log)
	})
	n.interest, err = interest.Of(n.srv)
	return err
}

// reload makes the server read its configuration file again: users, permissions, certificates, limits. A wrong file
// changes nothing, and neither does a file with a change that a running server cannot make.
func (n *natsServer) reload() {
	file := string(n.settings.NATSConfig)
	changed, err := n.read()
	if err == nil {
		err = changed.Reload(n.srv, n.log)
	}
	if err != nil {
		n.log.Error("reloading the configuration of the embedded NATS server failed: the old one still holds", "file", file, "error", err)
		return
	}
	n.log.Info("reloaded the configuration of the embedded NATS server", "file", file)
}

// inProcess are the options that connect the bridge to the server. There are none without it.
func (n *natsServer) inProcess() []nats.Option {
	if n == nil {
		return nil
	}
	return []nats.Option{
		nats.InProcessServer(n.pipe),
		// No other client connects at the same time, and there is no network to fail.
		nats.ReconnectWait(broker.PipeReconnectWait),
		nats.ReconnectJitter(0, 0),
		nats.ReconnectHandler(func(*nats.Conn) { n.log.Info("reconnected to NATS", "server", "embedded") }),
		// The server may announce it again, and to another connection.
		nats.LameDuckModeHandler(func(*nats.Conn) { n.announce.Do(func() { close(n.lameDuck) }) }),
	}
}

// watchClients closes clients of the server that do not read, but none of pqd's own connections. The connections to
// the log and of the console may be missing.
func (n *natsServer) watchClients(
	ctx context.Context, metrics *prometheus.Registry, started *process.Parts, bridge *link.Link, log *storeLog, console *link.Link,
) {
	own := []func() (uint64, error){func() (uint64, error) { return bridge.Conn().GetClientID() }}
	if log.nc != nil {
		own = append(own, log.nc.GetClientID)
	}
	if console != nil {
		own = append(own, func() (uint64, error) { return console.Conn().GetClientID() })
	}
	slow := broker.NewSlowClients(n.srv, own, broker.UnreadBudget(debug.SetMemoryLimit(-1)), n.log)
	metrics.MustRegister(slow.Closed)
	// Clients read their last answers while pqd stops.
	started.InBackground(context.WithoutCancel(ctx), slow.Watch)
}

// backlog gets values while the server holds too much for the bridge. It is nil without a
// server.
func (n *natsServer) backlog() <-chan struct{} {
	if n == nil {
		return nil
	}
	return n.pipe.Backlog
}

// listens reports whether a subject has a subscriber. It is nil without a server.
func (n *natsServer) listens() interest.Func {
	if n == nil {
		return nil
	}
	return n.interest
}

// floods says which messages the bridge's connection leaves out. It is nil without a server.
func (n *natsServer) floods() *bridge.Floods {
	if n == nil {
		return nil
	}
	return n.pipe.Floods
}

// startMended starts the server, and mends damage that keeps a node's server from starting.
func (n *natsServer) startMended(ctx context.Context) (*server.Server, error) {
	srv, err := n.options.Start(n.log)
	if err == nil || n.groups.First() != broker.MetaGroup {
		return srv, err
	}
	if err := n.mendMeta(ctx, err); err != nil {
		return nil, err
	}
	again, err := n.read()
	if err != nil {
		return nil, err
	}
	n.groups.Forget()
	return again.Start(n.log)
}

const (
	// spareLimit bounds the wait for the other nodes; a service manager starts pqd again.
	spareLimit = time.Minute
	spareEvery = time.Second
)

// mendMeta sets aside the group without which the server does not start, as soon as the other nodes can spare it.
// Until then it asks them through a server that stores nothing and takes no clients.
func (n *natsServer) mendMeta(ctx context.Context, why error) error {
	asking, err := n.read()
	if err != nil {
		return err
	}
	o := asking.Options
	o.JetStream = false
	o.Host, o.Port, o.NoAuthUser = "127.0.0.1", server.RANDOM_PORT, "" // routes need a listener
	o.Websocket, o.MQTT, o.LeafNode = server.WebsocketOpts{}, server.MQTTOpts{}, server.LeafNodeOpts{}
	asking.Groups = new(broker.DamagedGroups)
	srv, err := asking.Start(n.log)
	if err != nil {
		return errors.Join(why, err)
	}
	stop := sync.OnceFunc(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	defer stop()
	n.log.Warn("waiting until the other nodes can spare damaged files", "error", errors.Join(why, n.groups.Err()))
	ctx, cancel := context.WithTimeout(ctx, spareLimit)
	defer cancel()
	for !n.metaSpared(ctx, srv) {
		select {
		case <-time.After(spareEvery):
		case <-ctx.Done():
			return errors.Join(why, n.groups.Err())
		}
	}
	stop()
	return broker.SetAside(n.settings, o, broker.MetaGroup, n.log)
}

func (n *natsServer) metaSpared(ctx context.Context, srv *server.Server) bool {
	ctx, cancel := context.WithTimeout(ctx, spareEvery)
	defer cancel()
	meta, err := metaLeader(ctx, srv)
	if err != nil {
		n.log.Debug("asking the other nodes for their state failed", "error", err)
		return false
	}
	var all []broker.Replica
	for _, p := range meta.Replicas {
		all = append(all, broker.Replica{Name: p.Name, All: p.Current && !p.Offline && p.Lag == 0})
	}
	return broker.Spared(&n.settings, meta.Leader, all)
}
