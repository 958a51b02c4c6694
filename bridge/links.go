package bridge

import (
	"errors"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/events"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/link"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// giving is a taker's request to a link, and its result.
type giving struct {
	ask   link.Ask
	most  int64 // bytes that the taker's server carries, 0: it has not said it
	given link.Given
	body  []byte
}

// keep drops what a taker that waits has said about its batch. That batch has ended, with the items that the taker left, and no
// other batch has begun.
func (g *giving) keep() { g.ask.Left, g.ask.Next, g.ask.Part = nil, "", 0 }

func makeLink(subjects.Verb) desk.Work {
	p := popPool.Get()
	p.gives = new(giving)
	return p
}

// errLinkRoom refuses a batch that was made when the server's max_payload was larger.
var errLinkRoom = &failure.Failure{Code: 413, Text: "the batch that is out does not fit into an answer any more: raise the server's max_payload to what it was"}

// give gives a taker its next batch. Items that do not fit into the answer are not held.
func (l *pops) give(tx kv.Tx, r *pop) (int, error) {
	g, queue := r.gives, l.Lane.Queue.Name()
	name := r.Subject.Link
	g.ask.Items = l.selection([]*pop{r})
	payload := l.Limit.LinkPayload(g.most)
	codec.LinkRoom(&g.ask.Items, payload)
	given, err := link.New(l.Store).Give(tx, l.queue, name, g.ask)
	var refused *link.Error
	switch {
	case errors.As(err, &refused):
		r.Failure, r.final = failure.Explain(err), true
		r.Failure.Giver = l.Store.ID()
		return 1, nil
	case err == link.ErrNone, err == fdbpq.ErrNoQueue:
		r.Failure, r.final = failure.NoLink(queue, name), true
		return 1, nil
	case err != nil:
		return 0, err
	}
	l.ended += given.Ended
	l.events = append(l.events, given.Events...)
	if given.Ended > 0 {
		freed, err := l.work.Freed(queue)
		if err != nil {
			return 0, err
		}
		if freed {
			clear(l.empty)
			l.freed = true
		}
	}
	if given.Number == 0 && given.More {
		return 0, nil // it removed expired items, and more are left
	}
	if given.Number == 0 {
		switch {
		case r.waited:
			r.Failure = errWaited
		case given.Paused:
			r.Failure = failure.PausedLink(queue, name)
		default:
			r.Failure = failure.Nothing(queue, given.Reason)
		}
		l.tryAgainIn(given.Retry)
		return 1, nil
	}
	g.given, g.body = given, g.body[:0]
	now := l.Store.Time()
	for i := range given.Items {
		before := len(g.body)
		g.body, l.lines = codec.AppendGiven(g.body, l.lines, &given.Items[i], now)
		if codec.LinkFits(len(g.body), payload) {
			continue
		}
		switch {
		case given.Repeated && !g.ask.Parts:
			r.Failure, r.final = errLinkRoom, true
			return 1, nil
		case given.Repeated && i > 0:
			given.Items, g.body = given.Items[:i], g.body[:before]
		case given.Repeated:
			r.Failure, r.final = failure.Newf(413, "item %s of the batch that is out does not fit into an answer: the smaller max_payload of the two servers is %d: raise it", given.Items[i].ID, payload), true
			return 1, nil
		case i > 0:
			r.most = i
			return 0, errCut
		default:
			return 0, failure.Newf(413, "item %s does not fit into an answer: the smaller max_payload of the two servers is %d; it was left in the queue", given.Items[i].ID, payload)
		}
		break
	}
	g.given = given
	r.found = given.Items
	l.items += len(given.Items)
	l.bytes += int64(len(g.body))
	if !given.Repeated {
		l.popped += len(given.Items)
	}
	return 1, nil
}

// answerLink sends a batch. If it cannot be sent, the taker asks for it again.
func (l *answers) answerLink(r *pop) *failure.Failure {
	return l.Responder.Answer(&r.Request, &nats.Msg{Subject: r.Msg.Reply, Header: codec.LinkHeader(l.Store.ID(), &r.gives.given), Data: r.gives.body})
}

// linkStopped reports that a link gives nothing until a person has looked.
func linkStopped(to *events.Announcer, r *pop) {
	if f := r.Failure; f.Reason == protocol.ReasonGiverBehind || f.Reason == protocol.ReasonTakerBehind || f.Code == 413 {
		to.LinkStopped(r.Subject.Queue, r.Subject.Link, f)
	}
}
