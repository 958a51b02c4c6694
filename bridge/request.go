package bridge

import (
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/subjects"
)

// request is a message on its way through the bridge, as far as all verbs are
// alike. It is part of a [work], which has what its verb reads and finds.
type request struct {
	msg     *nats.Msg
	subject subjects.Subject
	verb    *verb
	refusal refusal
	work    work // that it is part of
	arrived time.Time
	counted int64         // bytes that the gate counts; -1 when it counts the request no more
	since   time.Time     // start of the work on it; zero while it waits
	spent   time.Duration // work on it before it waited

	// failure is why the transaction did not do what was asked for. It stands only
	// when the transaction has committed.
	failure *failure
}

// work is a request of one verb.
type work interface {
	// head returns what it has in common with other requests.
	head() *request

	// read reads what is asked for, submit hands it to the lane that does it.
	read(*Bridge) *failure
	submit(*Bridge)

	// items are what it is answered with, for its trace.
	items() []fdbpq.Item

	// end gives back what it has taken: it was answered, and is not used any more.
	end()
}

func (r *request) head() *request      { return r }
func (r *request) items() []fdbpq.Item { return nil }
func (r *request) end()                {}

// newRequest returns the work of a verb that a message asks for.
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

// nobody is a message that asks for nothing that can be done.
type nobody struct{ request }

func makeNone(subjects.Verb) work { return new(nobody) }

func (n *nobody) read(*Bridge) *failure {
	return failf(400, "subject %s: expected one that asks for something", shown(n.msg.Subject))
}

func (n *nobody) submit(*Bridge) {}

// took is how long the bridge has worked on the request. Waiting for something
// to arrive is no work.
func (r *request) took() time.Duration {
	if r.since.IsZero() {
		return r.spent
	}
	return r.spent + time.Since(r.since)
}
