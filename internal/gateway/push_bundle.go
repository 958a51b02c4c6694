package gateway

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/internal/lanes"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// pushes are sent together, each on its own in the bundle. Pushes with several priorities go to the subject without
// a priority, once a push of the gateway's NATS user to that subject has succeeded: the user may lack the right.
var pushes = kind{load: loadPushes, unload: unloadPushes}

// pushTogether sends a push, with others if there are any.
func (in *input) pushTogether(m *nats.Msg) (*nats.Msg, *refusal) {
	w := in.gateway.wire.Load()
	if w == nil {
		return nil, starting()
	}
	plain, why := in.message(subjects.Subject{Verb: subjects.Push}, nil)
	if why != nil {
		return nil, why
	}
	_, handsOver := m.Header[protocol.HeaderSettle]
	b := &boarder{ctx: in.ctx, msg: m, priority: in.get("priority"), size: m.Size(), single: handsOver}
	own := lanes.Key{Queue: plain.Subject, Subject: m.Subject}
	key := own
	if may, _ := w.pushes.rights.Of(plain.Subject); may {
		key.Subject = plain.Subject
	}
	reply, why := w.pushes.ask(own, key, b)
	return reply, in.named(why)
}

// loadPushes writes a bundle. Pushes with one subject keep it, so the bundle needs the same right as its items.
func loadPushes(to string, all []*boarder) *nats.Msg {
	subject, size := all[0].msg.Subject, 0
	for _, b := range all {
		if b.msg.Subject != all[0].msg.Subject {
			subject = to
		}
		size += b.size
	}
	m := &nats.Msg{Subject: subject, Data: make([]byte, 0, size), Header: nats.Header{protocol.HeaderBundle: {strconv.Itoa(len(all))}, protocol.HeaderEach: {"true"}}}
	var headers []byte
	for _, b := range all {
		headers = headers[:0]
		if b.priority != "" && b.msg.Subject != subject {
			headers = append(append(append(headers, protocol.HeaderPriority+": "...), b.priority...), '\n')
		}
		headers = protocol.AppendHeaders(headers, b.msg.Header)
		m.Data = protocol.AppendFrame(m.Data, headers, b.msg.Data)
	}
	return m
}

// unloadPushes reads the answer to a bundle of pushes.
func unloadPushes(answer *nats.Msg, n int) []*landing {
	var results struct {
		Stream string
		Items  []json.RawMessage
	}
	if err := json.Unmarshal(answer.Data, &results); err != nil || len(results.Items) != n {
		return nil
	}
	each := make([]*landing, n)
	for i, result := range results.Items {
		var told struct{ Error *protocol.Error }
		if bytes.HasPrefix(result, []byte(`{"error":`)) && json.Unmarshal(result, &told) == nil && told.Error != nil {
			each[i] = &landing{why: &refusal{Error: *told.Error}}
			continue
		}
		head := `{"type":"` + protocol.PushResponseType + `","stream":"` + results.Stream + `",`
		each[i] = &landing{reply: &nats.Msg{Data: append([]byte(head), result[1:]...)}}
	}
	return each
}
