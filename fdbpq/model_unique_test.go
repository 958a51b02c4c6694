package fdbpq_test

import (
	"slices"

	"github.com/pqbridge/pqbridge/fdbpq"
)

// claimant returns the living item with a unique value, but for one that is handed over.
// It ends an item past its TTL.
func (m *model) claimant(q *modelQueue, at moment, value string, within bool, handed int, out *outcome) *modelItem {
	n := slices.IndexFunc(q.items, func(item modelItem) bool { return item.unique == value })
	if n < 0 || within && q.items[n].number == handed {
		return nil
	}
	item := &q.items[n]
	switch {
	case !item.expired(at.now) || item.state == fdbpq.StateLeased && item.due > at.now:
		return item
	case item.state == fdbpq.StateLeased:
		m.takeBack(q, at, item, fdbpq.EventLeaseLost, "expired", "", item.due, nil, out)
	default:
		gone := *item
		q.remove(gone.number)
		m.expire(q, at, gone, out)
	}
	return nil
}

// resolve does what a push does whose unique value an item has.
func (m *model) resolve(q *modelQueue, at moment, item pushItem, priority int64, living *modelItem, acknowledge func()) pushedView {
	leased := living.state == fdbpq.StateLeased
	view := pushedView{ID: living.id, Seq: living.seq, Priority: living.priority, Duplicate: true}
	if leased {
		view.Priority = living.returnPriority
	}
	switch {
	case item.msgID != "" && q.counts().Remembered >= q.config.DedupLimit:
		return pushedView{Err: "remembered"}
	case item.onConflict == fdbpq.ConflictReplace && leased:
		return pushedView{Err: "leased"}
	case item.onConflict == fdbpq.ConflictReplace && item.key != living.key:
		return pushedView{Err: "another key"}
	case item.onConflict == fdbpq.ConflictReplace && q.grows(len(item.payload)+len(item.headers)-len(living.payload)-len(living.headers)):
		return pushedView{Err: "full"}
	case item.onConflict == fdbpq.ConflictReplace && len(item.payload)+len(item.headers) > fdbpq.MaxContent:
		return pushedView{Err: "content"}
	case item.onConflict == fdbpq.ConflictReplace:
		living.payload, living.headers, living.cost = item.payload, item.headers, item.cost
	case item.onConflict == fdbpq.ConflictRaise && priority < view.Priority:
		view.Priority = priority
		if leased {
			living.returnPriority = priority
		} else {
			living.priority = priority
		}
	}
	if item.msgID != "" {
		due := at.now + int64(q.config.DedupWindow)
		q.pushes[item.msgID] = modelPush{due: due, id: view.ID, seq: view.Seq, priority: placeOf(view.ID).priority}
	}
	acknowledge()
	return view
}
