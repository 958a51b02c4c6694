package client

import (
	"bytes"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
)

// bundles says whether bridges know bundles. Those of earlier versions refuse them without
// effect, with code 400; then the client does without them for a while, because bridges
// are upgraded while it runs.
type bundles struct {
	mu    sync.Mutex
	until time.Time // when to try them again; zero: they were not refused
}

// withoutBundles is for how long a client does without bundles after a refusal.
const withoutBundles = time.Minute

func (b *bundles) known() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now().After(b.until)
}

// refused keeps that a bundle was refused. The same request without a bundle shows whether
// that was the reason.
func (b *bundles) refused() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.until = time.Now().Add(withoutBundles)
}

// refusesBundle reports whether the request may succeed without a bundle: the bridge knows
// none, or an item does not fit into one.
func refusesBundle(e *Error) bool {
	return e.Code == protocol.CodeBadRequest || e.Code == protocol.CodeTooLarge
}

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
			return append(all, &nats.Msg{Data: rest}) // which is no answer to a pop
		}
		item.Data, rest = bytes.Clone(payload), after // one item must not keep all of them in memory
		all = append(all, item)
	}
	return append(all, &nats.Msg{Header: nats.Header{protocol.HeaderStatus: {protocol.StatusEndOfBatch}}})
}
