// Package links has the requests of takers: the bridge of another store asks a link of a queue for items, and says which items of the
// batch before it has stored. These requests are pops that give items in a way of their own, see [pops.Giver].
//
// What it guarantees: a batch is given again until its taker says that it has it, also when it does not fit into an answer any more.
// A link that stops until an operator has looked publishes an event.
package links

import (
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/pops"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/link"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// giver is a taker's request to a link, and its result.
type giver struct {
	ask   link.Ask
	most  int64 // bytes that the taker's server carries, 0: it has not said it
	given link.Given
	body  []byte
	lines []byte // a buffer
}

// Link returns an empty request of a taker.
func Link(subjects.Verb) desk.Work { return pops.Give(new(giver)) }

func (g *giver) Read(m *nats.Msg, verb string) (ask codec.PopRequest, f *failure.Failure) {
	g.ask, ask, g.most, f = codec.ReadTake(m, verb)
	return ask, f
}

// Keep drops what a taker that waits has said about its batch. That batch has ended, with the items that the taker left, and no
// other batch has begun.
func (g *giver) Keep() { g.ask.Left, g.ask.Next, g.ask.Part = nil, "", 0 }

// errRoom refuses a batch that was made when the server's max_payload was larger.
var errRoom = &failure.Failure{Code: 413, Text: "the batch that is out does not fit into an answer any more: raise the server's max_payload to what it was"}

// Give gives a taker its next batch. Items that do not fit into the answer are not held.
func (g *giver) Give(in *pops.Giving) (pops.Given, error) {
	queue, name := in.Subject.Queue, in.Subject.Link
	payload := in.Limit.LinkPayload(g.most)
	g.ask.Items = in.Items
	codec.LinkRoom(&g.ask.Items, payload)
	given, err := link.New(in.Store).Give(in.Tx, in.Queue, name, g.ask)
	var refused *link.Error
	switch {
	case errors.As(err, &refused):
		f := failure.Explain(err)
		f.Giver = in.Store.ID()
		return pops.Given{Failure: f, Final: true}, nil
	case err == link.ErrNone, err == fdbpq.ErrNoQueue:
		return pops.Given{Failure: failure.NoLink(queue, name), Final: true}, nil
	case err != nil:
		return pops.Given{}, err
	}
	does := pops.Given{Ended: given.Ended, Events: given.Events, Repeated: given.Repeated, Retry: given.Retry}
	if given.Number == 0 {
		switch {
		case given.More: // it removed expired items
			does.More = true
		case given.Paused:
			does.Failure = failure.PausedLink(queue, name)
		default:
			does.Failure = failure.Nothing(queue, given.Reason)
		}
		return does, nil
	}
	if does.Fits, does.Failure, err = g.write(&given, in.Store.Time(), payload); err != nil {
		return does, err
	}
	g.given = given
	does.Items, does.Bytes, does.Final = given.Items, len(g.body), does.Failure != nil
	return does, nil
}

// write writes the answer. fits is how many items fit if a batch has to have fewer.
func (g *giver) write(given *link.Given, now time.Duration, payload int) (fits int, f *failure.Failure, err error) {
	g.body = g.body[:0]
	for i := range given.Items {
		before := len(g.body)
		g.body, g.lines = codec.AppendGiven(g.body, g.lines, &given.Items[i], now)
		if codec.LinkFits(len(g.body), payload) {
			continue
		}
		switch {
		case given.Repeated && !g.ask.Parts:
			return 0, errRoom, nil
		case given.Repeated && i > 0:
			given.Items, g.body = given.Items[:i], g.body[:before]
			return 0, nil, nil
		case given.Repeated:
			return 0, failure.Newf(413, "item %s of the batch that is out does not fit into an answer: the smaller max_payload of the two servers is %d: raise it", given.Items[i].ID, payload), nil
		case i > 0:
			return i, nil, nil
		}
		return 0, nil, failure.Newf(413, "item %s does not fit into an answer: the smaller max_payload of the two servers is %d; it was left in the queue", given.Items[i].ID, payload)
	}
	return 0, nil, nil
}

// Answer sends a batch. If it cannot be sent, the taker asks for it again.
func (g *giver) Answer(l *desk.Desk, r *request.Request) *failure.Failure {
	return l.Responder.Answer(r, &nats.Msg{Subject: r.Msg.Reply, Header: codec.LinkHeader(l.Store.ID(), &g.given), Data: g.body})
}

// Refused announces that a link gives nothing until a person has looked.
func (g *giver) Refused(l *desk.Desk, r *request.Request, f *failure.Failure) {
	if f.Reason == protocol.ReasonGiverBehind || f.Reason == protocol.ReasonTakerBehind || f.Code == 413 {
		l.Events.LinkStopped(r.Subject.Queue, r.Subject.Link, f)
	}
}
