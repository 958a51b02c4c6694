package bridge

import (
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/subjects"
)

// work is a request of one verb.
type work interface {
	request.Work

	// Read parses the request.
	Read(*codec.Wire) *failure.Failure
}

// sizeOf is how many bytes some requests have.
func sizeOf[W work](requests []W) (bytes int) {
	for _, r := range requests {
		bytes += r.Head().Size()
	}
	return bytes
}

// verb is a kind of request. To add one, add its entry to the table, and a file with
// its [work], which reads the request, runs in a lane and answers.
type verb struct {
	request.Verb
	subjects []subjects.Verb
	make     func(subjects.Verb) work // returns an empty request
}

// newWork returns the work of a verb for a message.
func newWork(v *verb, s subjects.Subject, m *nats.Msg) work {
	w := v.make(s.Verb)
	w.Head().Prepare(w, &v.Verb, s, m)
	return w
}

// unservable is a message on a subject that is no request of the protocol.
type unservable struct{ request.Request }

func makeNone(subjects.Verb) work { return new(unservable) }

func (n *unservable) Read(*codec.Wire) *failure.Failure {
	return failure.Newf(400, "subject %s: expected one that asks for something", failure.Quote(n.Msg.Subject))
}
