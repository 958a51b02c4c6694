package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	streams "github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/broker"
)

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

// mendStream notes that the others can spare the damaged group of a stream, and reports whether they can. The group
// is set aside when the server has stopped.
func (m *member) mendStream(ctx context.Context) bool {
	group := m.embedded.groups.First()
	if group == "" || group == broker.MetaGroup {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, openLogLimit)
	defer cancel()
	api, err := streams.New(m.storeLog.nc)
	if err != nil {
		return false
	}
	for name := range api.StreamNames(ctx).Name() {
		info, err := m.storeLog.stream(ctx, name) // its leader answers
		if err != nil || info.Cluster == nil || info.Cluster.RaftGroup != group {
			continue
		}
		var all []broker.Replica
		for _, p := range info.Cluster.Replicas {
			all = append(all, broker.Replica{Name: p.Name, All: p.Current && !p.Offline && p.Lag == 0})
		}
		if broker.Spared(&m.settings, info.Cluster.Leader, all) {
			m.embedded.groups.CanSpare(group)
			return true
		}
	}
	return false
}
