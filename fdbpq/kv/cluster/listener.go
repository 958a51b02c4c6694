package cluster

import (
	"sync"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
)

// listener takes what the others say.
type listener struct {
	*member
	warnOfTwin sync.Once
}

// hear takes a heartbeat of another member.
func (l *listener) hear(message []byte) {
	h, ok := l.peers.Hear(message)
	if h.Member == l.options.Name && h.Process != "" && h.Process != l.process.String() {
		l.warnOfTwin.Do(func() {
			l.slog.Error("kv/cluster: another process has the name of this member: expected a unique name for each", "name", h.Member)
		})
	}
	if !ok {
		return
	}
	if h.Poll {
		announcer{l.member}.broadcast(peers.Heartbeat{})
	}
	alive := h.ShowsLife(l.self.now().head)
	if alive {
		l.self.alive()
	}
	l.ledger.heard(h, l.options.Name, alive)
	if h.Entry > l.self.now().head.Entry {
		signal(l.wake)
	}
}
