package gateway

import (
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// takeHeaders are the parameters of peeks and pops that are headers of the protocol. Peeks have the first two.
var takeHeaders = []struct{ parameter, header string }{
	{"batch", protocol.HeaderBatch},
	{"band", protocol.HeaderBand},
	{"wait", protocol.HeaderWait},
	{"lease", protocol.HeaderLease},
	{"holder", protocol.HeaderHolder},
	{"msg_id", protocol.HeaderMsgID},
	{"repeat", protocol.HeaderRepeat},
}

var (
	peekParameters = []string{"end", "batch", "band", "wait"}
	popParameters  = []string{"end", "batch", "band", "wait", "lease", "holder", "msg_id", "repeat"}
)

const (
	// defaultLease is the lease of a pop that asks for none. An answer by HTTP may not arrive, and without a lease
	// its item would be lost with it.
	defaultLease = "1m"

	// leaseOfQueue asks for the lease that the queue has configured, which may be none.
	leaseOfQueue = "queue"

	// maxBatchBytes bounds an answer.
	maxBatchBytes = 1 << 20
)

var ends = map[string][2]subjects.Verb{
	"":    {subjects.PopMin, subjects.PeekMin},
	"min": {subjects.PopMin, subjects.PeekMin},
	"max": {subjects.PopMax, subjects.PeekMax},
}

func pop(in *input) (*answer, *refusal) {
	switch in.get("lease") {
	case "":
		in.query.Set("lease", defaultLease)
	case leaseOfQueue:
		in.query.Del("lease")
	}
	return in.take(0)
}

func peek(in *input) (*answer, *refusal) { return in.take(1) }

// take pops or peeks.
func (in *input) take(which int) (*answer, *refusal) {
	end, known := ends[in.get("end")]
	if !known {
		return nil, refusef(protocol.CodeBadRequest, "end is %q: expected min or max", in.get("end"))
	}
	m, why := in.message(subjects.Subject{Verb: end[which]}, nil)
	if why != nil {
		return nil, why
	}
	for _, h := range takeHeaders {
		if why := in.setHeader(m, h.parameter, h.header); why != nil {
			return nil, why
		}
	}
	most := 1
	batch := in.query.Has("batch")
	if batch {
		n, why := in.integer("batch")
		if why != nil {
			return nil, why
		}
		if *n < 1 {
			return nil, refusef(protocol.CodeBadRequest, "batch is %d: expected 1 or more", *n)
		}
		most = maxBatch + 1
		if m.Data, why = marshal(protocol.PopRequest{MaxBytes: maxBatchBytes}); why != nil {
			return nil, why
		}
	}
	c, why := in.gateway.wire.Load().send(m, most, in.route.changes)
	if why != nil {
		return nil, why
	}
	taken := &popCall{call: c, queue: in.values["queue"], repeatable: in.query.Has("msg_id")}
	if why := taken.collect(in, batch); why != nil {
		taken.giveBack()
		return nil, why
	}
	a, why := taken.answer(batch)
	if why != nil {
		taken.giveBack()
		return nil, why
	}
	a.unsent = taken.giveBack
	return a, nil
}

// maxBatch is how many items a batch has at most.
const maxBatch = 1000

// popCall are the items of a pop or a peek under way.
type popCall struct {
	*call
	queue      string
	messages   []*nats.Msg
	repeatable bool // a repetition gets the items, so they stay leased
}

// collect waits for the items. If the end of a batch does not arrive, the answer has the items that did: they may
// be leased. Items that arrive later go back to the queue.
func (t *popCall) collect(in *input, batch bool) *refusal {
	for {
		m, why := t.next(in.ctx)
		if why != nil {
			t.abandon(t.giveBackOne)
			if len(t.messages) > 0 {
				return nil
			}
			return why
		}
		if why = in.named(refused(m)); why != nil || m.Header.Get(protocol.HeaderID) == "" {
			t.end()
			if len(t.messages) > 0 {
				return nil
			}
			return why
		}
		if t.messages = append(t.messages, m); !batch {
			t.end()
			return nil
		}
	}
}

func (t *popCall) answer(batch bool) (*answer, *refusal) {
	items := []*item{}
	for _, m := range t.messages {
		if m.Header.Get(protocol.HeaderID) == "" {
			continue
		}
		i, why := readItem(t.queue, m)
		if why != nil {
			return nil, why
		}
		items = append(items, i)
	}
	if batch {
		return answerJSON(map[string]any{"items": items})
	}
	if len(items) == 0 {
		return nil, refusef(protocol.CodeInternal, "an answer without an item")
	}
	return answerJSON(items[0])
}

// giveBack gives the leased items back to the queue: the client did not get them.
func (t *popCall) giveBack() {
	for _, m := range t.messages {
		t.giveBackOne(m)
	}
}

func (t *popCall) giveBackOne(m *nats.Msg) {
	if ack := m.Header.Get(protocol.HeaderAck); ack != "" && !t.repeatable {
		_ = t.nc.Publish(ack, []byte(protocol.SettleBack)) // or the lease runs out
	}
}

// settle settles a lease. The body is one of the protocol's words, which the bridge bounds: a result has the size of an item.
func settle(in *input) (*answer, *refusal) {
	subject := in.get("ack")
	parsed, err := in.caller.grammar.Parse(subject)
	switch {
	case subject == "":
		return nil, refusef(protocol.CodeBadRequest, `expected the parameter ack: what the popped item has as "ack"`)
	case err != nil:
		return nil, badRequest(err)
	case parsed.Verb != subjects.Ack || parsed.Queue != in.values["queue"]:
		return nil, refusef(protocol.CodeBadRequest, "ack is %q: expected the one of an item that was popped from queue %s", subject, in.values["queue"])
	case strings.HasPrefix(string(in.body), "+NXT"):
		return nil, refusef(protocol.CodeBadRequest, "+NXT is not served over HTTP: expected +ACK, and a pop")
	}
	m := &nats.Msg{Subject: subject, Data: in.body}
	if cost := in.get("cost"); cost != "" {
		m.Header = nats.Header{protocol.HeaderCost: {cost}}
	}
	reply, why := in.settleTogether(m)
	if why != nil {
		return nil, why
	}
	settled := map[string]string{"queue": parsed.Queue}
	if until := reply.Header.Get(protocol.HeaderLeaseExpires); until != "" {
		settled["lease_expires"] = until
	}
	if kept := reply.Header.Get(protocol.HeaderResult); kept != "" {
		settled["result"] = kept
	}
	if note := reply.Header.Get(protocol.HeaderNote); note != "" {
		settled["progress"] = note
	}
	return answerJSON(settled)
}
