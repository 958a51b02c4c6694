package fdbpq

import (
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
)

// timerWorks has the work of each kind of timers.
var timerWorks = map[string]timerWork{
	layout.TimerLease:   {ahead: itemAhead(layout.SpaceLeased), due: func(qtx *queueTx, t layout.Timer) error { return retries{qtx}.due(t) }},
	layout.TimerDelay:   {ahead: itemAhead(layout.SpaceDelayed), due: func(qtx *queueTx, t layout.Timer) error { return delays{qtx}.due(t) }},
	layout.TimerExpiry:  {due: func(qtx *queueTx, t layout.Timer) error { return expiries{qtx}.due(t) }},
	layout.TimerMsgID:   {ahead: msgIDAhead, due: func(qtx *queueTx, t layout.Timer) error { return ids{&qtx.queueRows}.due(t) }},
	layout.TimerPopID:   {due: func(qtx *queueTx, t layout.Timer) error { return popIDs{qtx}.due(t) }},
	layout.TimerRequest: {due: requestDue},
	layout.TimerKeys:    {once: true, due: func(qtx *queueTx, t layout.Timer) error { return keyIndex{&qtx.queueRows}.due(t) }},
	layout.TimerFair:    {once: true, due: func(qtx *queueTx, t layout.Timer) error { return fair{&qtx.queueRows}.due(t) }},
	layout.TimerTokens:  {due: func(qtx *queueTx, _ layout.Timer) error { return rates{&qtx.queueRows}.due() }},
	layout.TimerFences:  {due: func(qtx *queueTx, _ layout.Timer) error { return fences{&qtx.queueRows}.due() }},
}

// timerWork is the work of timers that fall due.
type timerWork struct {
	ahead func(layout.Timer) []byte          // a row that the work reads; nil: none is known before
	due   func(*queueTx, layout.Timer) error // a timer of a generation that is over has no work
	once  bool                               // timers of the same id have the same work, however many are due
}

func itemAhead(space string) func(layout.Timer) []byte {
	return func(t layout.Timer) []byte {
		return t.Place.Append(layout.GenerationPrefix(space, t.Queue, t.Generation))
	}
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

// requestDue clears the rows of a request whose owner died. Package recipe writes them.
func requestDue(qtx *queueTx, t layout.Timer) error {
	for _, space := range []string{layout.SpaceRequest, layout.SpaceResult} {
		qtx.tx.Clear(append(layout.QueueRow(space, qtx.name), t.ID...))
	}
	return nil
}
