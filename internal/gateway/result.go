package gateway

import (
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// ended is what became of an item, as an answer.
type ended struct {
	Queue      string          `json:"queue"`
	ID         string          `json:"id"`
	Outcome    protocol.Finish `json:"outcome"`
	FinishedAt time.Time       `json:"finished_at"`
	Deliveries int64           `json:"deliveries"`
	Body       *string         `json:"body,omitempty"`        // the result, if it is UTF-8
	Base64     []byte          `json:"body_base64,omitempty"` // the result, if it is not UTF-8
	Dropped    bool            `json:"dropped,omitempty"`
	DeadReason string          `json:"dead_reason,omitempty"`
	DeadLetter string          `json:"dead_letter,omitempty"`
	Next       string          `json:"next,omitempty"`
	NextID     string          `json:"next_id,omitempty"`
}

// result tells what became of an item. With a wait it may tell that later.
func result(in *input) (*answer, *refusal) {
	m, why := in.message(subjects.Subject{Verb: subjects.Result, ID: in.values["id"]}, nil)
	if why != nil {
		return nil, why
	}
	if why := in.setHeader(m, "wait", protocol.HeaderWait); why != nil {
		return nil, why
	}
	reply, why := in.ask(m)
	if why != nil {
		return nil, why
	}
	e, why := readEnded(in.values["queue"], in.values["id"], reply)
	if why != nil {
		return nil, why
	}
	return answerJSON(e)
}

// readEnded reads a result that a bridge has answered.
func readEnded(queue, id string, m *nats.Msg) (*ended, *refusal) {
	e := &ended{
		Queue: queue, ID: id, Outcome: protocol.Finish(m.Header.Get(protocol.HeaderOutcome)), Dropped: m.Header.Get(protocol.HeaderResult) == protocol.ResultDropped,
		DeadReason: m.Header.Get(protocol.HeaderDeadReason), DeadLetter: m.Header.Get(protocol.HeaderDeadLetter),
		Next: m.Header.Get(protocol.HeaderNext), NextID: m.Header.Get(protocol.HeaderNextID),
	}
	for name, to := range map[string]any{protocol.HeaderFinishedAt: &e.FinishedAt, protocol.HeaderDeliveries: &e.Deliveries} {
		if err := protocol.ReadValue(to, m.Header.Get(name)); err != nil {
			return nil, refusef(protocol.CodeInternal, "an answer that cannot be read: %s", err)
		}
	}
	if e.Outcome == "" {
		return nil, refusef(protocol.CodeInternal, "an answer that cannot be read: it has no %s", protocol.HeaderOutcome)
	}
	switch {
	case len(m.Data) == 0: // nothing was said
	case utf8.Valid(m.Data):
		e.Body = new(string(m.Data))
	default:
		e.Base64 = m.Data
	}
	return e, nil
}
