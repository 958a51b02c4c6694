package fdbpq

import (
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
)

// Failing is what the first items of a queue tell of failures. A failure is a lease that ended by Nack.
type Failing struct {
	Items    int64 // that have failed
	Failures int64 // of these items
	Others   int64 // leased and ready items that have not failed
	AtLeast  bool  // not all items were looked at

	Last FailedItem // whose failure is the latest one
	Next FailedItem // whose next attempt comes first
}

// FailedItem is an item that has failed, and is tried again.
type FailedItem struct {
	ID       ID
	Failures int64
	Most     int64     // failures of which it dies; 0: it does not
	Due      time.Time // when it becomes ready; the zero time: it is, or it is leased
	Attempt  Attempt   // the last one that failed, as far as the item remembers
}

// The bounds of what is looked at, and of the failed items among those that are delayed: pushes with a delay may stand before them.
const (
	failingDelayed = 64
	failingMost    = 16
)

// FailingOf looks at the first items of a queue: those that are delayed, leased and ready. It belongs to the transaction of
// Inspect. Delayed items that have not failed are none of the others: they wait for their time.
func FailingOf(i *Inspection) (f Failing, err error) {
	x := i.queue
	now, err := x.now()
	if err != nil {
		return f, err
	}
	for _, from := range []struct {
		space string
		items int64
		most  int
		next  nextEntries
	}{
		{layout.SpaceDelayed, i.Delayed, failingDelayed, scanOf(x.name, x.snapshot, x.state, layout.SpaceDelayed, Min, AllPriorities, "").next},
		{layout.SpaceLeased, i.Leased, failingMost, scanOf(x.name, x.snapshot, x.state, layout.SpaceLeased, Min, AllPriorities, "").next},
		{layout.SpaceReady, i.Ready, failingMost, readyItems(x.name, x.snapshot, x.state, Min, AllPriorities, "")},
	} {
		if from.items == 0 {
			continue
		}
		entries, err := from.next(from.most, explainBytes)
		if err != nil {
			return f, err
		}
		f.AtLeast = f.AtLeast || int64(len(entries)) < from.items
		for _, at := range entries {
			l, err := layout.ParseItem(from.space, at.value, at.place)
			if err != nil {
				return f, err
			}
			if err := f.add(x, l, now); err != nil {
				return f, err
			}
		}
	}
	return f, nil
}

// add counts an item.
func (f *Failing) add(x *queueRows, l *layout.Item, now int64) error {
	failures := endingsOf(l).Failures
	switch {
	case l.Dying() || l.Held() || l.Expires != 0 && l.Expires <= now:
		return nil
	case failures == 0 && l.State != layout.StateDelayed:
		f.Others++
		return nil
	case failures == 0:
		return nil
	case l.State == layout.StateDelayed && f.Items == failingMost:
		f.AtLeast = true
		return nil
	}
	due := int64(0)
	if l.State == layout.StateDelayed {
		due = l.Due
	}
	one, err := failed(x, FailedItem{ID: idOf(l), Failures: failures}, due, Attempts(l.Attempts))
	if err != nil {
		return err
	}
	if f.Items == 0 || one.Attempt.End.After(f.Last.Attempt.End) {
		f.Last = one
	}
	if f.Items == 0 || one.Due.Before(f.Next.Due) {
		f.Next = one
	}
	f.Items++
	f.Failures += failures
	return nil
}

// failedOf is what an item that Get has returned tells of its failures.
func failedOf(x *queueRows, item *StoredItem) (FailedItem, error) {
	due := int64(0)
	if item.State == StateDelayed {
		due = item.Due
	}
	return failed(x, FailedItem{ID: item.ID, Failures: item.Endings.Failures}, due, item.Attempts)
}

// failed completes an item that becomes ready at due, in store time; 0: it does not, or it is ready.
func failed(x *queueRows, item FailedItem, due int64, attempts Attempts) (FailedItem, error) {
	if item.Most = x.state.config.MaxDeliveries; due != 0 {
		item.Due = x.store.Display(due)
	}
	all, err := attempts.All()
	for _, a := range all {
		if a.Outcome == OutcomeNack {
			item.Attempt = a
		}
	}
	return item, err
}
