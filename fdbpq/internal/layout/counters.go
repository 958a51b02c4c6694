package layout

import "github.com/pqbridge/pqbridge/internal/tuple"

// The counters of a queue's generation. The transaction that changes rows also
// adds to their counters atomically, so counters neither drift nor conflict.
const (
	CounterReady = iota
	CounterLeased
	CounterDelayed
	CounterBytes
	CounterExpiring   // timers of items with a TTL
	CounterRemembered // message and pop ids; outlives generations, as the ids do
	CounterOwing      // keys that owe tokens; outlives generations, as the tokens do
	Counters
)

// Tally has a number for each counter of a queue.
type Tally struct {
	Ready, Leased, Delayed, Bytes, Expiring, Remembered, Owing int64
}

// Fields returns the tally's number for each counter.
func (t *Tally) Fields() [Counters]*int64 {
	return [Counters]*int64{&t.Ready, &t.Leased, &t.Delayed, &t.Bytes, &t.Expiring, &t.Remembered, &t.Owing}
}

// Count counts an item n times.
func (t *Tally) Count(l *Item, n int64) {
	if l.Foreign {
		return // its push did not count it
	}
	switch l.State {
	case StateReady:
		t.Ready += n
	case StateDelayed:
		t.Delayed += n
	case StateLeased:
		t.Leased += n
	}
	t.Bytes += n * l.Size
}

// CounterKey is the key of a counter.
func CounterKey(queue string, generation int64, counter int) []byte {
	if counter >= CounterRemembered {
		generation = 0
	}
	return tuple.AppendInt(GenerationPrefix(SpaceCounter, queue, generation), int64(counter))
}

// CounterKeys are the keys of the counters up to CounterRemembered, in their order.
func CounterKeys(queue string, generation int64) [][]byte {
	keys := make([][]byte, CounterOwing)
	for i := range keys {
		keys[i] = CounterKey(queue, generation, i)
	}
	return keys
}
