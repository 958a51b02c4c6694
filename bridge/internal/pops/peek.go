package pops

import (
	"sync"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/reads"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/subjects"
)

// peek is a pop that leaves the items where they are. It is a query, unless it waits.
type peek struct{ pop }

var peekPool desk.Pool[peek]

// Peek returns an empty peek.
func Peek(subjects.Verb) desk.Work {
	p := peekPool.Get()
	p.peeks = true
	return p
}

func (p *peek) End() { peekPool.Put(p) }

func (p *peek) Find(v *reads.View) error {
	p.forget()
	taken, err := v.Queue.Peek(v.Reader, p.ask.Selection(&v.Limit, v.Queue.Name()))
	if err == nil {
		seen(&p.pop, &v.Limit, v.Queue.Name(), &taken)
	}
	return err
}

// Bytes is the size of the items that were found.
func (p *peek) Bytes() (n int64) {
	for i := range p.found {
		n += p.found[i].Size
	}
	return n
}

func (p *peek) Answer(l *reads.Lane) {
	a := peekAnswers.Get().(*answers)
	a.Lane = l.Lane
	a.answerPop(&p.pop)
	a.Lane = nil
	peekAnswers.Put(a)
}

// peekAnswers are for peeks that do not wait. Their buffers are used again.
var peekAnswers = sync.Pool{New: func() any { return new(answers) }}

// seen keeps the items of a peek, up to the first item that cannot be sent.
func seen(p *pop, limit *codec.Limit, queue string, taken *fdbpq.Popped) {
	items := taken.Items
	if len(items) == 0 {
		p.Failure = failure.NothingIn(queue, p.ask.Band, taken)
	}
	for i := range items {
		if f := limit.Unanswerable(queue, &items[i]); f != nil {
			if items = items[:i]; i == 0 {
				p.Failure = f
			}
			break
		}
	}
	if p.ask.Bundle && len(items) > 0 {
		if items = items[:limit.Bundled(queue, items)]; len(items) == 0 {
			p.Failure = codec.ErrBundleRoom
		}
	}
	p.found = items
	p.ready = max(0, taken.Ready-int64(len(items)))
}
