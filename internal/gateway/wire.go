package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
)

// wire sends requests of the protocol.
type wire struct {
	nc      *nats.Conn
	inbox   string // before the last token: to bridges all requests come from one client
	pending *pending
	lost    chan struct{} // closed when the connection is

	pushes, settlements *together
}

func newWire(nc *nats.Conn, of *pending) *wire {
	w := &wire{nc: nc, inbox: nc.NewInbox(), pending: of, lost: make(chan struct{})}
	w.pushes, w.settlements = newTogether(w, pushes), newTogether(w, settlements)
	return w
}

// call is a request under way. It has a reply subject and a subscription of its own, so the NATS server knows when
// nobody waits for the answer any more. The bridge asks the server about that before it gives a waiting pop an
// item.
type call struct {
	*wire
	subject string
	reply   string
	sub     *nats.Subscription
	answers chan *nats.Msg
	denied  chan error
	changes bool // without an answer it may have been done
}

// send sends a request that gets up to most answers.
func (w *wire) send(m *nats.Msg, most int, changes bool) (*call, *refusal) {
	if w == nil {
		return nil, starting()
	}
	c := &call{
		wire: w, subject: m.Subject, reply: w.inbox + "." + rand.Text(), changes: changes,
		answers: make(chan *nats.Msg, most), denied: make(chan error, 1),
	}
	var err error
	if c.sub, err = w.nc.ChanSubscribe(c.reply, c.answers); err != nil {
		return nil, unavailable(err)
	}
	w.pending.add(c)
	m.Reply = c.reply
	if err := w.nc.PublishMsg(m); err != nil {
		c.end()
		if errors.Is(err, nats.ErrMaxPayload) {
			return nil, refusef(protocol.CodeTooLarge, "%d bytes with headers: the NATS server takes %d, its max_payload", m.Size(), w.nc.MaxPayload())
		}
		return nil, unavailable(err)
	}
	return c, nil
}

func starting() *refusal {
	return refusef(protocol.CodeUnavailable, "pqd is starting, or about to make another connection to NATS, nothing was done: try again")
}

func unavailable(err error) *refusal {
	if errors.Is(err, nats.ErrReconnectBufExceeded) {
		return refusef(protocol.CodeUnavailable, "NATS is away, nothing was done: try again")
	}
	return refusef(protocol.CodeUnavailable, "NATS is away, nothing was done: try again (%s)", err)
}

// next returns the next answer, even if it is an error.
func (c *call) next(ctx context.Context) (*nats.Msg, *refusal) {
	why := silent(c.changes)
	select {
	case m := <-c.answers:
		return m, nil
	case err := <-c.denied:
		why = refusef(protocol.CodeForbidden, "the console's NATS user lacks a right: %s", err)
	case <-c.lost:
	case <-ctx.Done():
	}
	select {
	case m := <-c.answers:
		return m, nil
	default: // an answer that is there counts even if the time is up
	}
	return nil, why
}

// silent is the error of a request without an answer. done says that the request may have been done.
func silent(done bool) *refusal {
	if done {
		return refusef(protocol.CodeUnknownResult, "no answer: it was done, or it was not")
	}
	return refusef(protocol.CodeUnavailable, "no answer in time: try again")
}

// end ends the call.
func (c *call) end() {
	_ = c.sub.Unsubscribe() // fails when the connection is closed
	c.pending.remove(c)
}

// abandon ends the call before its last answer. Further answers go to late, which is called from another goroutine.
func (c *call) abandon(late func(*nats.Msg)) {
	c.pending.remove(c)
	if c.sub.Drain() != nil { // fails when the connection is closed
		return
	}
	go func() {
		_ = c.nc.FlushTimeout(answerLimit) // the server sends nothing more behind its answer to this
		for {
			select {
			case m := <-c.answers:
				late(m)
			default:
				return
			}
		}
	}()
}

