package bridge

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/batch"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// listing is what a request for a page asks for.
type listing struct {
	page   fdbpq.Listing
	offset int64 // of _sys.list
}

// readQuery reads what a request asks for that changes nothing.
func readQuery(r *request) *failure {
	if f := noOwnHeaders(r.msg.Header, r.subject.Verb.String()); f != nil {
		return f
	}
	switch r.subject.Verb {
	case subjects.List:
		return r.readListing("limit, after, state, bodies")
	case subjects.SysList:
		return r.readListing("offset, limit")
	}
	if f := noBody(r); f != nil {
		return f
	}
	if r.subject.Verb == subjects.Get {
		return r.readID()
	}
	return nil
}

func (r *request) readListing(fields string) *failure {
	r.listing = listing{page: fdbpq.Listing{Limit: protocol.DefaultListLimit}}
	if len(bytes.TrimSpace(r.msg.Data)) == 0 {
		return nil
	}
	return readObject("the body", r.msg.Data, fields, r.listField)
}

func (r *request) listField(name string, value any) (known bool, f *failure) {
	l, sys := &r.listing, r.subject.Verb == subjects.SysList
	switch {
	case name == "limit":
		var n int64
		n, f = readInteger(name, value, 1, math.MaxInt64)
		l.page.Limit = int(min(n, fdbpq.MaxBatch))
	case name == "offset" && sys:
		l.offset, f = readInteger(name, value, 0, math.MaxInt64)
	case sys:
		return false, nil
	case name == "bodies":
		l.page.Bodies, f = readBool(name, value)
	case name == "after":
		var s string
		if s, f = readString(name, value); f == nil {
			id, err := fdbpq.ParseID(s)
			if err != nil {
				f = failf(400, "after is %s: %s", shown(s), err)
			}
			l.page.After = &id
		}
	case name == "state":
		var s string
		s, f = readString(name, value)
		l.page.State = fdbpq.State(s)
		switch l.page.State {
		case fdbpq.StateReady, fdbpq.StateLeased, fdbpq.StateDelayed:
		default:
			if f == nil {
				f = failf(400, `state is %s: expected "ready", "leased" or "delayed"`, shown(s))
			}
		}
	default:
		return false, nil
	}
	return true, f
}

// reads is the work of a lane of requests that change nothing.
type reads struct{ *lane }

// Work serves a batch of reads.
func (l *reads) Work(now batch.Batch[*request]) { batch.Run(now.Requests, l) }

// Try serves requests on one state of the store, until their answers are large
// enough to be sent first.
func (l *reads) Try(requests []*request) (done int, err error) {
	started := time.Now()
	err = l.view(func(reader kv.Reader) error {
		queues := queueNames{bridge: l.bridge, reader: reader}
		bytes := int64(0)
		for done = 0; done < len(requests) && bytes < int64(l.bridge.options.Limits.BatchBytes); done++ {
			r := requests[done]
			r.outcome = outcome{}
			if err := l.bridge.read(reader, &queues, l.queue, r); err != nil {
				return err
			}
			bytes += r.outcome.size()
		}
		return nil
	})
	if err == nil {
		l.bridge.stats.ran(kindRead, done, started)
	}
	return done, err
}

// Answer answers reads.
func (l *reads) Answer(requests []*request, err error) {
	if err != nil {
		l.bridge.refuseAll(requests, err)
		return
	}
	b := l.bridge
	for _, r := range requests {
		switch {
		case r.verb == verbPeek:
			b.answerPop(l.lane, r)
		case r.outcome.failure != nil:
			b.refuse(r, r.outcome.failure)
		case r.verb == verbGet:
			b.answerHeld(l.lane, r)
		default:
			b.answerBody(r)
		}
	}
}

// size is what an outcome takes in memory, roughly.
func (o *outcome) size() int64 {
	n := int64(len(o.body))
	for i := range o.items {
		n += o.items[i].Size
	}
	if o.held != nil {
		n += o.held.Size
	}
	return n
}

func (b *Bridge) read(reader kv.Reader, queues *queueNames, q fdbpq.Queue, r *request) error {
	switch r.subject.Verb {
	case subjects.PeekMin, subjects.PeekMax:
		return b.peek(reader, q, r)
	case subjects.Get:
		return b.get(reader, q, r)
	case subjects.Info:
		return b.info(reader, q, r)
	case subjects.List:
		return b.list(reader, q, r)
	case subjects.SysList:
		return queues.list(r)
	}
	return b.describe(r)
}

func (b *Bridge) peek(reader kv.Reader, q fdbpq.Queue, r *request) error {
	taken, err := q.Peek(reader, r.pop.selection())
	if err != nil {
		return err
	}
	r.peeked(b, q.Name(), &taken)
	return nil
}

