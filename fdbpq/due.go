package fdbpq

import "fmt"

// timerWorks has the work of each kind of timers.
var timerWorks = map[string]timerWork{
	timerLease:   {ahead: itemAhead(spaceLeased), due: func(qtx *queueTx, t timer) error { return retries{qtx}.due(t) }},
	timerDelay:   {ahead: itemAhead(spaceDelayed), due: func(qtx *queueTx, t timer) error { return delays{qtx}.due(t) }},
	timerExpiry:  {due: func(qtx *queueTx, t timer) error { return expiries{qtx}.due(t) }},
	timerMsgID:   {ahead: func(t timer) []byte { return msgIDRow(t.queue, t.id) }, due: func(qtx *queueTx, t timer) error { return ids{qtx}.due(t) }},
	timerPopID:   {due: func(qtx *queueTx, t timer) error { return popIDs{qtx}.due(t) }},
	timerRequest: {due: requestDue},
	timerKeys:    {due: func(qtx *queueTx, t timer) error { return keyIndex{qtx}.due(t) }},
	timerFair:    {due: func(qtx *queueTx, t timer) error { return fair{qtx}.due(t) }},
	timerTokens:  {due: func(qtx *queueTx, _ timer) error { return rates{qtx}.due() }},
	timerFences:  {due: func(qtx *queueTx, _ timer) error { return fences{qtx}.due() }},
}

// timerWork is the work of timers that fall due.
type timerWork struct {
	ahead func(timer) []byte          // a row that the work reads; nil: none is known before
	due   func(*queueTx, timer) error // a timer of a generation that is over has no work
}

func itemAhead(space string) func(timer) []byte {
	return func(t timer) []byte { return t.place.append(generationPrefix(space, t.queue, t.generation)) }
}

// runDue does the work of a timer of the queue.
func runDue(qtx *queueTx, t timer) error {
	work, known := timerWorks[t.kind]
	switch {
	case !known:
		return fmt.Errorf("unknown kind %q", t.kind)
	case timerKinds[t.kind].ofItem && t.generation != qtx.state.generation:
		return nil // of a purged generation
	}
	return work.due(qtx, t)
}

// requestDue clears the rows of a request whose owner died. Package recipe writes them.
func requestDue(qtx *queueTx, t timer) error {
	for _, space := range []string{spaceRequest, spaceResult} {
		qtx.tx.Clear(append(queueRow(space, qtx.name), t.id...))
	}
	return nil
}
