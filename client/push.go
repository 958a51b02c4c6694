package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// Pushed is the result of a push.
type Pushed struct {
	ID       string
	Seq      uint64 // its place in push order
	Priority int64

	// Duplicate: the push added no item. ID and Seq belong to the item with its message id, or with its [Unique]
	// value. After a lost answer the client cannot tell whether its first attempt has added the item, and says
	// false; [MsgID] is for programs that have to know.
	Duplicate bool

	// Evicted: the queue was full, and this was its least urgent item.
	Evicted bool
}

// PushOption is an option of a push.
type PushOption func(*push)

// push is an item on its way.
type push struct {
	priority *int64
	header   nats.Header
	hangsUp  bool // its caller cancels it when nobody waits for its result any longer
	once     bool // it has an id: the caller's, or a random one
}

// Priority sets the item's priority; low numbers are first at [Min]. Without it the item
// gets the queue's default.
func Priority(priority int64) PushOption { return func(p *push) { p.priority = &priority } }

// Delay makes the item ready only after d.
func Delay(d time.Duration) PushOption {
	return func(p *push) { p.header.Set(protocol.HeaderDelay, d.String()) }
}

// NotBefore makes the item ready only at a time, by the bridge's clock.
func NotBefore(t time.Time) PushOption {
	return func(p *push) { p.header.Set(protocol.HeaderNotBefore, t.UTC().Format(time.RFC3339Nano)) }
}

// TTL sets how long the item may wait for a pop. After that it is dropped, or becomes a
// dead letter if the queue is configured so.
func TTL(d time.Duration) PushOption {
	return func(p *push) { p.header.Set(protocol.HeaderTTL, d.String()) }
}

// MsgID gives the push an id: of all pushes with this id within the queue's dedup_window
// (2 minutes unless configured otherwise) only the first one adds an item.
func MsgID(id string) PushOption {
	return func(p *push) { p.header.Set(protocol.HeaderMsgID, id) }
}

// Key says whose item it is: a customer's, a tenant's, a document's. The queue's configuration decides how many
// items of one key are leased at a time, in which order and at which rate they go, and whether keys take turns.
func Key(key string) PushOption {
	return func(p *push) { p.header.Set(protocol.HeaderKey, key) }
}

// Weight sets the share of the item's [Key] where keys take turns, 1 to 1000, until the key has no items any more.
// A weight that an administrator has set wins.
func Weight(weight int) PushOption {
	return func(p *push) { p.header.Set(protocol.HeaderWeight, strconv.Itoa(weight)) }
}

// Unique gives the item a value that no other item of the queue has until this one is gone or dead. If another item
// has the value, the push adds nothing; see [OnConflict].
func Unique(value string) PushOption {
	return func(p *push) { p.header.Set(protocol.HeaderUnique, value) }
}

// UniqueUntilLeased makes the item give up its [Unique] value at its first lease: a later push then adds an item,
// so its news is not dropped.
func UniqueUntilLeased() PushOption {
	return func(p *push) { p.header.Set(protocol.HeaderUniqueUntil, UntilLeased) }
}

// UntilLeased is the value of an item's UniqueUntil.
const UntilLeased = protocol.UntilLeased

// Conflict says what a push does if another item has its [Unique] value.
type Conflict string

const (
	Keep    Conflict = "keep"    // nothing
	Replace Conflict = "replace" // give the other item the payload and the headers; [ErrLeased] if it is leased
	Raise   Conflict = "raise"   // give the other item the more urgent priority of the two
)

// OnConflict sets what the push does if another item has its [Unique] value; [Keep] if it
// is not set.
func OnConflict(c Conflict) PushOption {
	return func(p *push) { p.header.Set(protocol.HeaderOnConflict, string(c)) }
}

// ResultTTL asks the queue to keep what becomes of the item, for d at least: it rounds d up to 1m, 10m, 1h, 6h, 24h or
// 168h. While the results of the queue, and items that are yet to leave one, take its result_bytes, such a push is refused:
// [ErrBusy] with [ReasonResults].
func ResultTTL(d time.Duration) PushOption {
	return func(p *push) { p.header.Set(protocol.HeaderResultTTL, d.String()) }
}

// Cost is how much each delivery of the item takes of the cost_rate of the queue and of its key: 1 unless it is given, up to 1,000,000.
// It may be a guess, see [Item.Spent].
func Cost(n int64) PushOption {
	return func(p *push) { p.header.Set(protocol.HeaderCost, strconv.FormatInt(n, 10)) }
}

// Header adds headers that stay with the item.
func Header(header nats.Header) PushOption {
	return func(p *push) { maps.Copy(p.header, header) }
}

// WithoutMsgID pushes without an id. It is for pushing more than some 8,000 items a second to one queue, because a
// queue remembers a limited number of ids (1,000,000 in 2 minutes by default). An unanswered push without an id
// fails with [ErrUnknownResult] instead of being sent again.
func WithoutMsgID() PushOption { return func(p *push) { p.once = false } }

// Push adds an item to the queue and returns when it is durable.
//
// The client gives a push without [MsgID] a random id, so that a repeated push after a
// lost answer adds no second item.
func (q *Queue) Push(ctx context.Context, payload []byte, opts ...PushOption) (Pushed, error) {
	f, err := q.PushAsync(ctx, payload, opts...)
	if err != nil {
		return Pushed{}, err
	}
	return f.Result()
}

// PushAsync pushes like Push, but does not wait for the answer: it returns when the item was sent, or is about to
// be sent with others. While [MaxInFlight] pushes are unanswered it waits, until ctx ends. The payload must not
// change before the answer arrives.
//
// Items that one goroutine sends one after another keep their order within a priority, unless a push is repeated.
func (q *Queue) PushAsync(ctx context.Context, payload []byte, opts ...PushOption) (*Future, error) {
	p, err := q.newPush(payload, opts)
	if err != nil {
		return nil, err
	}
	return q.client.send(ctx, p)
}

