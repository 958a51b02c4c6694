package broker

import (
	"cmp"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
)

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
	srv.SetLoggerV2(natsLog{log: log, fatal: failed, login: e.login, secret: e.secret, groups: e.groups}, e.Options.Debug, e.Options.Trace, e.Options.TraceVerbose)
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
	srv.SetLoggerV2(natsLog{log: log, fatal: make(chan string, 1), login: e.login, secret: e.secret, groups: e.groups}, debug, trace, verbose)
	return nil
}
