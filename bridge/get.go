package bridge

import (
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/subjects"
)

// get shows an item, whatever its state.
type get struct {
	request.Request
	id    fdbpq.ID
	item  *fdbpq.StoredItem
	ready int64 // items in its queue
}

func makeGet(subjects.Verb) work { return new(get) }

func (g *get) Read(*codec.Wire) (f *failure.Failure) {
	if f = codec.NoOptions(g.Msg, g.Subject.Verb.String()); f == nil {
		g.id, f = codec.ReadID(g.Subject.ID)
	}
	return f
}

func (g *get) find(v *view) (err error) {
	if g.item, err = v.queue.Get(v.reader, g.id); err != nil {
		return err
	}
	if g.item == nil {
		g.Failure = failure.NoItem(g.Subject.Queue, g.Subject.ID)
		return nil
	}
	counts, err := v.queue.Counts(v.reader)
	g.ready = counts.Ready
	g.Failure = v.Limit.Unshowable(g.Subject.Queue, &g.item.Item, g.item.Unique)
	return err
}

func (g *get) size() int64 {
	if g.item == nil {
		return 0
	}
	return g.item.Size
}

func (g *get) answer(l *lane) {
	item, w := g.item, &l.header
	w.Reset()
	w.Stored(item, l.store.Display)
	w.Behind(g.ready)
	m := nats.Msg{Subject: g.Msg.Reply, Header: w.Finish(), Data: item.Payload}
	codec.AddHeaders(m.Header, item.Headers)
	l.Publish(&m)
	l.Done(&g.Request, nil)
}
