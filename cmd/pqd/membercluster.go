package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/broker"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/election"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/room"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
	"github.com/pqbridge/pqbridge/protocol"
)

// cluster is this pqd's view of all nodes of the store.
func (m *member) cluster() protocol.Cluster {
	s := m.db.Status()
	epoch := s.Epoch
	for _, o := range s.Members {
		epoch = max(epoch, o.Epoch)
	}
	all := []protocol.Member{{
		Node: m.name, Role: protocol.Role(s.Role), Version: version(),
		Epoch: s.Epoch, Entry: s.Entry, Synced: s.Synced, Lag: s.Lag(s.Entry), Reason: s.Reason,
	}}
	for _, o := range s.Members {
		role := protocol.Role(o.Role)
		if !o.Runs || role == protocol.RoleActive && o.Epoch < epoch { // a later one is active now
			role = protocol.RoleSilent
		}
		all = append(all, protocol.Member{
			Node: o.Name, Role: role, Version: o.Version,
			Epoch: o.Epoch, Entry: o.Entry, Synced: o.Synced, Lag: s.Lag(o.Entry), Reason: o.Reason,
			Heard: time.Since(o.Heard).Seconds(),
		})
	}
	return protocol.Cluster{
		Node: m.name, Store: m.settings.Store.String(), Members: all,
		Log: protocol.ClusterLog{First: s.Log.First, Last: s.Log.Last, Bytes: s.Log.Bytes, MaxBytes: s.Log.MaxBytes},
	}
}

// routes tell the store which nodes have ended.
func (m *member) routes() *broker.Routes {
	peers := make(map[string]string)
	for _, n := range m.settings.Cluster {
		if n.Name() != m.name {
			peers[n.Name()] = n.Address()
		}
	}
	return m.embedded.Routes(peers, m.db.Refuses)
}

// elector replaces a leader of the log that is lost.
func (m *member) elector() *election.Elector {
	return m.embedded.Elector(m.db.Lost)
}

// handover is a request to step down.
type handover struct {
	to   string // the member that takes over
	done chan error
}

// stepDown hands the store over to another member while this one is active: it answers
// the requests in flight, and names its successor in the log.
func (m *member) stepDown(ctx context.Context, to string) (done protocol.SteppedDown, err error) {
	to, err = m.successor(to)
	if err != nil {
		return done, err
	}
	epoch := m.db.Status().Epoch
	asked := &handover{to: to, done: make(chan error, 1)}
	select {
	case m.asked <- asked:
	case <-ctx.Done():
		return done, &bridge.Refusal{Text: "this pqd starts or stops to serve just now, nothing was done: try again"}
	}
	select {
	case err = <-asked.done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if errors.Is(err, cluster.ErrNotActive) {
		return done, errors.New("another pqd has taken over meanwhile")
	}
	return protocol.SteppedDown{Node: m.name, Successor: to, Epoch: epoch}, err
}

// takeoverLimit bounds the wait for a successor to serve.
const takeoverLimit = 2 * time.Second

// handOver answers the requests under way, releases the term, and returns when the successor serves: until then the
// bridge stays subscribed, so that no request is lost on its way. If ctx has ended, this process is about to end.
func (m *member) handOver(ctx, drain context.Context, term *cluster.Term, b *bridge.Bridge, asked *handover) {
	log := m.log
	serves, forget, err := m.front.Load().Successor(term.Epoch())
	if err != nil {
		log.Warn("requests in flight may get no answer", "error", err)
	} else {
		defer forget()
	}
	if err := b.Leave(drain); err != nil {
		log.Warn("requests were left without an answer", "error", err)
	}
	to := ""
	if asked != nil {
		to = asked.to
	}
	if ctx.Err() != nil {
		m.moveLog(drain)
	}
	_, alone := m.db.Successor(to)
	err = m.db.Release(drain, to)
	if asked != nil {
		asked.done <- err
	}
	switch {
	case errors.Is(err, cluster.ErrNotActive): // another one has taken over
	case err != nil:
		log.Warn("stepping down failed: a takeover waits for silence", "error", err)
		return
	case alone != nil:
		return
	}
	limit, cancel := context.WithTimeout(drain, takeoverLimit)
	defer cancel()
	select {
	case <-serves:
	case <-limit.Done():
		log.Warn("no other pqd serves yet: requests in flight may get no answer")
	}
}

// moveLog moves the leadership of the log to another server, if the embedded one leads, while no append is under
// way: an append to a leader that steps down gets no answer.
func (m *member) moveLog(ctx context.Context) {
	if m.embedded == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, releaseLimit)
	defer cancel()
	if err := m.storeLog.replica().MoveLeader(ctx, m.db.Keepers()); err != nil {
		m.log.Warn("the log has no new leader yet: the other nodes wait for one", "error", err)
	}
}

// successor returns the member that takes over, or the reason why there is none.
func (m *member) successor(to string) (string, error) {
	found, err := m.db.Successor(to)
	switch {
	case err == nil:
		return found, nil
	case to == m.name:
		return "", &bridge.Refusal{Malformed: true, Text: fmt.Sprintf("node %q is active already: expected another one", to)}
	case to == "":
		return "", &bridge.Refusal{Text: "no other pqd can take over, nothing was done: start one, and try again when it follows"}
	}
	for _, o := range m.db.Status().Members {
		if o.Name == to {
			return "", &bridge.Refusal{Text: fmt.Sprintf("node %s cannot take over now, nothing was done: it was heard %s ago as a %s", to, time.Since(o.Heard).Round(time.Millisecond), o.Role)}
		}
	}
	return "", &bridge.Refusal{Malformed: true, Text: fmt.Sprintf("node %.80q is not known: expected one that the status names", to)}
}

// reserve says why only requests that make room are served, or nil. It asks the disk only when that is known to be nearly
// full: one that hangs must not keep requests waiting.
func (m *member) reserve() error {
	if m.db.DiskFull() == nil {
		return nil
	}
	return room.Exhausted(m.settings.MinFree, string(m.settings.Data))
}

// refusePushesAt is the part of the log's room beyond which pushes are refused. The rest is for settlements and
// pops, which make room.
const refusePushesAt = 0.9

// room says why new items are refused, or nil.
func (m *member) room(int) error {
	if err := m.db.DiskFull(); err != nil {
		return fmt.Errorf("a disk of the store is nearly full: new items are refused, and settles and pops go on: %w", err)
	}
	if fill := m.db.Fill(); fill >= refusePushesAt {
		return fmt.Errorf("the log of the store is %.0f %% full: it takes new items below %.0f %%, and settles and pops go on. It forgets what the disks of two pqd have: are they all running?", 100*fill, 100*refusePushesAt)
	}
	return nil
}