// PushAndForget publishes an item and asks for no answer, so the result is unknown. The
// bridge counts pushes that it cannot store, and reports them by an error event of the
// queue.
func (q *Queue) PushAndForget(payload []byte, opts ...PushOption) error {
	p, err := q.newPush(payload, append([]PushOption{WithoutMsgID()}, opts...))
	if err != nil {
		return err
	}
	return q.client.publish("push", q.name, p.msg)
}

// Flush waits until all pushes that were sent are answered, whatever the answers.
func (c *Client) Flush(ctx context.Context) error { return c.inFlight.flush(ctx) }

// msgID is the kind of a push's id.
type msgID int

const (
	noID    msgID = iota // none, so the push must not be sent again
	givenID              // the caller's
	madeID               // a unique one, made by the client
)

// newPush makes a push.
func (q *Queue) newPush(payload []byte, opts []PushOption) (*pushCall, error) {
	p := push{header: make(nats.Header), once: true}
	for _, opt := range opts {
		opt(&p)
	}
	subject := subjects.Subject{Queue: q.name, Verb: subjects.Push}
	if p.priority != nil {
		subject.Priority, subject.HasPriority = *p.priority, true
	}
	to, err := q.client.grammar.Build(subject)
	if err != nil {
		return nil, err
	}
	id := noID
	switch {
	case p.header.Get(protocol.HeaderMsgID) != "":
		id = givenID
	case p.once:
		p.header.Set(protocol.HeaderMsgID, nuid.Next())
		id = madeID
	}
	m := &nats.Msg{Subject: to, Data: payload, Header: p.header}
	return &pushCall{client: q.client, op: "push", queue: q.name, msg: m, priority: p.priority, id: id}, nil
}

// readPushed reads the answer to a push.
func readPushed(m *nats.Msg, op, queue string) (Pushed, *Error) {
	if e := answered(m, op, queue); e != nil {
		return Pushed{}, e
	}
	var a protocol.PushResponse
	if err := json.Unmarshal(m.Data, &a); err != nil || a.ID == "" && a.Error == nil {
		return Pushed{}, unreadable(op, queue, m.Data, err)
	}
	if a.Error != nil {
		return Pushed{}, &Error{Op: op, Queue: queue, Code: a.Error.Code, Description: a.Error.Description}
	}
	return Pushed{ID: a.ID, Seq: uint64(a.Seq), Priority: a.Priority, Duplicate: a.Duplicate, Evicted: a.Evicted}, nil
}

// unreadable is the error of an answer that is not of this protocol: another program listens on the subject, or the
// responder speaks another version.
func unreadable(op, queue string, body []byte, cause error) *Error {
	const most = 60
	text := strings.ToValidUTF8(string(body[:min(len(body), most)]), "?")
	if cause == nil {
		cause = errors.New("fields are missing")
	}
	return &Error{
		Op: op, Queue: queue, Code: protocol.CodeUnknownResult, cause: cause,
		Description: fmt.Sprintf("the answer %s cannot be read: %v", strconv.Quote(text), cause),
	}
}

// readResults reads the results of the items of a bundle. If all items were added, it reads the answer without
// encoding/json, which would be an eighth of a client's work for a push.
func readResults(body []byte) ([]protocol.PushResult, error) {
	if results, ok := readPlainResults(body); ok {
		return results, nil
	}
	var a protocol.PushResponse
	err := json.Unmarshal(body, &a)
	return a.Items, err
}

// readPlainResults reads an answer in which all items were added, and reports false for any other.
func readPlainResults(body []byte) (results []protocol.PushResult, ok bool) {
	_, rest, ok := bytes.Cut(body, []byte(`,"items":[`))
	results = make([]protocol.PushResult, 0, len(rest)/minResult)
	for more := ok; more; {
		var r protocol.PushResult
		text := words{rest, true}
		text.skip(`{"seq":`)
		r.Seq = text.number()
		r.Duplicate = text.has(`,"duplicate":true`)
		text.skip(`,"id":"`)
		r.ID = text.plain()
		text.skip(`","priority":`)
		r.Priority = text.number()
		r.Evicted = text.has(`,"evicted":true`)
		text.skip("}")
		if more = text.has(","); !more {
			text.skip("]}")
			ok = text.ok && len(text.rest) == 0
		}
		more, rest = more && text.ok, text.rest
		ok = ok && text.ok
		results = append(results, r)
	}
	return results, ok
}

// minResult is the length of the shortest result.
const minResult = len(`{"seq":1,"id":"","priority":0},`)

// words reads a text that has to consist of the expected words.
type words struct {
	rest []byte
	ok   bool
}

func (w *words) has(text string) bool {
	rest, has := bytes.CutPrefix(w.rest, []byte(text))
	w.rest = rest
	return has
}

func (w *words) skip(text string) { w.ok = w.has(text) && w.ok }

// number reads an integer in decimal.
func (w *words) number() int64 {
	end := 0
	for end < len(w.rest) && (w.rest[end] == '-' || w.rest[end] >= '0' && w.rest[end] <= '9') {
		end++
	}
	n, err := strconv.ParseInt(string(w.rest[:end]), 10, 64)
	w.ok = w.ok && err == nil
	w.rest = w.rest[end:]
	return n
}

// plain reads text without escapes, up to a quotation mark.
func (w *words) plain() string {
	end := bytes.IndexByte(w.rest, '"')
	if end < 0 || bytes.IndexByte(w.rest[:end], '\\') >= 0 {
		w.ok = false
		return ""
	}
	text := string(w.rest[:end])
	w.rest = w.rest[end:]
	return text
}
