package cluster

import (
	"context"
	"encoding/json"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
)

// announceEvery is the time within which a change is announced.
const announceEvery = 5 * time.Millisecond

// announcer tells the others of this member.
type announcer struct{ *member }

// run broadcasts the state of this member until ctx ends.
func (a announcer) run(ctx context.Context) {
	ticker := time.NewTicker(a.options.beat())
	defer ticker.Stop()
	for {
		a.broadcast(peers.Heartbeat{})
		if pause(ctx, announceEvery) != nil {
			return
		}
		select {
		case <-a.hint:
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// broadcast sends the state of this member, with Poll or Gone if kind says so.
func (a announcer) broadcast(kind peers.Heartbeat) {
	h := a.self.now().heartbeat(time.Now())
	h.Process, h.Silent = a.process.String(), a.peers.Silent()
	h.Member, h.Version, h.Poll, h.Gone = a.options.Name, a.options.Version, kind.Poll, kind.Gone
	h.Sheds = h.Role == peers.Active && a.options.Sheds != nil && a.options.Sheds()
	if m := a.peers.Mark(h.Store); m.Entry > 0 {
		h.Mark = &m
	}
	if a.options.LogReplica != nil {
		claims := a.ledger.read()
		h.Claim, h.Knows = &claims.Own, claims.Others
	}
	message, err := json.Marshal(h)
	if err == nil {
		err = a.members.Broadcast(message)
	}
	if err != nil {
		a.slog.Debug("kv/cluster: sending a heartbeat failed", "err", err)
	}
}