// peeked keeps what a peek has found, up to the first item that cannot be sent.
func (r *request) peeked(b *Bridge, queue string, taken *fdbpq.Popped) {
	items := taken.Items
	if len(items) == 0 {
		r.outcome.failure = nothing(queue, taken.Reason)
	}
	for i := range items {
		if f := b.room.unanswerable(queue, &items[i]); f != nil {
			if items = items[:i]; i == 0 {
				r.outcome.failure = f
			}
			break
		}
	}
	r.outcome.items = items
	r.outcome.ready = max(0, taken.Ready-int64(len(items)))
}

func (b *Bridge) get(reader kv.Reader, q fdbpq.Queue, r *request) error {
	held, err := q.Get(reader, r.id)
	if err != nil {
		return err
	}
	if held == nil {
		r.outcome.failure = noItem(q.Name(), r.subject.ID)
		return nil
	}
	counts, err := q.Counts(reader)
	r.outcome.held, r.outcome.ready = held, counts.Ready
	r.outcome.failure = b.room.unanswerable(q.Name(), &held.Item)
	return err
}

// answerHeld sends an item that was asked for by its id.
func (b *Bridge) answerHeld(l *lane, r *request) {
	held := r.outcome.held
	w := &l.header
	w.reset()
	w.item(&held.Item)
	w.string(protocol.HeaderState, string(held.State))
	if held.Fence > 0 {
		w.text = strconv.AppendInt(w.text, held.Fence, 10)
		w.end(protocol.HeaderFence)
	}
	if held.Expires != 0 {
		w.text = appendTime(w.text, b.store.Display(held.Expires))
		w.end(protocol.HeaderExpires)
	}
	w.text = strconv.AppendInt(w.text, r.outcome.ready, 10)
	w.end(protocol.HeaderNumPending)
	switch held.State {
	case fdbpq.StateLeased:
		w.text = appendTime(w.text, b.store.Display(held.Due))
		w.end(protocol.HeaderLeaseExpires)
	case fdbpq.StateDelayed:
		w.text = appendTime(w.text, b.store.Display(held.Due))
		w.end(protocol.HeaderNotBefore)
	}
	w.finish()
	addHeaders(w.fields, held.Headers)
	b.publish(&nats.Msg{Subject: r.msg.Reply, Header: w.fields, Data: held.Payload})
	b.done(r, nil)
}

// pageReserve is kept of an answer's size for what stands around the items.
const pageReserve = 256

func (b *Bridge) list(reader kv.Reader, q fdbpq.Queue, r *request) error {
	page, err := q.List(reader, r.listing.page)
	if err != nil {
		return r.unlessUnknown(err)
	}
	room := int(b.nc.MaxPayload()) - pageReserve
	body := []byte(`{"items":[`)
	var last string
	more := page.More
	for i := range page.Items {
		item := b.listed(&page.Items[i], r.listing.page.Bodies)
		text, err := json.Marshal(item)
		if err != nil {
			return err
		}
		if len(body)+len(text) > room && i > 0 {
			more = true
			break
		}
		if text, err = fitting(item, text, room-len(body)); err != nil {
			return err
		}
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, text...)
		last = item.ID
	}
	body = append(body, ']')
	if more && last != "" {
		body = append(append(append(body, `,"next":"`...), last...), '"')
	}
	r.outcome.body = append(body, '}')
	return nil
}

// fitting leaves out what makes the first item of a page too large for an answer:
// get has it. In JSON a header may be six times as long as in a message.
func fitting(l *protocol.Listed, text []byte, room int) ([]byte, error) {
	for _, leaveOut := range []func(){
		func() { l.Body = nil },
		func() { l.Headers = nil },
		func() { l.Dead = nil },
	} {
		if len(text) <= room {
			break
		}
		leaveOut()
		var err error
		if text, err = json.Marshal(l); err != nil {
			return nil, err
		}
	}
	return text, nil
}

func (b *Bridge) listed(held *fdbpq.StoredItem, withBody bool) *protocol.Listed {
	headers := make(nats.Header)
	addHeaders(headers, held.Headers)
	item := &protocol.Listed{
		ID:         held.ID.String(),
		Priority:   held.Priority,
		State:      protocol.State(held.State),
		Deliveries: held.Deliveries,
		Pushed:     held.Pushed.UTC(),
		Size:       held.Size,
		Fence:      held.Fence,
		Headers:    headers,
	}
	if held.State != fdbpq.StateReady {
		item.Due = b.store.Display(held.Due).UTC()
	}
	if held.Expires != 0 {
		item.Expires = b.store.Display(held.Expires).UTC()
	}
	if held.Dead != nil {
		item.Dead = (*protocol.Death)(held.Dead)
	}
	if withBody {
		item.Body = append([]byte{}, held.Payload...) // empty is not left out
	}
	return item
}
