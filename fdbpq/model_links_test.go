package fdbpq_test

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
)

// modelLink gives the items of a queue.
type modelLink struct {
	to         string
	paused     bool
	number     int64
	id, before string
	open       bool  // the taker has not confirmed the batch
	out        []int // its items, unless a purge has ended them
	given      int64
}

func (l *modelLink) show(name string) string {
	return linkView(name, l.to, l.paused, l.number, len(l.out), l.given)
}

func linkView(name, to string, paused bool, number int64, held int, given int64) string {
	return fmt.Sprintf("link %s to %s, paused %t: batch %d holds %d, %d given", name, to, paused, number, held, given)
}

// modelTaker is a source that takes from a link.
type modelTaker struct {
	number int64
	id     string
	part   int // items of the next batch that it has
	next   string
}

// linkAsk is what a taker asks for.
type linkAsk struct {
	taker  string
	done   int64
	batch  string
	accept bool
	limit  int
	left   []int64
}

func (m *model) setLink(queue, name, to string, paused bool) outcome {
	q := m.create(queue)
	l, is := q.links[name]
	if is && l.to != to {
		return outcome{Err: "link"}
	}
	l.to, l.paused = to, paused
	q.setLink(name, l)
	return outcome{Events: []string{l.show(name)}}
}

func (q *modelQueue) setLink(name string, l modelLink) {
	if q.links == nil {
		q.links = make(map[string]modelLink)
	}
	q.links[name] = l
}

func (m *model) deleteLink(queue, name string, force bool, at moment) outcome {
	q := m.queue(queue)
	if q == nil {
		return outcome{Err: "no queue"}
	}
	l, is := q.links[name]
	switch {
	case !is:
		return outcome{Err: "no link"}
	case len(l.out) > 0 && !force:
		return outcome{Err: "held"}
	}
	out := outcome{N: int64(len(l.out))}
	for _, number := range l.out {
		item := q.byNumber(number)
		item.lease = 0
		item.ofLink = false
		m.reinstate(q, at, number, 0, &out)
	}
	delete(q.links, name)
	return out
}

// give is what a link answers to its taker: the batch that is out, or the next one.
func (m *model) give(queue, name string, ask linkAsk, at moment, got outcome) outcome {
	q := m.queue(queue)
	if q == nil {
		return outcome{Err: "no queue"}
	}
	l, is := q.links[name]
	switch {
	case !is:
		return outcome{Err: "no link"}
	case l.to != ask.taker:
		return outcome{Err: "link forbidden"}
	}
	confirms := l.number == ask.done && (l.id == ask.batch || l.number == 0)
	again := l.open && l.number == ask.done+1 && l.before == ask.batch
	switch {
	case confirms, again:
	case ask.accept:
		again = l.open
	case ask.done < l.number-1, ask.done == l.number-1 && (ask.done == 0 || l.before == ask.batch):
		return outcome{Err: "link taker_behind"}
	default:
		return outcome{Err: "link giver_behind"}
	}
	if again && !confirms {
		out := outcome{Batches: []batchView{{Number: l.number, ID: l.id, Before: l.before, Again: true}}}
		for _, number := range l.out {
			out.Items = append(out.Items, q.byNumber(number).view())
		}
		if len(out.Items) > 0 {
			q.complete(&out, everyPriority, at.now)
		}
		return out
	}
	var ended outcome
	for i, number := range l.out {
		item := q.byNumber(number)
		switch {
		case !slices.Contains(ask.left, int64(i+1)):
			m.finish(q, at, item, modelResult{finish: fdbpq.FinishHandedOver, next: "link:" + name})
			q.remove(number)
			l.given++
			continue
		case item.dead != (fdbpq.DeadLetter{}):
			item.lease, item.ofLink = 0, false
			m.reinstate(q, at, number, 0, &ended)
		default:
			item.lease, item.ofLink = 0, false
			gone := *item
			q.remove(number)
			m.moveToDeadLetters(q, at, gone, "link "+name+": the other store has no room for the item, neither as one nor as a dead letter", &ended)
		}
	}
	l.out, l.open = nil, false
	q.setLink(name, l)
	if l.paused || q.paused {
		ended.Reason = fdbpq.ReasonPaused
		return ended
	}
	sel := selection{end: fdbpq.Min, band: everyPriority, limit: ask.limit, maxBytes: fdbpq.MaxBatchBytes, holders: []string{"link:" + name}}
	out := m.pop(queue, at, sel, time.Second, got)
	out.Events = append(ended.Events, out.Events...)
	if out.Leased = 0; len(out.Items) == 0 {
		return out
	}
	for i, v := range out.Items {
		item := q.byNumber(v.number)
		item.ofLink, item.due, item.since = true, math.MaxInt64, math.MaxInt64
		out.Items[i] = item.view()
		l.out = append(l.out, v.number)
	}
	l.before = l.id
	if l.number == 0 {
		l.before = ask.batch
	}
	batch := batchView{Number: l.number + 1, ID: "a new one", Before: l.before}
	if len(got.Batches) > 0 && got.Batches[0].ID != "" && got.Batches[0].ID != l.before {
		batch.ID = got.Batches[0].ID
	}
	l.number, l.id, l.open = batch.Number, batch.ID, true
	q.setLink(name, l)
	out.Batches = []batchView{batch}
	return out
}

// setTaker makes the source that takes from a link, if it is not there yet.
func (m *model) setTaker(queue string, got outcome) outcome {
	q := m.create(queue)
	if q.taker == nil {
		q.taker = new(modelTaker)
		if len(got.Batches) > 0 {
			q.taker.id = got.Batches[0].ID
		}
	}
	return outcome{Batches: []batchView{{Number: q.taker.number, ID: q.taker.id}}}
}

func (m *model) deleteTaker(queue string) outcome {
	q := m.queue(queue)
	switch {
	case q == nil:
		return outcome{Err: "no queue"}
	case q.taker == nil:
		return outcome{Err: "no source"}
	}
	q.taker = nil
	return outcome{}
}

// take pushes what a link has given, if the source does not have it yet.
func (m *model) take(queue string, b batchView, at moment) outcome {
	q := m.queue(queue)
	switch {
	case q == nil:
		return outcome{Err: "no queue"}
	case q.taker == nil:
		return outcome{Err: "no source"}
	case !b.follows(q.taker.number, q.taker.id, q.taker.next):
		return outcome{Reason: "moved"}
	}
	t := *q.taker
	q.taker = &t
	var out outcome // with what no answer shows: the pushed items
	var pushed []int
	for _, item := range b.items[t.part:] {
		m.use(queue, at)
		view, number, victims := m.pushOne(q, at, item, pushedView{}, &out)
		switch view.Err {
		case "":
		case "full":
			return outcome{N: int64(t.part), Reason: "full", Events: out.Events}
		default:
			return outcome{Err: "unexpected: " + view.Err}
		}
		out.Pushed, pushed = append(out.Pushed, view), append(pushed, number)
		m.evict(q, at, &out, pushed, victims)
		t.part, t.next = t.part+1, b.ID
	}
	t = modelTaker{number: b.Number, id: b.ID}
	return outcome{N: -1, Events: out.Events}
}
