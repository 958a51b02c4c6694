package cluster

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// member has what the parts of a member share: its copy and its log, what it knows of itself and of the others, and the
// ways to wake it and to tell the others.
type member struct {
	options Options
	dir     string
	logs    Log // of any generation
	members Members
	slog    *slog.Logger
	process chain.ID

	current atomic.Pointer[Log] // of the generation that the copy follows
	replica atomic.Pointer[local.Replica]
	peers   *peers.Peers
	ledger  ledger
	self    self

	done sync.WaitGroup // what runs in the background
	wake chan struct{}  // holds a token when the log may have grown
	hint chan struct{}  // holds a token when the others should hear of a change
}

func (m *member) copy() *local.Replica { return m.replica.Load() }

// log is the log of the generation that the copy follows.
func (m *member) log() Log { return *m.current.Load() }

// position is that of the copy, and first the first entry of the log, as it was seen last.
func (m *member) position() (at chain.Head, first uint64) {
	now := m.self.now()
	return now.head, now.log.First
}

// announce makes a heartbeat leave soon, because the state has changed.
func (m *member) announce() { signal(m.hint) }

// newest is the newest generation that has a log.
func (m *member) newest(ctx context.Context) (generation uint64, err error) {
	err = attempt(ctx, func(ctx context.Context) error {
		generation, err = m.logs.Newest(ctx)
		return err
	})
	return generation, err
}
