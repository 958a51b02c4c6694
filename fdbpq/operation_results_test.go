package fdbpq_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// resultsOf asks what became of items.
func resultsOf(ids ...knownID) operation {
	return operation{
		name: fmt.Sprint("results of ", ids),
		look: func(p *process, r kv.Reader) (out outcome, err error) {
			for _, id := range ids {
				result, err := p.queue(id.queue).Result(r, parseID(id.id))
				view, err := resultViewOf(result, err)
				if err != nil {
					return out, err
				}
				out.Results = append(out.Results, view)
			}
			return out, nil
		},
		expect: func(m *model, at moment, got outcome) (out outcome) {
			for n, id := range ids {
				var view resultView
				if n < len(got.Results) {
					view = got.Results[n]
				}
				out.Results = append(out.Results, m.result(id.queue, id.id, at, view))
			}
			return out
		},
	}
}

func resultViewOf(r *fdbpq.Result, err error) (resultView, error) {
	var pending *fdbpq.PendingError
	switch {
	case errors.As(err, &pending):
		return resultView{Missing: "pending", Body: digest([]byte(pending.Progress)), Finished: nanos(pending.ProgressAt)}, nil
	case errors.Is(err, fdbpq.ErrUnkept):
		return resultView{Missing: "unkept"}, nil
	case err != nil:
		return resultView{}, err
	case r == nil:
		return resultView{Missing: "unknown"}, nil
	}
	return resultView{
		Finish: r.Finish, Kept: r.Kept, Body: digest(r.Body), Finished: r.Finished, Deliveries: r.Deliveries,
		Reason: r.Reason, Cause: r.Cause, Next: r.Next, NextID: r.NextID,
	}, nil
}

// allResultsOf asks for the results that a queue has in the model.
func allResultsOf(queue string, q *modelQueue) operation {
	var ids []knownID
	for _, id := range slices.Sorted(maps.Keys(q.results)) {
		ids = append(ids, knownID{queue, id})
	}
	return resultsOf(ids...)
}

// askingForResults generates a look at what became of an item: of one that has a result, or of any.
func (w *world) askingForResults(rng *rand.Rand) operation {
	id := pick(rng, w.ids...)
	if q := w.model.queues[id.queue]; q != nil && len(q.results) > 0 && rng.IntN(3) > 0 {
		id.id = pick(rng, slices.Sorted(maps.Keys(q.results))...)
	}
	return resultsOf(id)
}

// resultTTL generates for how long a result is kept.
func resultTTL(rng *rand.Rand) time.Duration {
	switch dice := rng.IntN(80); {
	case dice < 40:
		return 0
	case dice < 77:
		return pick(rng, 1, time.Minute, time.Minute, time.Minute+1, 10*time.Minute, time.Hour, 2*time.Hour, 24*time.Hour, fdbpq.MaxResultTTL)
	}
	return pick(rng, -1, fdbpq.MaxResultTTL+1)
}

// resultBody generates what a holder says of its work.
func resultBody(rng *rand.Rand) string {
	if rng.IntN(8) == 0 {
		return strings.Repeat("\x00large", pick(rng, 6_000, 15_000, 15_001, 31_000))
	}
	return pick(rng, "", "done", "\x00\xff", strings.Repeat("text ", 60), strings.Repeat("text ", 200))
}
