package bridge

import (
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
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

func (g *get) read(*wire) (f *failure.Failure) {
	if f = noOptions(&g.Request); f == nil {
		g.id, f = readID(g.Subject.ID)
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
	g.Failure = v.answerLimit.unshowable(g.Subject.Queue, &g.item.Item, g.item.Unique)
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
	w.reset()
	w.item(&item.Item)
	w.string(protocol.HeaderState, string(item.State))
	if item.WaitsFor != "" {
		w.string(protocol.HeaderWaitsFor, string(item.WaitsFor))
	}
	if item.State == fdbpq.StateReady && item.Key != "" {
		w.text = strconv.AppendInt(w.text, int64(item.KeyAhead), 10)
		w.end(protocol.HeaderKeyAhead)
	}
	if item.Fence > 0 {
		w.text = strconv.AppendInt(w.text, item.Fence, 10)
		w.end(protocol.HeaderFence)
	}
	if item.KeyFence > 0 {
		w.text = strconv.AppendInt(w.text, item.KeyFence, 10)
		w.end(protocol.HeaderKeyFence)
	}
	if item.Expires != 0 {
		w.text = appendTime(w.text, l.store.Display(item.Expires))
		w.end(protocol.HeaderExpires)
	}
	if item.Unique != "" {
		w.string(protocol.HeaderUnique, item.Unique)
	}
	if item.UniqueUntilLeased {
		w.string(protocol.HeaderUniqueUntil, protocol.UntilLeased)
	}
	w.text = strconv.AppendInt(w.text, g.ready, 10)
	w.end(protocol.HeaderNumPending)
	switch item.State {
	case fdbpq.StateLeased:
		w.text = appendTime(w.text, l.store.Display(item.Due))
		w.end(protocol.HeaderLeaseExpires)
	case fdbpq.StateDelayed:
		w.text = appendTime(w.text, l.store.Display(item.Due))
		w.end(protocol.HeaderNotBefore)
	}
	w.finish()
	addHeaders(w.fields, item.Headers)
	l.Publish(&nats.Msg{Subject: g.Msg.Reply, Header: w.fields, Data: item.Payload})
	l.Done(&g.Request, nil)
}
