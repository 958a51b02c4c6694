package fdbpq_test

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/recipe"
	"github.com/pqbridge/pqbridge/internal/testkit/fault"
)

func (s selection) of() fdbpq.Selection {
	sel := fdbpq.Selection{End: s.end, Limit: s.limit, MaxBytes: s.maxBytes, PopID: s.popID, Repeated: s.repeated, AnyLease: s.anyLease, Holders: s.holders}
	if s.band != everyPriority {
		sel.Band = &s.band
	}
	return sel
}

func (s selection) String() string {
	again := ""
	if s.repeated {
		again = ", repeated"
	}
	if s.anyLease {
		again += ", any lease"
	}
	if len(s.holders) > 0 {
		again += fmt.Sprintf(", held by %q", s.holders)
	}
	return fmt.Sprintf("%s %d (%d bytes) of %d..%d id %q%s", [...]string{"min", "max"}[s.end], s.limit, s.maxBytes, s.band.Low, s.band.High, s.popID, again)
}

func popOf(queue string, sel selection, lease time.Duration) operation {
	return operation{
		name: fmt.Sprintf("pop %s %v lease %v", queue, sel, lease),
		pops: queue,
		run: func(p *process, tx kv.Tx) (outcome, error) {
			q := p.queue(queue)
			var popped fdbpq.Popped
			var err error
			if lease == 0 {
				popped, err = q.Pop(tx, sel.of())
			} else {
				popped, err = q.Lease(tx, sel.of(), lease)
			}
			out := poppedOf(popped)
			for i := range out.Items {
				out.Items[i].queue = queue
			}
			return out, err
		},
		expect: using(queue, func(m *model, at moment, got outcome) outcome { return m.pop(queue, at, sel, lease, got) }),
	}
}

func peekOf(queue string, sel selection) operation {
	return operation{
		name: fmt.Sprintf("peek %s %v", queue, sel),
		look: func(p *process, r kv.Reader) (outcome, error) {
			popped, err := p.queue(queue).Peek(r, sel.of())
			return poppedOf(popped), err
		},
		expect: func(m *model, at moment, got outcome) outcome { return m.peek(queue, at, sel, got) },
	}
}

// stagedOf is a staged pop. Without others it does what a plain pop does.
func stagedOf(queue string, sel selection, lease time.Duration) operation {
	return operation{
		name: fmt.Sprintf("staged pop %s %v lease %v", queue, sel, lease),
		whole: func(ctx context.Context, p *process) (outcome, error) {
			// A request that its owner gives up may still be answered.
			steady := maps.Clone(p.chances)
			delete(steady, fault.Unavailable)
			defer p.suffer(steady)()
			popped, err := recipe.New(p.store).Staged(ctx, queue, sel.of(), lease)
			return poppedOf(popped), err
		},
		expect: using(queue, func(m *model, at moment, got outcome) outcome {
			out := m.pop(queue, at, sel, lease, got)
			m.stagedPop(queue, out.Items)
			return out
		}),
	}
}
