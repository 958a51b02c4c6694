package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

func list(in *input) (*answer, *refusal) {
	ask := protocol.ListRequest{State: protocol.State(in.get("state")), After: in.get("after"), Key: in.get("key"), Holder: in.get("holder")}
	var limit, preview *int64
	for name, to := range map[string]**int64{"limit": &limit, "preview": &preview, "min": &ask.Min, "max": &ask.Max} {
		var why *refusal
		if *to, why = in.integer(name); why != nil {
			return nil, why
		}
	}
	if limit != nil {
		if ask.Limit = int(*limit); ask.Limit < 1 {
			return nil, refusef(protocol.CodeBadRequest, "limit is %d: expected 1 or more", *limit)
		}
	}
	if preview != nil {
		if *preview < 1 || *preview > protocol.MaxPreview {
			return nil, refusef(protocol.CodeBadRequest, "preview is %d: expected 1 to %d", *preview, protocol.MaxPreview)
		}
		ask.Preview = int(*preview)
	}
	for name, to := range map[string]*bool{"bodies": &ask.Bodies, "attempts": &ask.Attempts, "progress": &ask.Progress} {
		var why *refusal
		if *to, why = in.flag(name); why != nil {
			return nil, why
		}
	}
	return in.passJSON(subjects.Subject{Verb: subjects.List}, ask)
}

func get(in *input) (*answer, *refusal) {
	var ask protocol.GetRequest
	for name, to := range map[string]*bool{"attempts": &ask.Attempts, "explain": &ask.Explain} {
		var why *refusal
		if *to, why = in.flag(name); why != nil {
			return nil, why
		}
	}
	var body []byte
	if ask != (protocol.GetRequest{}) {
		var why *refusal
		if body, why = marshal(ask); why != nil {
			return nil, why
		}
	}
	m, why := in.message(subjects.Subject{Verb: subjects.Get, ID: in.values["id"]}, body)
	if why != nil {
		return nil, why
	}
	reply, why := in.ask(m)
	if why != nil {
		return nil, why
	}
	i, why := readItem(in.values["queue"], reply)
	if why != nil {
		return nil, why
	}
	return answerJSON(i)
}

// item is an item of an answer.
type item struct {
	protocol.Item
	Held    bool   `json:"held,omitempty"`    // PQ-Held
	Pending *int64 `json:"pending,omitempty"` // PQ-Num-Pending
}

// readItem reads an item that a bridge has answered.
func readItem(queue string, m *nats.Msg) (*item, *refusal) {
	i := &item{Item: protocol.Item{Queue: queue}}
	own := make(map[string][]string)
	var err error
	for name, values := range m.Header {
		if name != protocol.HeaderTimeStamp && !strings.HasPrefix(name, protocol.HeaderPrefix) {
			own[name] = values
			continue
		}
		if readErr := i.readHeader(name, m.Header.Get(name)); readErr != nil {
			err = readErr
		}
	}
	if err != nil {
		return nil, refusef(protocol.CodeInternal, "an answer that cannot be read: %s", err)
	}
	i.SetHeaders(own)
	i.SetPayload(m.Data)
	i.Size = 0 // of lists alone
	return i, nil
}

func (i *item) readHeader(name, value string) (err error) {
	if to := fieldOf(i, name); to != nil {
		return protocol.ReadValue(to, value)
	}
	switch name {
	case protocol.HeaderNumPending:
		i.Pending = new(int64)
		err = protocol.ReadValue(i.Pending, value)
	case protocol.HeaderHeld:
		i.Held = value == "true"
	case protocol.HeaderExplain:
		i.Explain = new(protocol.Explain)
		err = json.Unmarshal([]byte(value), i.Explain)
	case protocol.HeaderAttempts:
		err = i.readAttempts(value)
	default:
		i.Source, err = protocol.ReadItemSource(i.Source, name, value)
	}
	return err // other ones are a later version's
}

// readAttempts reads all attempts, or the number of the last one.
func (i *item) readAttempts(value string) (err error) {
	if !strings.HasPrefix(value, "[") {
		i.Attempts, err = strconv.ParseInt(value, 10, 64)
		return err
	}
	if err := json.Unmarshal([]byte(value), &i.LastAttempts); err != nil {
		return err
	}
	if n := len(i.LastAttempts); n > 0 {
		i.Attempts = i.LastAttempts[n-1].N
	}
	return nil
}

// deathOf is the part of an item that says how it became a dead letter.
func deathOf(i *item) *protocol.Death {
	if i.Dead == nil {
		i.Dead = new(protocol.Death)
	}
	return i.Dead
}

// A history is a part of info, so a caller without the right to info has none to the history.

func queueHistory(in *input) (*answer, *refusal) { return historyOf(in, subjects.Info) }
func history(in *input) (*answer, *refusal)      { return historyOf(in, subjects.SysInfo) }

func historyOf(in *input, of subjects.Verb) (*answer, *refusal) {
	a, why := in.passJSON(subjects.Subject{Verb: of}, protocol.HistoryRequest{History: true})
	if why != nil {
		return nil, why
	}
	var info struct{ History json.RawMessage }
	if err := json.Unmarshal(a.body, &info); err != nil {
		return nil, refusef(protocol.CodeInternal, "an answer that cannot be read: %s", err)
	}
	return &answer{body: info.History}, nil
}

// awaitResult is result, and may cancel the item when its caller hangs up. It is a request of its own because it may change something.
func awaitResult(in *input) (*answer, *refusal) {
	cancels, why := in.flag("cancel")
	if why != nil {
		return nil, why
	}
	a, why := result(in)
	if why != nil && cancels && in.hungUp() {
		in.cancel("the caller has hung up")
	}
	return a, why
}

// hungUp reports whether the client has closed its connection, and not the time or pqd ended the request.
func (in *input) hungUp() bool {
	return errors.Is(in.ctx.Err(), context.Canceled) && in.gateway.running.Err() == nil
}

// cancel cancels the item of the path. Nobody waits for the answer: what was not done ends with the item's time.
func (in *input) cancel(reason string) {
	body, why := marshal(protocol.CancelRequest{Reason: reason})
	if why != nil {
		return
	}
	m, why := in.message(subjects.Subject{Verb: subjects.Cancel, ID: in.values["id"]}, body)
	if why != nil {
		return
	}
	ctx, end := context.WithTimeout(context.WithoutCancel(in.ctx), answerLimit)
	defer end()
	if _, why = in.gateway.wire.Load().ask(ctx, m, true); why != nil {
		in.gateway.log.Debug("cancelling an item whose caller has hung up failed", "queue", in.values["queue"], "id", in.values["id"], "error", why)
	}
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
	reply, why := in.gateway.wire.Load().ask(in.ctx, m, false)
	if why != nil {
		return nil, in.named(why)
	}
	e := &protocol.ItemResult{Queue: in.values["queue"], ID: in.values["id"]}
	if err := e.ReadHeaders(reply.Header.Get); err != nil {
		return nil, refusef(protocol.CodeInternal, "an answer that cannot be read: %s", err)
	}
	e.SetBody(reply.Data)
	return answerJSON(e)
}
