package fdbpq_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/link"
)

// explainView is what an explanation says.
type explainView struct {
	Cause        fdbpq.Reason
	WaitsFor     fdbpq.WaitsFor
	Key          string
	Item         string
	Holder       string
	Since, Until int64 // 0: not said
	AtLeast      bool
	Link         string
	Full         bool // no push is taken
}

func explainViewOf(e *fdbpq.Explanation) explainView {
	v := explainView{
		Cause: e.Cause, WaitsFor: e.WaitsFor, Key: e.Key, Holder: e.Holder, Since: nanos(e.Since), Until: nanos(e.Until),
		AtLeast: e.AtLeast, Link: e.Link, Full: errors.Is(e.Refuses, fdbpq.ErrFull),
	}
	if e.Item != nil {
		v.Item = e.Item.String()
	}
	return v
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// explainOf asks why nothing of a queue moves, as a look at it does.
func explainOf(queue string) operation {
	return operation{
		name: "explain " + queue,
		look: func(p *process, r kv.Reader) (outcome, error) {
			q := p.queue(queue)
			i, err := q.Inspect(r)
			if err != nil || i == nil {
				return outcome{}, err
			}
			oldest, err := q.OldestLease(r, looksAtLeases)
			if err != nil {
				return outcome{}, err
			}
			held, err := link.New(p.store).Held(r, q)
			if err != nil {
				return outcome{}, err
			}
			e, err := i.Explain(oldest, held)
			return outcome{OK: true, Explained: explainViewOf(&e)}, err
		},
		expect: func(m *model, at moment, got outcome) outcome { return m.explain(queue, at, got) },
	}
}

const (
	looksAtLeases = 256
	looksAtKeys   = 16
)

// explainItemOf asks why an item is not handed out.
func explainItemOf(id knownID) operation {
	return operation{
		name: fmt.Sprintf("explain %s/%s", id.queue, id.id),
		look: func(p *process, r kv.Reader) (outcome, error) {
			q := p.queue(id.queue)
			stored, err := q.Get(r, parseID(id.id))
			if err != nil || stored == nil {
				return outcome{}, err
			}
			e, err := q.ExplainItem(r, stored)
			if err == nil && e.Cause == fdbpq.ReasonHeld {
				e.Link, e.Since, err = link.New(p.store).HolderOf(r, q, stored)
			}
			return outcome{OK: true, Explained: explainViewOf(&e)}, err
		},
		expect: func(m *model, at moment, got outcome) outcome { return m.explainItem(id.queue, id.id, at, got) },
	}
}
