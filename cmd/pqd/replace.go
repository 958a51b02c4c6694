package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/broker"
	"github.com/pqbridge/pqbridge/internal/jetstream"
	"github.com/pqbridge/pqbridge/protocol"
)

// The NATS servers of the nodes remember each other by their names, and the log has its replicas on some of them. A
// server with a new name counts as an additional server, without a replica, until it takes the place of another.

// metaLeader returns the nodes that replicate the list of streams, as their leader sees them.
func metaLeader(ctx context.Context, srv *server.Server) (*server.MetaClusterInfo, error) {
	var answer struct {
		Data struct {
			Meta *server.MetaClusterInfo `json:"meta_cluster"`
		} `json:"data"`
	}
	err := broker.AskSystem(ctx, srv, "$SYS.REQ.SERVER.PING.JSZ", server.JSzOptions{LeaderOnly: true}, &answer)
	if err == nil && answer.Data.Meta == nil {
		err = errors.New("the NATS servers of the nodes have no leader")
	}
	return answer.Data.Meta, err
}

// replace puts a node in the place of a node that is lost for good: where the servers agree on streams, and as a
// replica of the log. It returns when the log has a replica there, which may still have to catch up.
func (m *member) replace(ctx context.Context, old, by string) (done protocol.Replaced, err error) {
	if m.embedded == nil {
		return done, &bridge.Refusal{Malformed: true, Text: "the log is in NATS servers outside: replace one of them with their own tools, such as nats server cluster peer-remove"}
	}
	if err := m.replaceable(old, by); err != nil {
		return done, err
	}
	srv := m.embedded.srv
	meta, err := metaLeader(ctx, srv)
	if err != nil {
		return done, &bridge.Refusal{Text: "nothing was done: " + err.Error()}
	}
	if err := removePeer(ctx, srv, meta, old); err != nil {
		return done, err
	}
	m.log.Warn("a node takes the place of another one", "old", old, "new", by)
	for look := time.NewTicker(readyEvery); ; {
		replicas, err := m.replicas(ctx)
		if err == nil && slices.Contains(replicas, by) && !slices.Contains(replicas, old) {
			look.Stop()
			return protocol.Replaced{Old: old, New: by, Replicas: replicas}, nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return done, fmt.Errorf("node %s is no member any more, and the log has no replica on %s yet: it has them on %s", old, by, strings.Join(replicas, ", "))
		}
	}
}

// replaceable refuses to replace a node that runs, and to replace a node by one that does not run.
func (m *member) replaceable(old, by string) error {
	runs := map[string]bool{m.name: true}
	for _, o := range m.db.Status().Members {
		runs[o.Name] = o.Runs
	}
	switch {
	case old == "" || by == "" || old == by:
		return &bridge.Refusal{Malformed: true, Text: fmt.Sprintf("found old %.80q and new %.80q: expected the names of two nodes", old, by)}
	case runs[old]:
		return &bridge.Refusal{Malformed: true, Text: fmt.Sprintf("node %s runs: expected one that is lost; stop it first, and it is known to be lost after 10 seconds", old)}
	case !runs[by]:
		return &bridge.Refusal{Malformed: true, Text: fmt.Sprintf("node %.80q does not run, or has another name: expected one that the status names", by)}
	}
	return nil
}

// removePeer removes a server for good. If the server is no peer, there is nothing to do.
func removePeer(ctx context.Context, srv *server.Server, meta *server.MetaClusterInfo, name string) error {
	peer := peerOf(name)
	if !slices.ContainsFunc(meta.Replicas, func(p *server.PeerInfo) bool { return p.Peer == peer }) {
		return nil
	}
	var answer server.JSApiMetaServerRemoveResponse
	if err := broker.AskSystem(ctx, srv, server.JSApiRemoveServer, server.JSApiMetaServerRemoveRequest{Peer: peer}, &answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return &bridge.Refusal{Text: "nothing was done: " + answer.Error.Description}
	}
	return nil
}

// peerOf is the name by which the servers know a server among themselves. A leader that has started since it heard
// the server last knows only this name.
func peerOf(name string) string {
	const digits, size = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", 8
	id := sha256.Sum256([]byte(name))
	for i, b := range id {
		id[i] = digits[int(b)%len(digits)]
	}
	return string(id[:size])
}

// replicas are the nodes that have a replica of the log.
func (m *member) replicas(ctx context.Context) ([]string, error) {
	info, err := m.storeLog.stream(ctx, jetstream.Stream(m.settings.Store.Place, m.db.Status().Generation))
	if err != nil || info.Cluster == nil {
		return nil, err
	}
	all := []string{info.Cluster.Leader}
	for _, r := range info.Cluster.Replicas {
		all = append(all, r.Name)
	}
	slices.Sort(all)
	return all, nil
}
