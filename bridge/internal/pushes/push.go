package pushes

import (
	"strings"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// push adds an item, or the items of a bundle.
type push struct {
	request.Request
	item   fdbpq.NewItem
	sent   *codec.Bundle   // nil: it is no bundle
	bundle []fdbpq.NewItem // its items, once the lane has read them

	each   *eachPush // the bundle, if its items are pushed each on its own
	within *eachPush // the bundle that it is part of; nil: it has come in a message of its own
	number int       // its index in that bundle
}

var pool desk.Pool[push]

// Push returns an empty push.
func Push(subjects.Verb) desk.Work { return pool.Get() }

func (p *push) End() {
	if p.within != nil {
		p.within.ended(p)
	}
	pool.Put(p)
}

func (p *push) Read(wr *codec.Wire) (f *failure.Failure) {
	if size, is := p.Msg.Header[protocol.HeaderBundle]; is {
		if p.sent, f = wr.OpenBundle(&p.Subject, p.Msg, size); f == nil {
			p.Bundled = p.sent.Len
		}
		return f
	}
	p.item, f = wr.ReadPush(&p.Subject, p.Msg)
	return f
}

// source returns the inbox of the push's client: the subject of the answer without its last token. Pushes that one
// connection sends without waiting keep their order, and a client has its answers sent to one inbox. A push without an
// answer has no source.
func (p *push) source() string {
	reply := p.Msg.Reply
	if dot := strings.LastIndexByte(reply, '.'); dot >= 0 {
		return reply[:dot]
	}
	return reply
}
