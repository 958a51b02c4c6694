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
	CounterOverhead
	CounterResults // outlives generations, as results do
	CounterResultBytes
	CounterAsks // items that have asked for their results
	Counters
)

// Tally has a number for each counter of a queue.
type Tally struct {
	Ready, Leased, Delayed, Bytes, Expiring, Remembered, Owing, Overhead, Results, ResultBytes, Asks int64
}

// Fields returns the tally's number for each counter.
func (t *Tally) Fields() [Counters]*int64 {
	return [Counters]*int64{
		&t.Ready, &t.Leased, &t.Delayed, &t.Bytes, &t.Expiring, &t.Remembered, &t.Owing, &t.Overhead, &t.Results, &t.ResultBytes, &t.Asks,
	}
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
	t.Overhead += n * l.Overhead
	if l.Asks != 0 {
		t.Asks += n
	}
}

// CounterKey is the key of a counter.
func CounterKey(queue string, generation int64, counter int) []byte {
	switch counter {
	case CounterRemembered, CounterOwing, CounterResults, CounterResultBytes:
		generation = 0
	}
	return tuple.AppendInt(GenerationPrefix(SpaceCounter, queue, generation), int64(counter))
}

// Usage are the counters of what a queue has and takes, Content those of what it has.
var (
	Usage   = []int{CounterReady, CounterLeased, CounterDelayed, CounterBytes, CounterExpiring, CounterRemembered, CounterOverhead}
	Content = Usage[:len(Usage)-1]

	// OfQueue are the counters that end with the queue, and not with a generation, Kept those of its results.
	OfQueue = []int{CounterRemembered, CounterOwing, CounterResults, CounterResultBytes}
	Kept    = OfQueue[2:]

	// Promised are the counters of what results take, and will take when the items have ended that ask for theirs.
	Promised = []int{CounterResultBytes, CounterAsks}
)

// CounterKeys are the keys of some counters, in their order.
func CounterKeys(queue string, generation int64, counters []int) [][]byte {
	keys := make([][]byte, len(counters))
	for i, counter := range counters {
		keys[i] = CounterKey(queue, generation, counter)
	}
	return keys
}
