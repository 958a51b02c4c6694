package fdbpq_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/link"
	"github.com/pqbridge/pqbridge/fdbpq/source"
)

// theTaker is the store that the links are for.
const theTaker = "another"

// takerSource is the source that takes.
const takerSource = `{"remote":"edge","queue":"edge7.a","link":"hub","batch":3}`

func setLinkOf(queue, name, to string, paused bool) operation {
	return operation{
		name: fmt.Sprintf("set link %s/%s to %s, paused %t", queue, name, to, paused),
		run: func(p *process, tx kv.Tx) (outcome, error) {
			l, err := link.New(p.store).Set(tx, p.queue(queue), name, fmt.Appendf(nil, `{"to":%q,"paused":%t}`, to, paused))
			return outcome{Events: []string{linkView(l.Name, l.Config.To, l.Config.Paused, l.Batch, l.Held, l.Given)}}, err
		},
		expect: using(queue, func(m *model, _ moment, _ outcome) outcome { return m.setLink(queue, name, to, paused) }),
	}
}

func deleteLinkOf(queue, name string, force bool) operation {
	return operation{
		name: fmt.Sprintf("delete link %s/%s, force %t", queue, name, force),
		run: func(p *process, tx kv.Tx) (outcome, error) {
			n, events, err := link.New(p.store).Delete(tx, p.queue(queue), name, force)
			return outcome{N: int64(n), Events: eventsOf(events)}, err
		},
		expect: using(queue, func(m *model, at moment, _ outcome) outcome { return m.deleteLink(queue, name, force, at) }),
	}
}

// showLinksOf shows all links of a queue.
func showLinksOf(queue string) operation {
	return operation{
		name: "links " + queue,
		look: func(p *process, r kv.Reader) (out outcome, err error) {
			links, err := link.New(p.store).List(r, p.queue(queue), "", link.MaxPage)
			for _, l := range links {
				out.Events = append(out.Events, linkView(l.Name, l.Config.To, l.Config.Paused, l.Batch, l.Held, l.Given))
			}
			return out, err
		},
		expect: func(m *model, _ moment, _ outcome) (out outcome) {
			q := m.queue(queue)
			if q == nil {
				return outcome{Err: "no queue"}
			}
			for _, name := range slices.Sorted(maps.Keys(q.links)) {
				l := q.links[name]
				out.Events = append(out.Events, l.show(name))
			}
			return out
		},
	}
}

func giveOf(queue, name string, ask linkAsk) operation {
	return operation{
		name: fmt.Sprintf("give %s/%s %+v", queue, name, ask),
		run: func(p *process, tx kv.Tx) (outcome, error) {
			given, err := link.New(p.store).Give(tx, p.queue(queue), name, link.Ask{
				Taker: ask.taker, Done: ask.done, Batch: ask.batch, Accept: ask.accept, Left: ask.left, Items: fdbpq.Selection{Limit: ask.limit},
			})
			out := poppedOf(given.Popped)
			out.Leased = 0
			if err != nil || given.Number == 0 {
				return out, err
			}
			batch := batchView{Number: given.Number, ID: given.Batch, Before: given.Before, Again: given.Repeated}
			for i := range given.Items {
				item := &given.Items[i]
				batch.items = append(batch.items, pushItem{
					payload: string(item.Payload), headers: string(item.Headers), priority: item.Priority, hasPriority: true, key: item.Key, cost: item.Cost,
				})
				if item.Lease != nil {
					return out, fmt.Errorf("the item %s has a lease that somebody may settle", item.ID)
				}
			}
			out.Batches = []batchView{batch}
			return out, nil
		},
		expect: using(queue, func(m *model, at moment, got outcome) outcome { return m.give(queue, name, ask, at, got) }),
	}
}

// batchView is an answer of a link, or the last batch that a source has.
type batchView struct {
	Number     int64
	ID, Before string
	Again      bool

	items []pushItem // what it is for the taker
}

// follows reports whether it is what a source that has a batch, and perhaps a part of the next one, takes.
func (b *batchView) follows(number int64, id, next string) bool {
	return b.Number == number+1 && b.Before == id && (next == "" || next == b.ID)
}

