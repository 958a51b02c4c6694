package desk

import (
	"sync"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
)

// Work is a request of one verb.
type Work interface {
	request.Work

	// Read parses the request.
	Read(*codec.Wire) *failure.Failure
}

// SizeOf is how many bytes some requests have.
func SizeOf[W Work](requests []W) (bytes int) {
	for _, r := range requests {
		bytes += r.Head().Size()
	}
	return bytes
}

// Unservable is a message on a subject that is no request of the protocol.
type Unservable struct{ request.Request }

func (n *Unservable) Read(*codec.Wire) *failure.Failure {
	return failure.Newf(400, "subject %s: expected one that asks for something", failure.Quote(n.Msg.Subject))
}

// Pool keeps requests of one kind for further use.
type Pool[T any] struct{ free sync.Pool }

func (p *Pool[T]) Get() *T {
	if w, is := p.free.Get().(*T); is {
		return w
	}
	return new(T)
}

// Put empties a request and keeps it.
func (p *Pool[T]) Put(w *T) {
	var empty T
	*w = empty
	p.free.Put(w)
}
