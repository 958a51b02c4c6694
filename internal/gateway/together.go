package gateway

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/internal/lanes"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// Pushes to one queue at the same time go together in one message, and so do settlements. Each caller gets the same
// answer as for a message of its own: nothing is repeated, and if a bundle as a whole is refused and nothing was
// done, each request goes alone.

// maxAnswer is how much room the answer to a bundle needs for each request, with the text of an error.
const maxAnswer = 1 << 10

// boarder is a request that may go in one message with others.
type boarder struct {
	ctx      context.Context
	msg      *nats.Msg // the message for the request alone
	priority string    // that its subject has; "": none
	size     int
	single   bool          // it has a message of its own
	landed   chan *landing // gets one value
}

// landing is the answer to one request of a bundle.
type landing struct {
	reply *nats.Msg
	why   *refusal
	again bool // nothing was done, and the request goes alone
}

func (b *boarder) Bytes() int             { return b.size }
func (b *boarder) Apart() bool            { return b.single }
func (b *boarder) GoesWith(*boarder) bool { return true }

// together sends requests of one kind in one message with others of the same queue.
type together struct {
	*lanes.Lanes[*boarder]
	wire   *wire
	of     kind
	rights *lanes.Rights // to send to the common subject
}

// kind says how requests of one kind go together.
type kind struct {
	// load writes a message with all requests. to is their common subject, the queue of their lane.
	load func(to string, all []*boarder) *nats.Msg

	// unload returns the answers to the requests, nil if it cannot read them.
	unload func(answer *nats.Msg, n int) []*landing
}

func newTogether(w *wire, of kind) *together {
	t := &together{wire: w, of: of, rights: lanes.NewRights(func() uint64 { return w.nc.Stats().Reconnects })}
	t.Lanes = lanes.New(t.bounds, t.send)
	return t
}

func (t *together) bounds() (calls, bytes int) {
	largest := t.wire.nc.MaxPayload()
	return max(1, min(protocol.MaxBundle, int(largest)/maxAnswer)), lanes.Bytes(largest)
}

// ask sends a request, alone or with others, and returns its answer. Requests of one lane go together.
func (t *together) ask(own, key lanes.Key, b *boarder) (*nats.Msg, *refusal) {
	b.single = b.single || b.size > lanes.MaxTogether
	b.landed = make(chan *landing, 1)
	key, alone := t.Join(own, key, b)
	if alone {
		defer t.Land(key)
		return t.askAlone(key, b)
	}
	select {
	case l := <-b.landed:
		return t.arrive(key, b, l)
	case <-b.ctx.Done():
	}
	if t.TakeOut(key, b) {
		return nil, silent(false)
	}
	select {
	case l := <-b.landed: // an answer that has arrived counts even if the time is up
		return t.arrive(key, b, l)
	default:
		return nil, silent(true)
	}
}

func (t *together) arrive(key lanes.Key, b *boarder, l *landing) (*nats.Msg, *refusal) {
	if l.again {
		return t.askAlone(key, b)
	}
	return l.reply, l.why
}

// askAlone sends a request in a message of its own.
func (t *together) askAlone(key lanes.Key, b *boarder) (*nats.Msg, *refusal) {
	reply, why := t.wire.ask(b.ctx, b.msg, true)
	if why == nil && b.msg.Subject == key.Queue {
		t.rights.Set(key.Queue, true)
	}
	return reply, why
}

// send sends requests in one message.
func (t *together) send(key lanes.Key, all []*boarder) {
	m := all[0].msg
	if len(all) > 1 {
		m = t.of.load(key.Queue, all)
	}
	c, why := t.wire.send(m, 1, true)
	if why != nil {
		t.Land(key)
		t.conclude(key, all, m, nil, why)
		return
	}
	go func() {
		reply, why := c.nextOf(all)
		c.end()
		t.Land(key)
		t.conclude(key, all, m, reply, why)
	}()
}

// nextOf is next for requests that share a message: it waits until the last of them gives up.
func (c *call) nextOf(all []*boarder) (*nats.Msg, *refusal) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	left := atomic.Int64{}
	left.Store(int64(len(all)))
	for _, b := range all {
		defer context.AfterFunc(b.ctx, func() {
			if left.Add(-1) == 0 {
				cancel()
			}
		})()
	}
	reply, why := c.next(ctx)
	if why == nil {
		why = refused(reply)
	}
	return reply, why
}

