package cluster

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
)

const (
	// announceEvery is the time within which a change is announced.
	announceEvery = 5 * time.Millisecond

	// pendingFor is how long an append of the active member may take. After that its heartbeats show no life: it
	// runs, but cannot reach the log.
	pendingFor = 3 * time.Second

	// livingFor is how long a member counts as living after it was heard.
	livingFor = 10 * time.Second
)

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
		d.broadcast(heartbeat{})
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
func (d *DB) broadcast(kind heartbeat) {
	h := d.status.heartbeat()
	h.Process, h.Silent = d.process.String(), d.peers.silent()
	h.Member, h.Version, h.Poll, h.Gone = d.options.Name, d.options.Version, kind.Poll, kind.Gone
	if m := d.peers.mark(h.Store); m.Entry > 0 {
		h.Mark = &m
	}
	if d.options.LogReplica != nil {
		own, others := d.claims.disk()
		h.Claim, h.Knows = &own, others
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
func (s *status) heartbeat() heartbeat {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := heartbeat{
		Store: hex.EncodeToString(s.head.Store[:]), Generation: s.head.Generation,
		Role: s.role, Epoch: s.head.Epoch, Entry: s.head.Entry, Hash: hex.EncodeToString(s.head.Hash[:]),
		Read: s.read, Synced: s.synced, Format: chain.RecordFormat, Final: s.final, DiskFull: s.full.own,
	}
	if s.role == Stopped {
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
	h, ok := d.peers.hear(message)
	if h.Member == d.options.Name && h.Process != "" && h.Process != d.process.String() {
		d.warnOfTwin.Do(func() {
			d.slog.Error("kv/cluster: another process has the name of this member: expected a unique name for each", "name", h.Member)
		})
	}
	if !ok {
		return
	}
	if h.Poll {
		d.broadcast(heartbeat{})
	}
	alive := d.showsLife(h)
	if alive {
		d.status.alive()
	}
	claimKeeper{d}.heard(h, alive)
	if h.Entry > d.status.entry() {
		signal(d.wake)
	}
}

// showsLife reports whether a heartbeat comes from an active member that reaches the log.
func (d *DB) showsLife(h heartbeat) bool {
	d.status.mu.Lock()
	defer d.status.mu.Unlock()
	return h.Role == Active && !h.Gone && h.Generation >= d.status.head.Generation && h.Epoch >= d.status.head.Epoch && h.Pending < pendingFor
}
