package cluster

import (
	"sync"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/claims"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
)

// ledger has the claims on a member's disk.
type ledger struct {
	mu      sync.Mutex
	written claims.Ledger
	target  chain.Head // of an active member after the start; Entry 0: none was heard
}

// read returns the claims on the disk.
func (l *ledger) read() claims.Ledger {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written
}

// aim is the position of an active member after the start.
func (l *ledger) aim() chain.Head {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.target
}

// heard takes the claims in the heartbeat of another member; name is that of this one.
func (l *ledger) heard(h peers.Heartbeat, name string, alive bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := &l.written.Own
	if mine := h.Knows[name]; own.Lives && mine.ID == own.ID && mine.Count > own.Count {
		// The whole machine has gone back while this process ran.
		own.Lives, l.target = false, chain.Head{}
	}
	if alive && l.target.Entry == 0 {
		l.target = chain.Head{Entry: h.Entry, Generation: h.Generation}
	}
}
