package bridge

import (
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/subjects"
)

// verb is what requests are counted by.
type verb uint8

const (
	verbPush verb = iota
	verbImport
	verbPop
	verbPeek
	verbAck
	verbInfo
	verbList
	verbGet
	verbRemove
	verbMove
	verbAdmin
	verbSys
	verbNone // no request of the protocol
	verbs
)

var verbNames = [verbs]string{"push", "import", "pop", "peek", "ack", "info", "list", "get", "remove", "move", "admin", "sys", "none"}

func (v verb) String() string { return verbNames[v] }

// verbOf groups the verbs of subjects.
func verbOf(v subjects.Verb) verb {
	switch v {
	case subjects.Push:
		return verbPush
	case subjects.Import:
		return verbImport
	case subjects.PopMin, subjects.PopMax:
		return verbPop
	case subjects.PeekMin, subjects.PeekMax:
		return verbPeek
	case subjects.Ack:
		return verbAck
	case subjects.Info:
		return verbInfo
	case subjects.List:
		return verbList
	case subjects.Get:
		return verbGet
	case subjects.Remove:
		return verbRemove
	case subjects.Move:
		return verbMove
	case subjects.SysList, subjects.SysInfo:
		return verbSys
	case subjects.Event:
		return verbNone
	}
	return verbAdmin
}

// request is a message on its way through the bridge. Which fields are used
// depends on the verb.
type request struct {
	msg     *nats.Msg
	subject subjects.Subject
	verb    verb
	arrived time.Time
	held    int64         // bytes that the gate counts; -1 when it counts the request no more
	since   time.Time     // start of the work on it; zero while it waits
	spent   time.Duration // work on it before it waited

	item    incoming   // push and import
	pop     popRequest // pop, peek and what follows +NXT
	place   waiting    // of a pop: where it waits
	settle  settlement // ack
	turn    turn       // ack: among the settlements of its lease
	id      fdbpq.ID   // get, remove, move
	listing listing    // list, sys
	outcome outcome
}

// incoming is an item that comes in.
type incoming struct {
	fdbpq.NewItem
	place *fdbpq.Import // of one that goes back to where it stood
}

// outcome is what a transaction found or did for a request. It stands only
// when the transaction has committed.
type outcome struct {
	failure *failure
	items   []fdbpq.Item
	ready   int64         // items left behind the last of them
	leased  time.Duration // for how long they were leased
	lease   *fdbpq.Lease  // with a new end
	held    *fdbpq.StoredItem
	body    []byte
}

var requests = sync.Pool{New: func() any { return new(request) }}

func newRequest(m *nats.Msg) *request {
	r := requests.Get().(*request)
	r.msg, r.arrived, r.held = m, time.Now(), int64(m.Size())
	r.since = r.arrived
	return r
}

// took is how long the bridge has worked on the request. Waiting for something
// to arrive is no work.
func (r *request) took() time.Duration {
	if r.since.IsZero() {
		return r.spent
	}
	return r.spent + time.Since(r.since)
}

// done ends a request that was answered; f is nil when it was served.
func (b *Bridge) done(r *request, f *failure) {
	b.stats.count(r, f)
	if b.options.Tracer != nil {
		b.traced(r, f)
	}
	b.gate.leave(r)
	b.turns.end(r)
	*r = request{}
	requests.Put(r)
}

// refuseAll answers requests that failed together.
func (b *Bridge) refuseAll(requests []*request, err error) {
	f := explain(err)
	for _, r := range requests {
		b.refuse(r, f)
	}
}

// refuse answers a request with a failure and ends it.
func (b *Bridge) refuse(r *request, f *failure) {
	if r.verb == verbPush && r.msg.Reply == "" {
		b.events.lost(r.subject.Queue, f)
	}
	b.answerFailure(r, f)
	b.done(r, f)
}