// conclude gives each request its answer.
func (t *together) conclude(key lanes.Key, all []*boarder, m, reply *nats.Msg, why *refusal) {
	if why == nil && m.Subject == key.Queue {
		t.rights.Set(key.Queue, true)
	}
	if len(all) == 1 {
		all[0].landed <- &landing{reply: reply, why: why}
		return
	}
	var each []*landing
	switch {
	case why == nil:
		if each = t.of.unload(reply, len(all)); each == nil {
			why = refusef(protocol.CodeUnknownResult, "the answer cannot be read: it was done, or it was not")
		}
	case why.Code == protocol.CodeForbidden && m.Subject == key.Queue:
		t.rights.Set(key.Queue, false)
	}
	for i, b := range all {
		switch {
		case each != nil:
			b.landed <- each[i]
		case why.ofBundle():
			b.landed <- &landing{again: true}
		default:
			b.landed <- &landing{why: new(*why)} // which names what each caller wrote
		}
	}
}

// ofBundle reports whether a bundle is refused for a reason that need not concern any of its requests. Nothing was done.
func (f *refusal) ofBundle() bool {
	return slices.Contains([]int{protocol.CodeForbidden, protocol.CodeTooLarge}, f.Code) ||
		f.Code == protocol.CodeBusy && f.Reason != protocol.ReasonStoreFull
}

// settlements are sent together, whoever has popped the items. The settlements of one lease keep their order.
var settlements = kind{load: loadSettlements, unload: unloadSettlements}

// settleTogether sends a settlement, with others if there are any.
func (in *input) settleTogether(m *nats.Msg) (*nats.Msg, *refusal) {
	w := in.gateway.wire.Load()
	if w == nil {
		return nil, starting()
	}
	bundle, why := in.message(subjects.Subject{Verb: subjects.Ack, Conn: "bundle", Token: "settle"}, nil)
	if why != nil {
		return nil, why
	}
	may, known := w.settlements.rights.Of(bundle.Subject)
	size := len(m.Subject) + len(m.Data) + len(" \n")
	result := bytes.HasPrefix(m.Data, []byte(protocol.SettleAck+" ")) // lines have none, and no headers
	single := known && !may || result || len(m.Header) > 0 || size > protocol.MaxBundledSettlement || bytes.ContainsAny(m.Data, "\r\n")
	b := &boarder{ctx: in.ctx, msg: m, size: size, single: single}
	key := lanes.Key{Queue: bundle.Subject}
	reply, why := w.settlements.ask(key, key, b)
	return reply, in.named(why)
}

// loadSettlements writes a bundle of settlements.
func loadSettlements(to string, all []*boarder) *nats.Msg {
	m := &nats.Msg{Subject: to, Header: nats.Header{protocol.HeaderBundle: {strconv.Itoa(len(all))}}}
	for _, b := range all {
		m.Data = append(m.Data, b.msg.Subject...)
		if len(b.msg.Data) > 0 { // the subject alone acknowledges
			m.Data = append(append(m.Data, ' '), b.msg.Data...)
		}
		m.Data = append(m.Data, '\n')
	}
	return m
}

// unloadSettlements reads the answer to a bundle of settlements.
func unloadSettlements(answer *nats.Msg, n int) []*landing {
	lines := strings.Split(strings.TrimSuffix(string(answer.Data), "\n"), "\n")
	if len(lines) != n {
		return nil
	}
	each := make([]*landing, n)
	for i, line := range lines {
		said, ok := protocol.ReadSettled(line)
		switch {
		case !ok:
			return nil
		case said.Refused != nil:
			each[i] = &landing{why: &refusal{Error: *said.Refused}}
		default:
			each[i] = &landing{reply: &nats.Msg{Header: nats.Header{}}}
			if said.Until != "" {
				each[i].reply.Header.Set(protocol.HeaderLeaseExpires, said.Until)
			}
			if said.Until != "" && said.Kept == protocol.ResultDropped {
				each[i].reply.Header.Set(protocol.HeaderNote, protocol.ResultDropped)
			}
		}
	}
	return each
}
