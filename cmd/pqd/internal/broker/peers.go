package broker

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/pqbridge/pqbridge/bridge"
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
	err := askSystem(ctx, srv, "$SYS.REQ.SERVER.PING.JSZ", server.JSzOptions{LeaderOnly: true}, &answer)
	if err == nil && answer.Data.Meta == nil {
		err = errors.New("the NATS servers of the nodes have no leader")
	}
	return answer.Data.Meta, err
}

// removePeer removes a server for good. If the server is no peer, there is nothing to do.
func removePeer(ctx context.Context, srv *server.Server, meta *server.MetaClusterInfo, name string) error {
	peer := peerOf(name)
	if !slices.ContainsFunc(meta.Replicas, func(p *server.PeerInfo) bool { return p.Peer == peer }) {
		return nil
	}
	var answer server.JSApiMetaServerRemoveResponse
	if err := askSystem(ctx, srv, server.JSApiRemoveServer, server.JSApiMetaServerRemoveRequest{Peer: peer}, &answer); err != nil {
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
