package client

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/internal/lanes"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// Pushes to a queue at the same time go together, each with an id of its own: neither a repetition of their message
// nor a later message of a single push adds anything twice. Pushes without an id go with their like, and are not
// repeated.
//
// Pushes of several priorities go together on the subject without a priority. The client does not try whether its
// user may publish there: the server would report that to the program's error handler. Until the program itself has
// published there, each priority has a lane of its own.

// pushResultBytes is the room in an answer for the result of a push.
const pushResultBytes = 160

// headerTrace asks the server to report the way of a message, so such a push needs a message of its own.
const headerTrace = "Nats-Trace-Dest"

// pushes are the pushes of a client that may go together.
type pushes struct {
	*lanes.Lanes[*pushCall]
	client *Client
	most   int           // in one message
	rights *lanes.Rights // to push without a priority in the subject
	may    bool          // the program says that its user has it for all queues
}

func newPushes(c *Client, most int, may bool) *pushes {
	p := &pushes{client: c, most: most, may: may, rights: lanes.NewRights(c.mailbox.admitted.Load)}
	p.Lanes = lanes.New(p.bounds, func(key lanes.Key, calls []*pushCall) {
		_ = c.ship(calls, func() { p.Land(key) }) // each call has its error
	})
	return p
}

func (p *pushes) bounds() (calls, bytes int) {
	largest := p.client.nc.MaxPayload()
	return max(1, min(p.most, int(largest)/pushResultBytes)), lanes.Bytes(largest)
}

// depart sends a push, alone or with others.
func (p *pushes) depart(c *pushCall) error {
	_, traced := c.msg.Header[headerTrace]
	_, handsOver := c.msg.Header[protocol.HeaderSettle]
	c.single = traced || handsOver || c.size > lanes.MaxTogether
	own := lanes.Key{Queue: c.queue, Subject: c.msg.Subject}
	key := own
	if c.priority != nil && p.mixes(c.queue) {
		key.Subject = "" // for the subject without a priority
	}
	if c.priority == nil {
		own.Subject, key.Subject = "", ""
	}
	at, alone := p.Join(own, key, c)
	if alone {
		return p.client.ship([]*pushCall{c}, func() { p.Land(at) })
	}
	c.place.joined(at)
	return nil
}

// mixes reports whether pushes of all priorities may have one subject.
func (p *pushes) mixes(queue string) bool {
	if p.may {
		return true
	}
	may, _ := p.rights.Of(queue)
	return may
}

func (p *pushCall) Bytes() int                { return p.size }
func (p *pushCall) Apart() bool               { return p.single }
func (p *pushCall) GoesWith(q *pushCall) bool { return (p.id == noID) == (q.id == noID) }

// shipment is a message with pushes, under way.
type shipment struct {
	sending
	calls []*pushCall
	land  func()
}

// ship sends pushes in one message, and calls landed when the message is not under way any more. If it cannot be
// sent, the error is the error of the first push.
func (c *Client) ship(calls []*pushCall, landed func()) error {
	s := c.newShipment(calls, landed)
	err := s.begin()
	if err != nil {
		s.finish(nil, err)
	}
	return err
}

func (c *Client) newShipment(calls []*pushCall, landed func()) *shipment {
	s := &shipment{land: landed}
	if landed == nil {
		s.land = func() {}
	}
	s.client, s.op, s.queue, s.callers = c, calls[0].op, calls[0].queue, len(calls)
	s.repeatable, s.done, s.unwanted, s.msg = calls[0].id != noID, s.conclude, s.land, &nats.Msg{}
	s.receive()
	for _, p := range calls {
		if p.place.board(&s.sending) {
			s.calls = append(s.calls, p)
		}
	}
	s.load()
	return s
}

// load writes the message.
func (s *shipment) load() {
	switch len(s.calls) {
	case 0:
	case 1:
		of := s.calls[0].msg
		s.msg.Subject, s.msg.Header, s.msg.Data = of.Subject, of.Header, of.Data
	default:
		s.divides = refusesOne
		s.msg.Subject = s.subject()
		s.msg.Header = nats.Header{protocol.HeaderBundle: {strconv.Itoa(len(s.calls))}, protocol.HeaderEach: {"true"}}
		s.msg.Data = s.frames()
	}
}

// subject is the common subject of all pushes, or the subject without a priority.
func (s *shipment) subject() string {
	first := s.calls[0].msg.Subject
	for _, p := range s.calls {
		if p.msg.Subject != first {
			to, _ := s.client.grammar.Build(subjects.Subject{Queue: s.queue, Verb: subjects.Push}) // as the subject of each push was built
			return to
		}
	}
	return first
}

