package fdbpq

import (
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
)

// timerWorks has the work of each kind of timers.
var timerWorks = map[string]timerWork{
	layout.TimerLease:   ofItem(noWayBack, layout.SpaceLeased, func(qtx *queueTx, l *layout.Item) error { return qtx.retries.runOut(l) }),
	layout.TimerDelay:   ofItem(noWayBack, layout.SpaceDelayed, delayDue),
	layout.TimerExpiry:  {due: func(qtx *queueTx, t layout.Timer) error { return qtx.expiries.due(t) }},
	layout.TimerMsgID:   {ahead: msgIDAhead, due: func(qtx *queueTx, t layout.Timer) error { return qtx.ids.due(t) }},
	layout.TimerPopID:   {due: func(qtx *queueTx, t layout.Timer) error { return qtx.popIDs.due(t) }},
	layout.TimerRequest: {due: requestDue},
	layout.TimerKeys:    {once: true, waits: noWayBack, due: func(qtx *queueTx, t layout.Timer) error { return qtx.keyIndex.due(t) }},
	layout.TimerFair:    {once: true, waits: noWayBack, due: func(qtx *queueTx, t layout.Timer) error { return qtx.fairIndex.due(t) }},
	layout.TimerTokens:  {due: func(qtx *queueTx, _ layout.Timer) error { return qtx.rates.due() }},
	layout.TimerFences:  {due: func(qtx *queueTx, _ layout.Timer) error { return qtx.fences.due() }},
	layout.TimerBurial:  ofItem(noBurials, layout.SpaceLeased, func(qtx *queueTx, l *layout.Item) error { return qtx.deadLetters.due(l) }),
	layout.TimerResults: {once: true, due: func(qtx *queueTx, t layout.Timer) error { return qtx.results.due(t) }},
}

// timerWork is the work of timers that fall due.
type timerWork struct {
	ahead func(layout.Timer) []byte          // a row that the work reads, if it is known before
	due   func(*queueTx, layout.Timer) error // a timer of a generation that is over has no work
	once  bool                               // timers of the same id have the same work, however many are due
	waits shortage                           // the least in which it waits; roomy: it does not
}

// ofItem is the work of the timer that ends the state of an item. The item may have another state meanwhile, and another timer.
func ofItem(waits shortage, space string, work func(*queueTx, *layout.Item) error) timerWork {
	due := func(qtx *queueTx, t layout.Timer) error {
		row, err := qtx.tx.Get(qtx.key(space, t.Place))
		if err != nil || row == nil {
			return err
		}
		l, err := layout.ParseItem(space, row, t.Place)
		if err != nil || l.End() != (layout.ItemTimer{Due: t.Due, Kind: t.Kind}) {
			return err
		}
		qtx.txSize += itemTxSize(qtx.name, &l.Envelope, false)
		return work(qtx, l)
	}
	ahead := func(t layout.Timer) []byte {
		return t.Place.Append(layout.GenerationPrefix(space, t.Queue, t.Generation))
	}
	return timerWork{ahead: ahead, due: due, waits: waits}
}

func msgIDAhead(t layout.Timer) []byte { return msgIDRow(t.Queue, t.ID) }

// runDue does the work of a timer of the queue.
func runDue(qtx *queueTx, t layout.Timer) error {
	work, known := timerWorks[t.Kind]
	switch {
	case !known:
		return fmt.Errorf("unknown kind %q", t.Kind)
	case layout.TimerKinds[t.Kind].OfItem && t.Generation != qtx.state.generation:
		return nil // of a purged generation
	}
	return work.due(qtx, t)
}

// delayDue makes an item ready when its delay is over.
func delayDue(qtx *queueTx, l *layout.Item) error {
	now, err := qtx.now()
	if err != nil {
		return err
	}
	if l.Expires != 0 && l.Expires <= now {
		return qtx.expiries.expire(l)
	}
	ready := *l
	qtx.change(l, ready.From(0))
	return nil
}

// requestDue clears the rows of a request whose owner died. Package recipe writes them.
func requestDue(qtx *queueTx, t layout.Timer) error {
	for _, space := range []string{layout.SpaceRequest, layout.SpaceResult} {
		qtx.tx.Clear(append(layout.QueueRow(space, qtx.name), t.ID...))
	}
	return nil
}
