package broker

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/egress"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/election"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/process"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/internal/interest"
)

// Server is the embedded NATS server. There is none, and it is nil, when NATS_URL is set.
type Server struct {
	settings settings.Settings
	log      *slog.Logger
	options  serverOptions  // that it starts with
	srv      *server.Server // nil before the start
	pipe     *pipeDialer    // of the bridge
	interest interest.Func  // nil: the server cannot tell whether a subject has a subscriber
	secret   *otherSecret   // of a node of PQ_CLUSTER
	groups   DamagedGroups  // of such a node
	lameDuck chan struct{}  // closed when the server has announced that it stops
	announce sync.Once      // of lameDuck
}

// NewServer checks the server's settings, and starts nothing.
func NewServer(s settings.Settings, log *slog.Logger) (*Server, error) {
	n := &Server{settings: s, log: log, lameDuck: make(chan struct{})}
	if len(s.Cluster) > 0 {
		n.secret = &otherSecret{log: log}
	}
	var err error
	n.options, err = n.read()
	return n, err
}

// read reads the server's settings. Lines of a node's log go to secret and groups.
func (n *Server) read() (serverOptions, error) {
	e, err := readServerOptions(n.settings)
	if n.secret != nil {
		e.secret, e.groups = n.secret, &n.groups
	}
	return e, err
}

// Start starts the server.
func (n *Server) Start(ctx context.Context, started *process.Parts) (err error) {
	if n.secret != nil {
		if err := election.Prepare(); err != nil {
			n.log.Warn("a lost leader of the log is replaced later than it could be", "error", err)
		}
	}
	m := mending{settings: n.settings, log: n.log, groups: &n.groups, read: n.read}
	if n.srv, err = m.start(ctx, n.options); err != nil {
		return err
	}
	n.pipe = newBridgePipeDialer(n.srv)
	started.Add("stop the embedded NATS server", func() error {
		n.srv.Shutdown()
		n.srv.WaitForShutdown()
		return n.groups.setAside(n.settings, n.options.Options, n.log)
	})
	n.interest, err = interest.Of(n.srv)
	return err
}

// Reload makes the server read its configuration file again: users, permissions, certificates, limits. A wrong file
// changes nothing, and neither does a file with a change that a running server cannot make.
func (n *Server) Reload() {
	file := string(n.settings.NATSConfig)
	changed, err := n.read()
	if err == nil && len(n.settings.Cluster) > 0 {
		changed.Options.Cluster.PoolSize = n.options.Options.Cluster.PoolSize // with another one the server would close its routes
	}
	if err == nil {
		err = changed.reload(n.srv, n.log)
	}
	if err != nil {
		n.log.Error("reloading the configuration of the embedded NATS server failed: the old one still holds", "file", file, "error", err)
		return
	}
	n.log.Info("reloaded the configuration of the embedded NATS server", "file", file)
}

// InProcess are the options that connect the bridge to the server. There are none without it.
func (n *Server) InProcess() []nats.Option {
	if n == nil {
		return nil
	}
	return []nats.Option{
		nats.InProcessServer(n.pipe),
		// No other client connects at the same time, and there is no network to fail.
		nats.ReconnectWait(pipeReconnectWait),
		nats.ReconnectJitter(0, 0),
		nats.ReconnectHandler(func(*nats.Conn) { n.log.Info("reconnected to NATS", "server", "embedded") }),
		// The server may announce it again, and to another connection.
		nats.LameDuckModeHandler(func(*nats.Conn) { n.announce.Do(func() { close(n.lameDuck) }) }),
	}
}

// WatchClients closes clients of the server that do not read, but none of pqd's own connections, whose ids own tells.
func (n *Server) WatchClients(ctx context.Context, metrics *prometheus.Registry, started *process.Parts, own []func() (uint64, error)) {
	slow := newSlowClients(n.srv, own, unreadBudget(debug.SetMemoryLimit(-1)), n.log)
	metrics.MustRegister(slow.closed)
	// Clients read their last answers while pqd stops.
	started.InBackground(context.WithoutCancel(ctx), slow.Watch)
}

// Backlog gets values while the server holds too much for the bridge. It is nil without a
// server.
func (n *Server) Backlog() <-chan struct{} {
	if n == nil {
		return nil
	}
	return n.pipe.backlog
}

// Listens reports whether a subject has a subscriber. It is nil without a server.
func (n *Server) Listens() interest.Func {
	if n == nil {
		return nil
	}
	return n.interest
}

// Floods says which messages the bridge's connection leaves out. It is nil without a server.
func (n *Server) Floods() *bridge.Floods {
	if n == nil {
		return nil
	}
	return n.pipe.floods
}

// URL is the address for clients.
func (n *Server) URL() string { return n.srv.ClientURL() }

// Connected is the option that connects another part of pqd to the server.
func (n *Server) Connected() nats.Option { return nats.InProcessServer(newPipeDialer(n.srv)) }

// EnterLameDuck tells clients to go to other servers. It returns when they know, or when ctx ends.
func (n *Server) EnterLameDuck(ctx context.Context) { enterLameDuck(ctx, n.srv, n.lameDuck) }

// AwaitRead waits until clients have read what the server has for them, or until ctx ends: then it says how many are
// behind.
func (n *Server) AwaitRead(ctx context.Context) (behind int, err error) { return awaitRead(ctx, n.srv) }

// CloseClients closes the connections of all clients from outside this process.
func (n *Server) CloseClients() error { return closeClients(n.srv) }

// ToLog are the options that connect a node to its log, as a user that only this process can be.
func (n *Server) ToLog() ([]nats.Option, error) {
	who, err := newIdentities()
	if err != nil {
		return nil, err
	}
	own, err := loginAs(who.log)
	return []nats.Option{own, n.Connected()}, err
}

// Replica is the server's part of the log, to which log is connected.
func (n *Server) Replica(log *nats.Conn) LogReplica { return LogReplica{Server: n.srv, Log: log} }

// Routes are the server's routes to other nodes, whose addresses peers has by their names. refused is called with a node that
// has ended.
func (n *Server) Routes(peers map[string]string, refused func(name string)) *Routes {
	return &Routes{Server: n.srv, Peers: peers, Refused: refused}
}

// Sheds reports whether the bridge refuses large messages unread.
func (n *Server) Sheds() bool { return n.pipe.sheds() }

// Egress is the filter on the server's routes. client is the id of the bridge's connection, and sheds whether the bridge of the
// active node refuses large messages unread, as far as this node knows.
func (n *Server) Egress(client func() (uint64, error), sheds func() bool) (*egress.Filter, error) {
	grammar, err := n.settings.Grammar()
	if err != nil {
		return nil, err
	}
	return newEgress(n.srv, grammar, client, sheds, n.log)
}

// Elector replaces a leader of the log that is lost.
func (n *Server) Elector(lost func() (names []string, rank int, ok bool)) *election.Elector {
	return &election.Elector{Server: n.srv, Account: logAccount, Log: n.log, Lost: lost}
}

// Groups are the damaged groups of a node's server.
func (n *Server) Groups() *DamagedGroups { return &n.groups }

// Refusing says why the other nodes refuse this one, or nil.
func (n *Server) Refusing() error { return n.secret.refusing() }

// RemovePeer removes the server of another node for good from those that agree on streams. If it is none of them, there is
// nothing to do.
func (n *Server) RemovePeer(ctx context.Context, name string) error {
	meta, err := metaLeader(ctx, n.srv)
	if err != nil {
		return &bridge.Refusal{Text: "nothing was done: " + err.Error()}
	}
	return removePeer(ctx, n.srv, meta, name)
}
