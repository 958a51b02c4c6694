package bridge

import (
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/listening"
)

// signal handles the messages on the ack subjects of the items that this bridge delivered. It ignores settlements,
// which receive handles. The server's message that no client received an item arrives only here.
func (d *dispatcher) signal(m *nats.Msg) {
	if !listening.Unreceived(m) {
		return
	}
	s, err := d.Grammar.Parse(m.Subject)
	if err != nil {
		return
	}
	if lease, _, f := d.Sealer.Open(s.Queue, s.Token); f == nil {
		d.lanes.settling.GiveBack(lease)
	}
	for _, lease := range d.lanes.sent.Take(s.Queue, s.Token) {
		d.lanes.settling.GiveBack(*lease)
	}
}
