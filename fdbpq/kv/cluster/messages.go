package cluster

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
)

// announceEvery is the time within which a change is announced.
const announceEvery = 5 * time.Millisecond

// announce makes a heartbeat leave soon, because the state has changed.
func (d *DB) announce() { signal(d.hint) }

// signal puts a token into a channel that has room for one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// sendHeartbeats broadcasts the state of this member until ctx ends.
func (d *DB) sendHeartbeats(ctx context.Context) {
	ticker := time.NewTicker(d.options.beat())
	defer ticker.Stop()
	for {
		d.broadcast(peers.Heartbeat{})
		if pause(ctx, announceEvery) != nil {
			return
		}
		select {
		case <-d.hint:
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// broadcast sends the state of this member, with Poll or Gone if kind says so.
func (d *DB) broadcast(kind peers.Heartbeat) {
	h := d.status.heartbeat()
	h.Process, h.Silent = d.process.String(), d.peers.Silent()
	h.Member, h.Version, h.Poll, h.Gone = d.options.Name, d.options.Version, kind.Poll, kind.Gone
	if m := d.peers.Mark(h.Store); m.Entry > 0 {
		h.Mark = &m
	}
	if d.options.LogReplica != nil {
		claims := d.ledger.read()
		h.Claim, h.Knows = &claims.Own, claims.Others
	}
	message, err := json.Marshal(h)
	if err == nil {
		err = d.members.Broadcast(message)
	}
	if err != nil {
		d.slog.Debug("kv/cluster: sending a heartbeat failed", "err", err)
	}
}

// heartbeat returns the state of this member.
func (s *status) heartbeat() peers.Heartbeat {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := peers.Heartbeat{
		Store: hex.EncodeToString(s.head.Store[:]), Generation: s.head.Generation,
		Role: s.role, Epoch: s.head.Epoch, Entry: s.head.Entry, Hash: hex.EncodeToString(s.head.Hash[:]),
		Read: s.read, Synced: s.synced, Format: chain.RecordFormat, Final: s.final, DiskFull: s.full.own,
	}
	if s.role == peers.Stopped {
		h.Objection, h.Misread = s.reason, s.misread
	}
	if !s.pending.IsZero() {
		h.Pending = time.Since(s.pending)
	}
	if !s.written.IsZero() {
		silence := time.Since(s.written)
		h.Silence = &silence
	}
	return h
}

// hear takes a heartbeat of another member.
func (d *DB) hear(message []byte) {
	h, ok := d.peers.Hear(message)
	if h.Member == d.options.Name && h.Process != "" && h.Process != d.process.String() {
		d.warnOfTwin.Do(func() {
			d.slog.Error("kv/cluster: another process has the name of this member: expected a unique name for each", "name", h.Member)
		})
	}
	if !ok {
		return
	}
	if h.Poll {
		d.broadcast(peers.Heartbeat{})
	}
	alive := h.ShowsLife(d.status.position())
	if alive {
		d.status.alive()
	}
	claimKeeper{d}.heard(h, alive)
	if h.Entry > d.status.entry() {
		signal(d.wake)
	}
}
