package fdbpq

import (
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

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

// fields returns the tally's number for each counter.
func (t *tally) fields() [counters]*int64 {
	return [counters]*int64{&t.ready, &t.leased, &t.delayed, &t.bytes, &t.expiring, &t.remembered, &t.owing}
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

// Counts is the content of a queue in numbers.
type Counts struct {
	Ready, Leased, Delayed int64 // items
	Bytes                  int64 // of their headers and payloads
	Expiring               int64 // items not leased that have a TTL
	Remembered             int64 // message and pop ids
}

// Length is the number of items, whatever their state.
func (c Counts) Length() int64 { return c.Ready + c.Leased + c.Delayed }

// with returns the counts with what a Work has not written yet.
func (c Counts) with(t *tally) Counts {
	c.Ready, c.Leased, c.Delayed = c.Ready+t.ready, c.Leased+t.leased, c.Delayed+t.delayed
	c.Bytes, c.Expiring, c.Remembered = c.Bytes+t.bytes, c.Expiring+t.expiring, c.Remembered+t.remembered
	return c
}

// countsOf reads the counters of a generation, each as it stands in r.
func countsOf(queue string, r kv.Reader, generation int64) (Counts, error) {
	values, err := r.GetAll(counterKeys(queue, generation))
	if err != nil {
		return Counts{}, err
	}
	n := func(counter int) int64 { return int64(kv.DecodeInteger(values[counter])) }
	return Counts{
		Ready: n(counterReady), Leased: n(counterLeased), Delayed: n(counterDelayed),
		Bytes: n(counterBytes), Expiring: n(counterExpiring), Remembered: n(counterRemembered),
	}, nil
}

// Counts returns the queue's counters, in constant time. They are 0 when there is
// no such queue.
func (q Queue) Counts(r kv.Reader) (Counts, error) {
	qtx, err := q.view(r)
	if err != nil || qtx == nil {
		return Counts{}, err
	}
	return countsOf(q.name, r, qtx.state.generation)
}
