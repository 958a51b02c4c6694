package bridge

import (
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/protocol"
)

// settlements are a bundle of settlements: many leases of a queue, settled by one message
// with one answer. Each of them goes its own way, as if it had come in a message of its own.
// When the last one has ended, the bundle is answered.
type settlements struct {
	message *settlement
	sent    *codec.Settlements
	limit   *codec.Limit
	*request.Responder
	results []codec.Result
	left    atomic.Int64 // of them, and one while they begin
}

// openBundle reads how many settlements a bundle has. Their lines are read later.
func (s *settlement) openBundle(wr *codec.Wire, size []string) *failure.Failure {
	sent, f := wr.OpenSettlements(s.Subject.Queue, s.Msg, size)
	if f != nil {
		return f
	}
	s.Bundled = sent.Len
	s.bundle = &settlements{message: s, sent: sent, limit: &wr.Limit}
	return nil
}

// read reads the settlements.
func (b *settlements) read() []*settlement {
	all := make([]*settlement, 0, b.sent.Len)
	for line := range b.sent.Read() {
		one := settlementPool.Get()
		one.Prepare(one, b.message.Verb, line.On, noMessage)
		one.PassGate() // the gate counts the bundle
		one.Settlement, one.Failure = line.Settlement, line.Failure
		one.within, one.number = b, len(all)
		all = append(all, one)
	}
	b.sent, b.results = nil, make([]codec.Result, len(all))
	return all
}

// noMessage is the message of a settlement that came in a bundle.
var noMessage = new(nats.Msg)

// begin reads the settlements and sends them on their way, in their order.
func (b *settlements) begin(ls *lanes) {
	b.Responder = ls.responder
	all := b.read()
	b.left.Store(int64(len(all)) + 1)
	for _, s := range all {
		if s.Failure != nil {
			ls.responder.Refuse(&s.Request, s.Failure)
		} else {
			ls.inOrder(s, &s.order)
		}
	}
	b.done()
}

// ended keeps the result of a settlement.
func (b *settlements) ended(s *settlement) {
	r := &b.results[s.number]
	r.Failure = s.Failure
	if s.renewed != nil && s.Failure == nil {
		r.Expires = s.renewed.Expires
	}
	b.done()
}

// done answers the bundle when all its settlements have ended.
func (b *settlements) done() {
	if b.left.Add(-1) > 0 {
		return
	}
	m := b.message
	if m.Msg.Reply != "" {
		header := nats.Header{protocol.HeaderBundle: {strconv.Itoa(len(b.results))}}
		b.Publish(&nats.Msg{Subject: m.Msg.Reply, Header: header, Data: b.limit.AppendResults(nil, b.results)})
	}
	b.Gate.Leave(&m.Request) // each settlement was counted as served, or as failed
	m.End()
}

// bundleReader reads bundles of settlements, the bundles of a queue one after another. A thousand leases take a
// millisecond to read. Here they take it from their own queue; in front of the lanes, where messages are read one
// after another, all queues would wait. Settlements that arrive at the queue meanwhile start behind the bundle, so
// the settlements of a lease keep their order.
type bundleReader struct {
	start func(*settlement) // one settlement, or a bundle

	queues atomic.Int64 // whose bundles are being read
	mu     sync.Mutex
	behind map[string][]*settlement // by queue whose bundles are being read: what has to wait
}

func (r *bundleReader) init(start func(*settlement)) {
	r.start, r.behind = start, make(map[string][]*settlement)
}

// submit starts a settlement, or a bundle, behind the settlements of its queue that came before.
func (r *bundleReader) submit(s *settlement) {
	if s.bundle == nil && r.queues.Load() == 0 || !r.waits(s) {
		r.start(s)
	}
}

// waits reports whether the settlement starts later, behind a bundle. A bundle does not block its caller.
func (r *bundleReader) waits(s *settlement) bool {
	queue := s.Subject.Queue
	r.mu.Lock()
	defer r.mu.Unlock()
	behind, reading := r.behind[queue]
	switch {
	case reading:
		r.behind[queue] = append(behind, s)
	case s.bundle != nil:
		r.behind[queue] = nil
		r.queues.Add(1)
		go r.read(queue, s)
	default:
		return false
	}
	return true
}

func (r *bundleReader) read(queue string, s *settlement) {
	for s != nil {
		r.start(s)
		s = r.next(queue)
	}
}

// next returns what arrived first behind the bundle, nil when nothing did.
func (r *bundleReader) next(queue string) *settlement {
	r.mu.Lock()
	defer r.mu.Unlock()
	behind := r.behind[queue]
	if len(behind) == 0 {
		delete(r.behind, queue)
		r.queues.Add(-1)
		return nil
	}
	first := behind[0]
	behind[0] = nil
	r.behind[queue] = behind[1:]
	return first
}
