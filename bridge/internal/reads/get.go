package reads

import (
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/explain"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/subjects"
)

// get shows an item, whatever its state.
type get struct {
	request.Request
	id           fdbpq.ID
	item         *fdbpq.StoredItem
	ready        int64  // items in its queue
	withAttempts bool   // for the attempts of the item, and not only their number
	attempts     string // of the item, if they were asked for

	explains  bool // why it is not handed out
	explained explain.Explained
}

func Get(subjects.Verb) desk.Work { return new(get) }

func (g *get) Read(*codec.Wire) (f *failure.Failure) {
	f = codec.ReadFlags(g.Msg, g.Subject.Verb.String(), map[string]*bool{"attempts": &g.withAttempts, "explain": &g.explains})
	if f == nil {
		g.id, f = codec.ReadID(g.Subject.ID)
	}
	return f
}

func (g *get) Find(v *View) (err error) {
	if g.item, err = v.Queue.Get(v.Reader, g.id); err != nil {
		return err
	}
	if g.item == nil {
		g.Failure = failure.NoItem(g.Subject.Queue, g.Subject.ID)
		return nil
	}
	if g.withAttempts && g.item.Attempts != "" {
		if g.attempts, err = codec.AttemptsText(g.item.Attempts); err != nil {
			return err
		}
	}
	if g.explains {
		if g.explained, err = v.Explainer.Item(v.Reader, v.Queue, g.item); err != nil {
			return err
		}
	}
	counts, err := v.Queue.Counts(v.Reader)
	g.ready = counts.Ready
	g.Failure = v.Limit.Unshowable(g.Subject.Queue, g.item)
	return err
}

func (g *get) Bytes() int64 {
	if g.item == nil {
		return 0
	}
	return g.item.Size
}

// Answer first asks other bridges, if they may know more. Other requests of the queue do not wait for that.
func (g *get) Answer(l *Desk) {
	if !g.explains || !g.explained.Open() {
		g.send(l, &l.header)
		return
	}
	go func() {
		l.Explainer.Complete(&g.explained)
		g.send(l, new(codec.HeaderWriter))
	}()
}

func (g *get) send(l *Desk, w *codec.HeaderWriter) {
	item := g.item
	w.Reset()
	w.Stored(item, l.Store.Display)
	w.Behind(g.ready)
	room := l.Limit.Left(w, item.Size)
	w.Progress(&item.Item, &room)
	w.Retries(item, g.attempts, &room)
	if g.explains {
		w.Explain(g.explained.Answer(time.Now()), room)
	}
	m := nats.Msg{Subject: g.Msg.Reply, Header: w.Finish(), Data: item.Payload}
	codec.AddHeaders(m.Header, item.Headers)
	g.Share.Owe(0, int(item.Size))
	l.Done(&g.Request, l.Responder.Answer(&g.Request, &m))
}
