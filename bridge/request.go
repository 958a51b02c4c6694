package bridge

import (
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/subjects"
)

// request is the part of a [work] that all verbs have in common: a message on its way
// through the bridge.
type request struct {
	msg     *nats.Msg
	subject subjects.Subject
	verb    *verb
	refusal refusal
	work    work // that it is part of
	arrived time.Time
	counted int64         // bytes that the gate counts; -1 when it does not count the request
	since   time.Time     // start of the work on it; zero while it waits
	spent   time.Duration // work on it before it waited

	// failure is why the transaction did not serve the request. It is valid only after
	// the commit.
	failure *failure.Failure
}

// work is a request of one verb.
type work interface {
	// head returns what it has in common with other requests.
	head() *request

	// read parses the request.
	read(*wire) *failure.Failure

	// items are the items in the answer, for the trace.
	items() []fdbpq.Item

	// end releases the request, which was answered.
	end()
}

func (r *request) head() *request      { return r }
func (r *request) items() []fdbpq.Item { return nil }
func (r *request) end()                {}

// verb is a kind of request. To add one, add its entry to the table, and a file with
// its [work], which reads the request, runs in a lane and answers.
type verb struct {
	name     string // in metrics, traces and discovery
	pattern  string // of its subjects, after the prefix
	subjects []subjects.Verb
	refusal  refusal
	silent   bool                     // requests without a reply subject have an effect, too
	make     func(subjects.Verb) work // returns an empty request
	index    int                      // in the table
}

// refusal is the form of the answer to a request that failed.
type refusal uint8

const (
	asService    refusal = iota // as NATS services do: a status and a text in headers
	asPublish                   // as JetStream answers a publish: an error in the body
	asSettlement                // as a server answers without responders: AckSync recognises nothing else
)

// newRequest returns the work of a verb for a message.
func newRequest(v *verb, s subjects.Subject, m *nats.Msg) *request {
	w := v.make(s.Verb)
	r := w.head()
	r.prepare(w, v, s, m)
	return r
}

func (r *request) prepare(w work, v *verb, s subjects.Subject, m *nats.Msg) {
	r.msg, r.subject, r.verb, r.refusal, r.work = m, s, v, v.refusal, w
	r.arrived, r.counted = time.Now(), int64(m.Size())
	r.since = r.arrived
}

// unservable is a message on a subject that is no request of the protocol.
type unservable struct{ request }

func makeNone(subjects.Verb) work { return new(unservable) }

func (n *unservable) read(*wire) *failure.Failure {
	return failure.Newf(400, "subject %s: expected one that asks for something", failure.Quote(n.msg.Subject))
}

// took is how long the bridge has worked on the request, without the time in which it
// waited for an item.
func (r *request) took() time.Duration {
	if r.since.IsZero() {
		return r.spent
	}
	return r.spent + time.Since(r.since)
}
