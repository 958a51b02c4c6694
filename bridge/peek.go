package bridge

import (
	"github.com/pqbridge/pqbridge/bridge/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
)

// A peek that does not wait is a query.

func (p *pop) find(v *view) error {
	p.forget()
	seen, err := v.queue.Peek(v.reader, p.ask.selection())
	if err != nil {
		return err
	}
	p.seen(&v.answerLimit, v.queue.Name(), &seen)
	return nil
}

// size is what the items take that were found.
func (p *pop) size() (n int64) {
	for i := range p.found {
		n += p.found[i].Size
	}
	return n
}

func (p *pop) answer(l *lane) { l.answerPop(p) }

// seen keeps what a peek has found, up to the first item that cannot be sent.
func (p *pop) seen(limit *answerLimit, queue string, taken *fdbpq.Popped) {
	items := taken.Items
	if len(items) == 0 {
		p.failure = failure.Nothing(queue, taken.Reason)
	}
	for i := range items {
		if f := limit.unanswerable(queue, &items[i]); f != nil {
			if items = items[:i]; i == 0 {
				p.failure = f
			}
			break
		}
	}
	p.found = items
	p.ready = max(0, taken.Ready-int64(len(items)))
}
