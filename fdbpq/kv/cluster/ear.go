package cluster

import (
	"sync"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
)

// ear takes what the others say.
type ear struct {
	*member
	warnOfTwin sync.Once
}

// hear takes a heartbeat of another member.
func (e *ear) hear(message []byte) {
	h, ok := e.peers.Hear(message)
	if h.Member == e.options.Name && h.Process != "" && h.Process != e.process.String() {
		e.warnOfTwin.Do(func() {
			e.slog.Error("kv/cluster: another process has the name of this member: expected a unique name for each", "name", h.Member)
		})
	}
	if !ok {
		return
	}
	if h.Poll {
		voice{e.member}.broadcast(peers.Heartbeat{})
	}
	alive := h.ShowsLife(e.self.now().head)
	if alive {
		e.self.alive()
	}
	e.ledger.heard(h, e.options.Name, alive)
	if h.Entry > e.self.now().head.Entry {
		signal(e.wake)
	}
}