func (s *shipment) frames() []byte {
	size := 0
	for _, p := range s.calls {
		size += p.size
	}
	body := make([]byte, 0, size)
	var headers []byte
	for _, p := range s.calls {
		headers = headers[:0]
		if p.msg.Subject != s.msg.Subject && p.priority != nil {
			headers = append(headers, protocol.HeaderPriority+": "...)
			headers = append(strconv.AppendInt(headers, *p.priority, 10), '\n')
		}
		headers = protocol.AppendHeaders(headers, p.msg.Header)
		body = protocol.AppendFrame(body, headers, p.msg.Data)
	}
	return body
}

// refusesOne reports whether a bundle is refused for a reason that may concern only some of its calls. Nothing was
// done.
func refusesOne(e *Error) bool {
	switch e.Code {
	case protocol.CodeTooLarge:
		return true
	case protocol.CodeBusy:
		return e.Reason != ReasonBusy && e.Reason != ReasonStoreFull && e.Reason != ""
	}
	return false
}

// conclude gives each push its result.
func (s *shipment) conclude(m *nats.Msg, err error) {
	s.land()
	if len(s.calls) == 1 {
		s.concludeOne(m, err)
		return
	}
	var e *Error
	switch {
	case errors.As(err, &e) && refusesOne(e):
		s.divide()
	case err != nil:
		s.fail(err)
	default:
		s.read(m)
	}
}

func (s *shipment) concludeOne(m *nats.Msg, err error) {
	p := s.calls[0]
	if err != nil {
		p.end(Pushed{}, err)
		return
	}
	pushed, e := readPushed(m, s.op, s.queue)
	if e != nil {
		p.end(Pushed{}, e)
		return
	}
	s.succeeded()
	p.pushed(pushed)
}

// succeeded notes that the user may push without a priority in the subject.
func (s *shipment) succeeded() {
	to := s.client.pushes
	if s.op == "push" && s.calls[0].priority == nil && !to.mixes(s.queue) {
		to.rights.Set(s.queue, true)
	}
}

// divide sends each push in a message of its own.
func (s *shipment) divide() {
	for _, p := range s.calls {
		p.place.unboard(false)
		_ = s.client.ship([]*pushCall{p}, nil) // the push has its error
	}
}

// fail ends all pushes with an error.
func (s *shipment) fail(err error) {
	for _, p := range s.calls {
		one := err
		var e *Error
		if errors.As(err, &e) {
			one = new(*e) // each caller may change its own
		}
		p.end(Pushed{}, one)
	}
}

// read reads the answer to a bundle.
func (s *shipment) read(m *nats.Msg) {
	results, err := readResults(m.Data)
	if err != nil || len(results) != len(s.calls) {
		s.fail(unreadable(s.op, s.queue, m.Data, err))
		return
	}
	s.succeeded()
	for i, r := range results {
		if r.Error != nil {
			s.refuse(s.calls[i], r.Error)
			continue
		}
		s.calls[i].pushed(Pushed{ID: r.ID, Seq: uint64(r.Seq), Priority: r.Priority, Duplicate: r.Duplicate, Evicted: r.Evicted})
	}
}

// refuse ends a push that was refused while others of its message were not, or repeats it if that may help.
func (s *shipment) refuse(p *pushCall, why *protocol.Error) {
	e := &Error{Op: s.op, Queue: s.queue, Code: why.Code, Reason: why.Reason, Description: why.Description}
	p.place.unboard(e.Code == protocol.CodeUnknownResult)
	one := s.client.newShipment([]*pushCall{p}, nil)
	one.retry = s.retry
	if !one.resend(e) {
		one.finish(nil, e)
	}
}

// unbundled returns the items of a bundle as messages of their own, and the end of a batch
// behind them; other messages as they are.
func unbundled(m *nats.Msg) []*nats.Msg {
	if len(m.Header[protocol.HeaderBundle]) == 0 {
		return []*nats.Msg{m}
	}
	var all []*nats.Msg
	for rest := m.Data; len(rest) > 0; {
		item := &nats.Msg{Header: make(nats.Header)}
		headers, payload, after, err := protocol.NextFrame(rest)
		for len(headers) > 0 && err == nil {
			var name, value string
			if name, value, headers, err = protocol.NextHeader(headers); err == nil {
				item.Header[name] = append(item.Header[name], value)
			}
		}
		if err != nil {
			return append(all, &nats.Msg{Data: rest}) // the rest is no valid answer to a pop
		}
		item.Data, rest = bytes.Clone(payload), after // one item must not keep the whole bundle in memory
		all = append(all, item)
	}
	return append(all, &nats.Msg{Header: nats.Header{protocol.HeaderStatus: {protocol.StatusEndOfBatch}}})
}
