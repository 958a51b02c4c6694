package desk

import (
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
)

// NewLanes returns the lanes of a kind of work that no other request joins.
func NewLanes[W Work](base Lane, worker func(*Lane) batch.Worker[W, batch.Alone]) *batch.Lanes[W, batch.Alone] {
	return batch.New(LaneOptions(base, func(l *Lane, _ *batch.Lane[W, batch.Alone]) batch.Worker[W, batch.Alone] { return worker(l) }))
}

// LaneOptions are the options of lanes whose worker knows its lane of requests.
func LaneOptions[W Work, J any](base Lane, worker func(*Lane, *batch.Lane[W, J]) batch.Worker[W, J]) batch.Options[W, J] {
	return batch.Options[W, J]{
		Limits:   base.Batch,
		Patience: base.Patience,
		Worker: func(of *batch.Lane[W, J]) batch.Worker[W, J] {
			l := base
			l.setBusy = of.SetBusy
			return worker(&l, of)
		},
		Size:   func(w W) int { return w.Head().Size() },
		Waited: func(w W) time.Duration { return base.Waited(w) },
		Stuck:  func(late []W) { RefuseStuck(&base, late) },
	}
}

// RefuseStuck refuses requests that have waited for too long behind a transaction that does not end.
func RefuseStuck[W Work](l *Lane, late []W) {
	l.Keeper.Notice(errStuck)
	request.RefuseAll(l.Responder, late, errStuck)
}
