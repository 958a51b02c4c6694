package desk

import (
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
)

// NewLanes returns the lanes of a kind of work that shares nothing with other queues: each queue has a lane of its own.
func NewLanes[W Work](base Lane, worker func(*Lane) batch.Worker[W]) *batch.Lanes[W] {
	return batch.New(batch.Options[W]{
		Limits:   base.Batch,
		Patience: base.Patience,
		Worker: func(of *batch.Lane[W]) batch.Worker[W] {
			l := base
			l.setBusy = of.SetBusy
			return worker(&l)
		},
		Size:   func(w W) int { return w.Head().Size() },
		Waited: func(w W) time.Duration { return base.Waited(w) },
		Stuck:  func(late []W) { RefuseStuck(&base, late) },
	})
}

// RefuseStuck refuses requests that have waited for too long behind a transaction that does not end.
func RefuseStuck[W Work](l *Lane, late []W) {
	l.Keeper.Notice(errStuck)
	request.RefuseAll(l.Responder, late, errStuck)
}
