package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

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
	removed  atomic.Bool    // such a node from the servers that agree on streams
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
		e.secret, e.groups, e.removed = n.secret, &n.groups, &n.removed
	}
	return e, err
}

// Start starts the server.
func (n *Server) Start(ctx context.Context, started *process.Running) (err error) {
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
func (n *Server) WatchClients(ctx context.Context, metrics *prometheus.Registry, started *process.Running, own []func() (uint64, error)) {
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
	for {
		meta, err := metaLeader(ctx, n.srv)
		if err != nil {
			return &bridge.Refusal{Text: "nothing was done: " + err.Error()}
		}
		if err = removePeer(ctx, n.srv, meta, name); !errors.Is(err, errMembersChange) {
			return err
		}
		select {
		case <-time.After(removeAgain):
		case <-ctx.Done():
			return err
		}
	}
}

// removeAgain is the pause before a server is removed that could not be, since another change of the members was under way.
const removeAgain = 100 * time.Millisecond

// Removed reports whether this server was removed from those that agree on streams. It has no JetStream any more.
func (n *Server) Removed() bool { return n.removed.Load() }

// Voters are the servers that agree on streams, by the names that they have among themselves.
type Voters []string

// Has reports whether the server of a node is one of them.
func (v Voters) Has(name string) bool { return slices.Contains(v, peerOf(name)) }

// Voters are those that agree on streams if this server leads them, or none.
func (n *Server) Voters() (all Voters) {
	info, err := n.srv.Jsz(&server.JSzOptions{})
	if err != nil || info.Meta == nil || info.Meta.Leader != n.srv.Name() {
		return nil // the server stops, or another one leads
	}
	all = Voters{peerOf(n.srv.Name())}
	for _, p := range info.Meta.Replicas {
		all = append(all, p.Peer)
	}
	return all
}

// IsConnected reports whether the server has a connection to that of another node.
func (n *Server) IsConnected(name string) bool {
	all, err := n.srv.Routez(&server.RoutezOptions{})
	return err == nil && slices.ContainsFunc(all.Routes, func(r *server.RouteInfo) bool { return r.RemoteName == name })
}

// natsStartLimit bounds the start of the embedded server; JetStream, if its
// configuration asks for it, may have data to recover.
const natsStartLimit = 30 * time.Second

// natsReadLimit is how long the server may read its files before pqd logs it. The server cannot be stopped
// meanwhile, and damaged files may keep it reading for ever.
const natsReadLimit = 10 * time.Second

// lameDuckLimit is longer than any stop of pqd, so that pqd ends lame duck mode.
const lameDuckLimit = time.Hour

// serverOptions are the settings of a NATS server inside this process.
type serverOptions struct {
	Options *server.Options
	where   string // the setting with its address
	login   bool   // of all clients, from a variable
	secret  *otherSecret
	groups  *DamagedGroups
	removed *atomic.Bool
}

// readServerOptions merges the settings with the configuration file. If the file has only a host or only a port,
// nats-server's default holds for the other, not PQ_LISTEN.
func readServerOptions(s settings.Settings) (serverOptions, error) {
	e := serverOptions{Options: &server.Options{}, where: "PQ_LISTEN", login: s.OwnLogin()}
	if s.NATSConfig != "" {
		var err error
		if e.Options, err = server.ProcessConfigFile(string(s.NATSConfig)); err != nil {
			reason := strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")
			return e, settings.Usagef("PQ_NATS_CONFIG=%q: expected a nats-server configuration: %s", s.NATSConfig, reason)
		}
	}
	switch listens := e.Options.Host != "" || e.Options.Port != 0; {
	case listens && s.IsSet("PQ_LISTEN"):
		return e, settings.Usagef("PQ_LISTEN=%s and the file PQ_NATS_CONFIG=%q both say where to listen: expected one of them", s.Listen, s.NATSConfig)
	case listens:
		e.where = "the file PQ_NATS_CONFIG"
	default:
		e.Options.Host, e.Options.Port = s.Listen.Host, cmp.Or(s.Listen.Port, server.RANDOM_PORT)
	}
	if err := checkClusterFile(e.Options, s); err != nil {
		return e, err
	}
	if err := addOwnLogin(e.Options, s); err != nil {
		return e, err
	}
	if err := checkDoors(&s, e.Options, e.where); err != nil {
		return e, err
	}
	if e.Options.MaxPending == 0 {
		e.Options.MaxPending = bridgePending(debug.SetMemoryLimit(-1))
	}
	if len(s.Cluster) > 0 {
		if err := addCluster(e.Options, s); err != nil {
			return e, err
		}
	}
	keepAtSite(e.Options, string(s.Prefix))
	e.Options.NoSigs = true // signals are pqd's
	// Lame duck mode ends when pqd ends it.
	e.Options.LameDuckGracePeriod, e.Options.LameDuckDuration = lameDuckLimit, 2*lameDuckLimit
	return e, nil
}

// start runs the server and returns when it accepts connections.
func (e serverOptions) start(log *slog.Logger) (*server.Server, error) {
	srv, err := server.NewServer(e.Options)
	if err != nil {
		return nil, settings.Usagef("the embedded NATS server refuses its configuration: %w", err)
	}
	failed := make(chan string, 1)
	srv.SetLoggerV2(e.logger(log, failed), e.Options.Debug, e.Options.Trace, e.Options.TraceVerbose)
	ready := make(chan bool, 1)
	go func() {
		srv.Start()
		ready <- srv.ReadyForConnections(natsStartLimit)
	}()
	slow := time.NewTicker(natsReadLimit)
	defer slow.Stop()
	for {
		select {
		case ok := <-ready:
			if ok {
				return srv, nil
			}
			err = fmt.Errorf("the embedded NATS server was not ready after %s", natsStartLimit)
		case reason := <-failed:
			err = fmt.Errorf("the embedded NATS server: %s", reason)
			if strings.Contains(reason, "address already in use") {
				err = fmt.Errorf("%w. Perhaps another NATS server runs there: choose another address with %s, or connect to that server with NATS_URL", err, e.where)
			}
		case <-slow.C:
			log.Warn("the embedded NATS server still reads its files: if this does not end, they may be damaged", "directory", e.Options.StoreDir)
			continue
		}
		srv.Shutdown()
		return nil, err
	}
}

// reload applies these settings to a server that runs.
func (e serverOptions) reload(srv *server.Server, log *slog.Logger) error {
	debug, trace, verbose := e.Options.Debug, e.Options.Trace, e.Options.TraceVerbose
	if err := srv.ReloadOptions(e.Options); err != nil {
		return err
	}
	// The server replaces its logger when a reload changes the log's options.
	srv.SetLoggerV2(e.logger(log, make(chan string, 1)), debug, trace, verbose)
	return nil
}

// logger takes the log of a server with these options.
func (e serverOptions) logger(log *slog.Logger, fatal chan<- string) natsLog {
	return natsLog{log: log, fatal: fatal, login: e.login, secret: e.secret, groups: e.groups, removed: e.removed}
}

// natsLog passes the server's log on. Its Fatalf only reports: the server returns after it.
type natsLog struct {
	log    *slog.Logger
	fatal  chan<- string
	login  bool         // serverOptions.login
	secret *otherSecret // nil without PQ_CLUSTER, and so is groups
	groups *DamagedGroups

	removed *atomic.Bool // set when the server was removed from those that agree on streams
}

func (l natsLog) Fatalf(format string, args ...any) {
	select {
	case l.fatal <- fmt.Sprintf(format, args...):
	default: // only the first reason counts
	}
}

// ofClient matches the beginning of lines about a connection of a client, which names its host.
var ofClient = regexp.MustCompile(`^((\S+?)(?::\d+)? - (?:cid|wid|mid\w*|lid\w*):\d+) - `)

// Errorf logs mistakes of clients as warnings: they are no errors of pqd, and no reason to
// wake an operator.
func (l natsLog) Errorf(format string, args ...any) { l.say(slog.LevelError, format, args) }
func (l natsLog) Warnf(format string, args ...any)  { l.say(slog.LevelWarn, format, args) }

// toRoute is the beginning of lines about a node that is away. The server logs them every second; the store logs
// the consequence of the absence.
const toRoute = "Error trying to connect to route (attempt "

// wasRemoved is what the server logs when it was removed from those that agree on streams.
const wasRemoved = "JetStream being DISABLED, our server was removed from the cluster"

// plainPasswords is the server's warning about a file with passwords. A password from a variable is in no file.
const plainPasswords = "Plaintext passwords detected"

func (l natsLog) say(level slog.Level, format string, args []any) {
	text := fmt.Sprintf(format, args...)
	if l.groups != nil {
		l.groups.reads(text)
		if text == wasRemoved {
			l.removed.Store(true)
			level = slog.LevelDebug // pqd says it, and what to do
		}
	}
	if l.secret != nil && l.secret.reads(text) || strings.HasPrefix(text, toRoute) || l.login && strings.HasPrefix(text, plainPasswords) {
		level = slog.LevelDebug
	}
	if client := ofClient.FindStringSubmatch(text); client != nil {
		l.log.Warn("error of a NATS client", "host", strings.Trim(client[2], "[]"), "client", client[1], "error", text[len(client[0]):])
		return
	}
	l.log.Log(context.Background(), level, text)
}

func (l natsLog) Noticef(format string, args ...any) { l.log.Debug(fmt.Sprintf(format, args...)) }
func (l natsLog) Debugf(format string, args ...any)  { l.log.Debug(fmt.Sprintf(format, args...)) }
func (l natsLog) Tracef(format string, args ...any)  { l.log.Debug(fmt.Sprintf(format, args...)) }

// enterLameDuck makes the server refuse new connections and announce its stop to its
// clients. pqd's own connection closes announced when it gets the announcement.
func enterLameDuck(ctx context.Context, srv *server.Server, announced <-chan struct{}) {
	go srv.LameDuckShutdown() // returns when the server is shut down
	select {
	case <-announced:
	case <-ctx.Done():
	}
}

// readPause is the time between looks at the bytes that clients have not read.
const readPause = 10 * time.Millisecond

// awaitRead waits until the server's buffers for clients are empty. When ctx ends first, it
// returns the number of clients whose buffers are not.
func awaitRead(ctx context.Context, srv *server.Server) (behind int, err error) {
	pause := time.NewTicker(readPause)
	defer pause.Stop()
	for {
		if behind, err = unread(srv); behind == 0 || err != nil {
			return behind, err
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return behind, nil
		}
	}
}

// unread counts the connections whose buffers in the server are not empty, those to other servers included.
func unread(srv *server.Server) (n int, err error) {
	clients, err := srv.Connz(&server.ConnzOptions{Limit: math.MaxInt32})
	if err != nil {
		return 0, err
	}
	for _, c := range clients.Conns {
		if c.Pending > 0 {
			n++
		}
	}
	routes, err := srv.Routez(nil)
	if err != nil {
		return n, err
	}
	for _, r := range routes.Routes {
		if r.Pending > 0 {
			n++
		}
	}
	return n, nil
}
