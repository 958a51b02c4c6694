package fdbpq

import "github.com/pqbridge/pqbridge/internal/tuple"

// The counters of a queue's generation. The transaction that changes rows also
// adds to their counters atomically, so counters neither drift nor conflict.
const (
	counterReady = iota
	counterLeased
	counterDelayed
	counterBytes
	counterExpiring   // timers of items with a TTL
	counterRemembered // message and pop ids; outlives generations, as the ids do
	counterOwing      // keys that owe tokens; outlives generations, as the tokens do
	counters
)

// tally has a number for each counter of a queue.
type tally struct {
	ready, leased, delayed, bytes, expiring, remembered, owing int64
}

// fields returns the tally's number for each counter.
func (t *tally) fields() [counters]*int64 {
	return [counters]*int64{&t.ready, &t.leased, &t.delayed, &t.bytes, &t.expiring, &t.remembered, &t.owing}
}

// item counts an item n times.
func (t *tally) item(l *located, n int64) {
	if l.foreign {
		return // its push did not count it
	}
	switch l.state {
	case StateReady:
		t.ready += n
	case StateDelayed:
		t.delayed += n
	case StateLeased:
		t.leased += n
	}
	t.bytes += n * l.size
}

func counterKey(queue string, generation int64, counter int) []byte {
	if counter >= counterRemembered {
		generation = 0
	}
	return tuple.AppendInt(generationPrefix(spaceCounter, queue, generation), int64(counter))
}

// counterKeys are the keys of the counters of [Counts], in their order.
func counterKeys(queue string, generation int64) [][]byte {
	keys := make([][]byte, counterOwing)
	for i := range keys {
		keys[i] = counterKey(queue, generation, i)
	}
	return keys
}
