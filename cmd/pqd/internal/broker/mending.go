package broker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
)

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
	asking.groups = new(DamagedGroups)
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
