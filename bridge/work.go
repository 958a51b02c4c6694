package bridge

import (
	"sync"

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

// unservable is a message on a subject that is no request of the protocol.
type unservable struct{ request.Request }

func makeNone(subjects.Verb) work { return new(unservable) }

func (n *unservable) Read(*codec.Wire) *failure.Failure {
	return failure.Newf(400, "subject %s: expected one that asks for something", failure.Quote(n.Msg.Subject))
}

// pool keeps requests of one kind for further use.
type pool[T any] struct{ free sync.Pool }

func (p *pool[T]) get() *T {
	if w, is := p.free.Get().(*T); is {
		return w
	}
	return new(T)
}

// put empties a request and keeps it.
func (p *pool[T]) put(w *T) {
	var empty T
	*w = empty
	p.free.Put(w)
}
