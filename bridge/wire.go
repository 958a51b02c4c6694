package bridge

import (
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/receiver"
	"github.com/pqbridge/pqbridge/subjects"
)

// wire is how the messages of this bridge look: their subjects, the tokens of leases,
// and the size of the answers.
type wire struct {
	grammar     subjects.Grammar
	sealer      sealer
	answerLimit answerLimit
}

func newWire(nc *nats.Conn, prefix string, secret []byte) (*wire, error) {
	grammar, err := subjects.New(prefix)
	if err != nil {
		return nil, err
	}
	w := &wire{grammar: grammar}
	w.sealer.init(secret)
	w.answerLimit.init(nc, prefix)
	return w, nil
}

// connected reads what the server allows.
func (w *wire) connected() { w.answerLimit.refresh() }

// subjects are those that the bridge subscribes to.
func (w *wire) subjects() receiver.Subjects {
	return receiver.Subjects{
		Requests:    w.grammar.All(),
		Settlements: w.grammar.Acks(),
		Signals:     w.grammar.AcksOf(w.sealer.conn),
		Pushes:      w.grammar.Pushes(),
	}
}
