package gateway

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/internal/lanes"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// settlements are sent together, whoever has popped the items. The settlements of one lease keep their order.
var settlements = kind{load: loadSettlements, unload: unloadSettlements}

// settleTogether sends a settlement, with others if there are any.
func (in *input) settleTogether(m *nats.Msg) (*nats.Msg, *refusal) {
	w := in.gateway.wire.Load()
	if w == nil {
		return nil, starting()
	}
	bundle, why := in.message(subjects.Subject{Verb: subjects.Ack, Conn: "bundle", Token: "settle"}, nil)
	if why != nil {
		return nil, why
	}
	may, known := w.settlements.rights.Of(bundle.Subject)
	size := len(m.Subject) + len(m.Data) + len(" \n")
	result := bytes.HasPrefix(m.Data, []byte(protocol.SettleAck+" ")) // lines have none
	single := known && !may || result || size > protocol.MaxBundledSettlement || bytes.ContainsAny(m.Data, "\r\n")
	b := &boarder{ctx: in.ctx, msg: m, size: size, single: single}
	key := lanes.Key{Queue: bundle.Subject}
	reply, why := w.settlements.ask(key, key, b)
	return reply, in.named(why)
}

// loadSettlements writes a bundle of settlements.
func loadSettlements(to string, all []*boarder) *nats.Msg {
	m := &nats.Msg{Subject: to, Header: nats.Header{protocol.HeaderBundle: {strconv.Itoa(len(all))}}}
	for _, b := range all {
		m.Data = append(m.Data, b.msg.Subject...)
		if len(b.msg.Data) > 0 { // the subject alone acknowledges
			m.Data = append(append(m.Data, ' '), b.msg.Data...)
		}
		m.Data = append(m.Data, '\n')
	}
	return m
}

// unloadSettlements reads the answer to a bundle of settlements.
func unloadSettlements(answer *nats.Msg, n int) []*landing {
	lines := strings.Split(strings.TrimSuffix(string(answer.Data), "\n"), "\n")
	if len(lines) != n {
		return nil
	}
	each := make([]*landing, n)
	for i, line := range lines {
		until, why, ok := protocol.ReadResult(line)
		switch {
		case !ok:
			return nil
		case why != nil:
			each[i] = &landing{why: &refusal{Error: *why}}
		default:
			each[i] = &landing{reply: &nats.Msg{Header: nats.Header{}}}
			if until != "" {
				each[i].reply.Header.Set(protocol.HeaderLeaseExpires, until)
			}
		}
	}
	return each
}
