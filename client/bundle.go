package client

import (
	"bytes"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
)

// unbundled returns the items of a bundle as messages of their own, and the end of a batch
// behind them; other messages as they are.
func unbundled(m *nats.Msg) []*nats.Msg {
	if len(m.Header[protocol.HeaderBundle]) == 0 {
		return []*nats.Msg{m}
	}
	var all []*nats.Msg
	for rest := m.Data; len(rest) > 0; {
		item := &nats.Msg{Header: make(nats.Header)}
		headers, payload, after, err := protocol.NextFrame(rest)
		for len(headers) > 0 && err == nil {
			var name, value string
			if name, value, headers, err = protocol.NextHeader(headers); err == nil {
				item.Header[name] = append(item.Header[name], value)
			}
		}
		if err != nil {
			return append(all, &nats.Msg{Data: rest}) // the rest is no valid answer to a pop
		}
		item.Data, rest = bytes.Clone(payload), after // one item must not keep the whole bundle in memory
		all = append(all, item)
	}
	return append(all, &nats.Msg{Header: nats.Header{protocol.HeaderStatus: {protocol.StatusEndOfBatch}}})
}
