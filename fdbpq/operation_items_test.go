package fdbpq_test

import (
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

func parseID(id string) fdbpq.ID {
	parsed, err := fdbpq.ParseID(id)
	if err != nil {
		panic(fmt.Sprintf("id %q: %v", id, err))
	}
	return parsed
}

func getOf(id knownID) operation {
	return operation{
		name: fmt.Sprintf("get %s/%s", id.queue, id.id),
		look: func(p *process, r kv.Reader) (outcome, error) {
			stored, err := p.queue(id.queue).Get(r, parseID(id.id))
			if err != nil || stored == nil {
				return outcome{}, err
			}
			return outcome{OK: true, Items: []itemView{storedViewOf(stored)}}, nil
		},
		expect: func(m *model, _ moment, _ outcome) outcome { return m.get(id.queue, id.id) },
	}
}

func removeOf(id knownID) operation {
	return operation{
		name: fmt.Sprintf("remove %s/%s", id.queue, id.id),
		run: func(p *process, tx kv.Tx) (outcome, error) {
			removed, err := p.queue(id.queue).Remove(tx, parseID(id.id))
			return outcome{OK: removed.Found, N: removed.Priority, Events: eventsOf(removed.Events)}, err
		},
		expect: using(id.queue, func(m *model, at moment, _ outcome) outcome { return m.removeID(id.queue, id.id, at) }),
	}
}

func cancelOf(id knownID, c fdbpq.Cancellation) operation {
	return operation{
		name: fmt.Sprintf("cancel %s/%s because of %q, spares: %t", id.queue, id.id, c.Reason, c.Spare),
		run: func(p *process, tx kv.Tx) (outcome, error) {
			done, err := p.queue(id.queue).Cancel(tx, parseID(id.id), c)
			out := outcome{OK: done.Found, Reason: fdbpq.Reason(done.Finish), Events: eventsOf(done.Events)}
			if !done.Finished.IsZero() {
				out.N = 1
			}
			return out, err
		},
		expect: using(id.queue, func(m *model, at moment, _ outcome) outcome { return m.cancel(id, at, c) }),
	}
}

func moveOf(id knownID, priority int64) operation {
	return operation{
		name: fmt.Sprintf("move %s/%s to %d", id.queue, id.id, priority),
		run: func(p *process, tx kv.Tx) (outcome, error) {
			ok, err := p.queue(id.queue).Move(tx, parseID(id.id), priority)
			return outcome{OK: ok}, err
		},
		expect: using(id.queue, func(m *model, _ moment, _ outcome) outcome { return m.move(id.queue, id.id, priority) }),
	}
}

func listOf(queue string, l listing) operation {
	return operation{
		name:  fmt.Sprintf("list %s %+v", queue, l),
		lists: queue,
		look: func(p *process, r kv.Reader) (outcome, error) {
			ask := fdbpq.Listing{State: l.state, Key: l.key, Holder: l.holder, Band: l.band, Limit: l.limit, Bodies: !l.plain, Preview: int64(l.preview)}
			if l.after != nil {
				id := parseID(l.after.id)
				ask.After = &id
			}
			page, err := p.queue(queue).List(r, ask)
			out := outcome{More: page.More}
			for i := range page.Items {
				out.Items = append(out.Items, storedViewOf(&page.Items[i]))
			}
			return out, err
		},
		expect: func(m *model, _ moment, got outcome) outcome { return m.list(queue, l, got) },
	}
}
