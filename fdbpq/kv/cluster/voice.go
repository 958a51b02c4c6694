package cluster

import (
	"context"
	"encoding/json"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
)

// announceEvery is the time within which a change is announced.
const announceEvery = 5 * time.Millisecond

// voice tells the others of this member.
type voice struct{ *member }

// speak broadcasts the state of this member until ctx ends.
func (v voice) speak(ctx context.Context) {
	ticker := time.NewTicker(v.options.beat())
	defer ticker.Stop()
	for {
		v.broadcast(peers.Heartbeat{})
		if pause(ctx, announceEvery) != nil {
			return
		}
		select {
		case <-v.hint:
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// broadcast sends the state of this member, with Poll or Gone if kind says so.
func (v voice) broadcast(kind peers.Heartbeat) {
	h := v.self.now().heartbeat(time.Now())
	h.Process, h.Silent = v.process.String(), v.peers.Silent()
	h.Member, h.Version, h.Poll, h.Gone = v.options.Name, v.options.Version, kind.Poll, kind.Gone
	if m := v.peers.Mark(h.Store); m.Entry > 0 {
		h.Mark = &m
	}
	if v.options.LogReplica != nil {
		claims := v.ledger.read()
		h.Claim, h.Knows = &claims.Own, claims.Others
	}
	message, err := json.Marshal(h)
	if err == nil {
		err = v.members.Broadcast(message)
	}
	if err != nil {
		v.slog.Debug("kv/cluster: sending a heartbeat failed", "err", err)
	}
}
