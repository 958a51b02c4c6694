package desk

import (
	"sync"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/tenants"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
	"github.com/pqbridge/pqbridge/protocol"
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

// AnswerNoQueue sets the failure of a query or a change if its queue is missing. It returns any other error. To pops a missing queue
// is an empty one.
func AnswerNoQueue(r *request.Request, err error) error {
	if err == fdbpq.ErrNoQueue {
		r.Failure = failure.NoQueue(r.Subject.Queue)
		return nil
	}
	return err
}

// AnswerNoSchedule sets the failure of a request if its queue or schedule is missing. It returns any other error.
func AnswerNoSchedule(r *request.Request, err error) error {
	if err == schedule.ErrNone {
		r.Failure = failure.NoSchedule(r.Subject.Queue, r.Subject.Schedule)
		return nil
	}
	return AnswerNoQueue(r, err)
}

// rowBytes estimates the bytes of the rows of an item beside its content.
const rowBytes = 512

// Admit says why a transaction may not add new items of some bytes, or returns nil. The room that the tenant gives is kept until
// its admission ends.
type Admit func(to *tenants.Admission, items, bytes int) error

// NewAdmit returns an Admit that asks first the store, then the tenant.
func NewAdmit(store func(bytes int) error) Admit {
	return func(to *tenants.Admission, items, bytes int) error {
		if err := store(bytes + items*rowBytes); err != nil {
			return StoreFull(err)
		}
		if f := to.Admit(items, bytes+items*fdbpq.ItemBytes); f != nil {
			return f
		}
		return nil
	}
}

// EndAdmission ends the admission of a transaction with a result. What the transaction would have added counts on only if it may have
// happened: the transaction may run again, and no tenant notices why.
func EndAdmission(to *tenants.Admission, result error) {
	if result != nil && !failure.IsOutage(result) {
		to.Undo()
	}
	to.End()
}

// StoreFull refuses new items for which the store has no room.
func StoreFull(err error) error {
	return &failure.Failure{Code: 429, Text: err.Error(), Reason: protocol.ReasonStoreFull}
}