func setTakerOf(queue string) operation {
	return operation{
		name: "set taker " + queue,
		run: func(p *process, tx kv.Tx) (outcome, error) {
			s, err := source.New(p.store).Set(tx, p.queue(queue), "edge", []byte(takerSource), allowed)
			return outcome{Batches: []batchView{{Number: int64(s.Position.Seq), ID: s.Position.Batch}}}, err
		},
		expect: using(queue, func(m *model, _ moment, got outcome) outcome { return m.setTaker(queue, got) }),
	}
}

func deleteTakerOf(queue string) operation {
	return operation{
		name: "delete taker " + queue,
		run: func(p *process, tx kv.Tx) (outcome, error) {
			return outcome{}, source.New(p.store).Delete(tx, p.queue(queue), "edge")
		},
		expect: using(queue, func(m *model, _ moment, _ outcome) outcome { return m.deleteTaker(queue) }),
	}
}

func takeOf(queue string, b batchView) operation {
	return operation{
		name: fmt.Sprintf("take %s batch %d %s behind %s, %d items", queue, b.Number, b.ID, b.Before, len(b.items)),
		run: func(p *process, tx kv.Tx) (outcome, error) {
			q, sources := p.queue(queue), source.New(p.store)
			s, err := sources.Get(tx, q, "edge")
			if err != nil {
				return outcome{}, err
			}
			at := &s.Position
			if !b.follows(int64(at.Seq), at.Batch, at.Next) {
				return outcome{Reason: "moved"}, nil
			}
			var messages []source.Message
			for _, item := range b.items {
				messages = append(messages, source.Message{Item: fdbpq.NewItem{
					Payload: []byte(item.payload), Headers: []byte(item.headers), Priority: item.priority, HasPriority: true, Key: item.key, Cost: item.cost,
				}})
			}
			fed, err := sources.Feed(tx, q, &s, at.OfBatch(b.ID, time.Unix(1, 0), messages), nil)
			out := outcome{N: -1, Events: eventsOf(fed.Events)}
			if fed.Blocked != nil {
				out.N, out.Reason = fed.Position.Part, fdbpq.Reason(kindOf(fed.Blocked))
			}
			return out, err
		},
		expect: func(m *model, at moment, _ outcome) outcome { return m.take(queue, b, at) },
	}
}

// linking generates an operation on links: those of the queues a and b, whose taker is the queue b.
func (w *world) linking(rng *rand.Rand) operation {
	queue, name := pick(rng, "a", "a", "a", "b"), pick(rng, "hub", "hub", "hub", "hub", "other")
	var l modelLink
	known := false
	if q := w.model.queue(queue); q != nil {
		l, known = q.links[name]
	}
	switch dice := rng.IntN(20); {
	case !known || dice == 0:
		return setLinkOf(queue, name, pick(rng, theTaker, theTaker, theTaker, theTaker, "a-third"), rng.IntN(6) == 0)
	case dice == 1:
		return setLinkOf(queue, name, l.to, false)
	case dice == 2:
		return deleteLinkOf(queue, name, rng.IntN(2) == 0)
	}
	ask := linkAsk{taker: l.to, done: l.number, batch: l.id, limit: pick(rng, 1, 2, 3, 1000), accept: rng.IntN(20) == 0}
	if q := w.model.queue("b"); q != nil && q.taker != nil && rng.IntN(2) == 0 {
		ask.done, ask.batch = q.taker.number, q.taker.id
	}
	switch rng.IntN(12) {
	case 0:
		ask.taker = "somebody"
	case 1, 2, 3, 4:
		ask.done, ask.batch = max(0, l.number-1), l.before // an answer was lost
	case 5:
		ask.done = max(0, ask.done+pick[int64](rng, -2, -1, 1, 2))
	case 6:
		ask.batch = pick(rng, "", "another")
	}
	if rng.IntN(4) == 0 {
		ask.left = []int64{1 + rng.Int64N(3), 1 + rng.Int64N(3)}
	}
	return giveOf(queue, name, ask)
}

// taking generates what a taker does.
func (w *world) taking(rng *rand.Rand) operation {
	switch q := w.model.queue("b"); {
	case q == nil || q.taker == nil || rng.IntN(20) == 0:
		return setTakerOf("b")
	case len(w.batches) == 0 || rng.IntN(25) == 0:
		return deleteTakerOf("b")
	}
	return takeOf("b", w.batches[len(w.batches)-1-min(rng.IntN(len(w.batches)), rng.IntN(len(w.batches)))])
}