// ask sends a request with one answer.
func (w *wire) ask(ctx context.Context, m *nats.Msg, changes bool) (*nats.Msg, *refusal) {
	c, why := w.send(m, 1, changes)
	if why != nil {
		return nil, why
	}
	defer c.end()
	answer, why := c.next(ctx)
	if why == nil {
		why = refused(answer)
	}
	if why != nil {
		return nil, why
	}
	return answer, nil
}

// all sends a request that any number of bridges answer, and returns their answers. Silence ends the wait.
func (w *wire) all(ctx context.Context, m *nats.Msg) (answers []*nats.Msg, why *refusal) {
	c, why := w.send(m, mostBridges, false)
	if why != nil {
		return nil, why
	}
	defer c.end()
	first, why := c.next(ctx)
	if why == nil {
		why = refused(first)
	}
	if why != nil {
		return nil, why
	}
	answers = []*nats.Msg{first}
	for len(answers) < mostBridges {
		quiet, cancel := context.WithTimeout(ctx, silence)
		m, why := c.next(quiet)
		cancel()
		if why != nil {
			break
		}
		answers = append(answers, m)
	}
	return answers, nil
}

const (
	mostBridges = 64
	silence     = 250 * time.Millisecond
)

// pending are the calls under way. A NATS server reports a missing right by the subject alone.
type pending struct {
	mu    sync.Mutex
	calls map[*call]bool
}

func (p *pending) add(c *call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls == nil {
		p.calls = make(map[*call]bool)
	}
	p.calls[c] = true
}

func (p *pending) remove(c *call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.calls, c)
}

// forbid ends the calls that use a subject.
func (p *pending) forbid(subject string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range slices.Collect(maps.Keys(p.calls)) {
		if c.subject != subject && c.reply != subject {
			continue
		}
		select {
		case c.denied <- err:
		default: // it knows already
		}
	}
}

// maxUnread bounds the bytes of answers that clients have not read yet. Half of it is for one address.
const maxUnread = 64 << 20

// outbox has the answers on their way. A request gives its place back before its answer is written, so clients that
// read slowly keep no places. Beyond its bound the outbox cuts off the connection that has taken longest to read
// its answer: such a client loses the answer, and others go on.
type outbox struct {
	most int64

	mu  sync.Mutex
	sum int64
	of  map[source]int64
	all []*sending // the oldest first
}

// sending is an answer on its way.
type sending struct {
	to   source
	size int64
	cut  func() // ends it; called once at most, and never after it has left
}

func newOutbox(most int64) *outbox { return &outbox{most: most, of: make(map[source]int64)} }

// begin adds an answer until leave is called.
func (o *outbox) begin(to source, size int64, cut func()) (leave func()) {
	s := &sending{to: to, size: size, cut: cut}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, s)
	o.sum += size
	o.of[to] += size
	for o.of[to] > o.most/2 && o.cutOldest(to) {
	}
	for o.sum > o.most && o.cutOldest(o.largest()) {
	}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.drop(s)
	}
}

// cutOldest ends the oldest answer on its way to an address, and reports whether there was one.
func (o *outbox) cutOldest(to source) bool {
	i := slices.IndexFunc(o.all, func(s *sending) bool { return s.to == to })
	if i < 0 {
		return false
	}
	oldest := o.all[i]
	o.drop(oldest)
	oldest.cut()
	return true
}

// largest is the address with the most bytes on their way.
func (o *outbox) largest() (largest source) {
	for who, size := range o.of {
		if size > o.of[largest] {
			largest = who
		}
	}
	return largest
}

// drop removes an answer, unless it was cut before.
func (o *outbox) drop(s *sending) {
	i := slices.Index(o.all, s)
	if i < 0 {
		return
	}
	o.all = slices.Delete(o.all, i, i+1)
	o.sum -= s.size
	if o.of[s.to] -= s.size; o.of[s.to] == 0 {
		delete(o.of, s.to)
	}
}
