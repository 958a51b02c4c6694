package fdbpq_test

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
)

// due is work that a sweep does. Its fields are in the order in which what
// falls due together is done.
type due struct {
	at    int64
	kind  string
	queue string
	item  modelItem // of the kinds that are about items
	id    string    // of the others
}

func (q *modelQueue) timers() []due {
	var all []due
	for _, item := range q.items {
		switch item.state {
		case fdbpq.StateLeased:
			if item.ofLink {
				continue
			}
			all = append(all, due{at: item.due, kind: "lease", queue: q.name, item: item})
			continue // it cannot outlive its TTL meanwhile
		case fdbpq.StateDelayed:
			all = append(all, due{at: item.due, kind: "delay", queue: q.name, item: item})
		}
		if item.expires != 0 {
			all = append(all, due{at: item.expires, kind: "ttl", queue: q.name, item: item})
		}
	}
	for id, p := range q.pushes {
		all = append(all, due{at: p.due, kind: "zpush", queue: q.name, id: id})
	}
	for id, p := range q.pops {
		all = append(all, due{at: p.due, kind: "pop", queue: q.name, id: id})
	}
	if q.look != 0 {
		all = append(all, due{at: q.look, kind: "zzunused", queue: q.name, id: "of the queue"})
	}
	return all
}

func (m *model) timers() []due {
	all := slices.Concat(m.stale, m.others)
	for _, q := range m.queues {
		all = append(all, q.timers()...)
	}
	slices.SortFunc(all, func(a, b due) int {
		return cmp.Or(
			cmp.Compare(a.at, b.at), strings.Compare(a.kind, b.kind), strings.Compare(a.queue, b.queue),
			compareItems(&a.item, &b.item), strings.Compare(a.id, b.id),
		)
	})
	return all
}

// forgetTimer drops the timer of an id that was forgotten in a deletion, when one
// of the same id is about to go: they are one row.
func (m *model) forgetTimer(d due) {
	d.kind = "stale " + d.kind
	m.stale = slices.DeleteFunc(m.stale, func(s due) bool { return s == d })
}

// becomeSweeper reports whether another process is sweeping, and otherwise lets this one
// sweep.
func (m *model) becomeSweeper(at moment) (busy bool) {
	if m.sweeper != at.process && m.until > at.now && !m.alone {
		return true
	}
	m.sweeper, m.until = at.process, at.now+int64(2*time.Second)
	return false
}

// sweep does all that is due.
func (m *model) sweep(at moment) outcome {
	var out outcome
	for _, d := range m.timers() {
		if d.at > at.now {
			break
		}
		if !out.OK && m.becomeSweeper(at) {
			return outcome{N: -1}
		}
		out.OK = true // there was work
		if strings.HasPrefix(d.kind, "stale ") {
			m.stale = slices.DeleteFunc(m.stale, func(s due) bool { return s == d })
			continue
		}
		if d.kind == "efences" {
			m.others = slices.DeleteFunc(m.others, func(other due) bool { return other == d })
			m.fencesDue(d.queue, at)
			continue
		}
		if d.kind == "results" {
			m.others = slices.DeleteFunc(m.others, func(other due) bool { return other == d })
			m.resultsDue(d, at.now)
			continue
		}
		if d.kind == "btokens" || d.kind == "ffair" || d.kind == "keys" {
			m.otherDue(d, at)
			continue
		}
		q := m.queues[d.queue]
		item := q.byNumber(d.item.number)
		switch d.kind {
		case "zzunused":
			m.disuseDue(q, at, &out)
		case "zpush":
			delete(q.pushes, d.id)
		case "pop":
			delete(q.pops, d.id)
		case "lease":
			m.takeBack(q, at, item, fdbpq.EventLeaseLost, "expired", "", item.due, nil, &out)
		case "delay":
			if item == nil {
				continue // its TTL was over before
			}
			if item.expired(at.now) {
				gone := *item
				q.remove(gone.number)
				m.expire(q, at, gone, &out)
				continue
			}
			item.state = fdbpq.StateReady
		case "ttl":
			if item == nil {
				continue
			}
			gone := *item
			q.remove(gone.number)
			m.expire(q, at, gone, &out)
		}
	}
	return out
}

// next is when a sweep is needed again, 0 when never.
func (m *model) next(at moment) time.Duration {
	all := m.timers()
	if len(all) == 0 {
		return 0
	}
	return max(time.Duration(all[0].at-at.now), 1)
}
