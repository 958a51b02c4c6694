package fdbpq

import (
	"errors"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Counts is the content of a queue in numbers.
type Counts struct {
	Ready, Leased, Delayed int64 // items
	Bytes                  int64 // of their headers and payloads
	Expiring               int64 // items not leased that have a TTL
	Remembered             int64 // message and pop ids
	Overhead               int64 // bytes that unique values, keys, attempts and deaths take beyond ItemBytes
	Results                int64 // kept, see Result
	ResultBytes            int64 // of their bodies, and KeptBytes of each
}

// Length is the number of items, whatever their state.
func (c Counts) Length() int64 { return c.Ready + c.Leased + c.Delayed }

// with returns the counts with what a Work has not written yet.
func (c Counts) with(t *layout.Tally) Counts {
	c.Ready, c.Leased, c.Delayed = c.Ready+t.Ready, c.Leased+t.Leased, c.Delayed+t.Delayed
	c.Bytes, c.Expiring, c.Remembered = c.Bytes+t.Bytes, c.Expiring+t.Expiring, c.Remembered+t.Remembered
	c.Overhead += t.Overhead
	c.Results, c.ResultBytes = c.Results+t.Results, c.ResultBytes+t.ResultBytes
	return c
}

// countsOf reads the counters of a generation but that of overhead, each as it stands in r.
func countsOf(queue string, r kv.Reader, generation int64) (Counts, error) {
	t, err := storedTally(queue, r, generation, layout.Content)
	return Counts{}.with(&t), err
}

// usageOf reads the counters of a generation, each as it stands in r.
func usageOf(queue string, r kv.Reader, generation int64) (Counts, error) {
	t, err := storedTally(queue, r, generation, layout.Usage)
	return Counts{}.with(&t), err
}

// storedTally reads some counters.
func storedTally(queue string, r kv.Reader, generation int64, counters []int) (t layout.Tally, err error) {
	values, err := r.GetAll(layout.CounterKeys(queue, generation, counters))
	fields := t.Fields()
	for i, value := range values {
		*fields[counters[i]] = int64(kv.DecodeInteger(value))
	}
	return t, err
}

// What is no item counts in a [Size] by its number, as [RememberedBytes], long answers to pops apart: to know its bytes each change would write a
// counter more.
const (
	KeySettingsBytes = 256
	DefinitionBytes  = 512 // what a schedule has beside its item
)

// Size is what a queue has in the store, but for schedules.
type Size struct {
	Items int64 // whatever their state
	Bytes int64 // of their headers, payloads and overhead, of remembered ids with answers, of results, and of settings of keys
}

// Size returns the queue's size, in constant time. It is 0 when there is no such queue. Of a queue that only a later program
// serves it is what this program knows to count.
func (q Queue) Size(r kv.Reader) (Size, error) {
	qtx, err := q.view(r)
	if errors.Is(err, ErrFormat) {
		return q.sizeOfLater(r)
	}
	if err != nil || qtx == nil {
		return Size{}, err
	}
	c, err := usageWithResults(&qtx.queueRows, r)
	if err != nil {
		return Size{}, err
	}
	kept, err := qtx.answers.kept()
	size := c.Bytes + c.Overhead + c.Remembered*RememberedBytes + c.ResultBytes + kept + qtx.state.keysSet*KeySettingsBytes
	return Size{Items: c.Length(), Bytes: size}, err
}

// sizeOfLater returns the size of a queue that a later program serves, as far as this program can tell: it counts for a quota.
func (q Queue) sizeOfLater(r kv.Reader) (Size, error) {
	raw, err := r.Get(layout.QueueRow(layout.SpaceState, q.name))
	if err != nil {
		return Size{}, err
	}
	head, _, err := parseStateHead(raw)
	if err != nil || !head.exists() {
		return Size{}, err
	}
	c, err := usageOf(q.name, r, head.generation)
	if err != nil {
		return Size{}, err
	}
	kept, err := storedTally(q.name, r, 0, layout.Kept)
	return Size{Items: c.Length(), Bytes: c.Bytes + c.Overhead + c.Remembered*RememberedBytes + kept.ResultBytes}, err
}

// Counts returns the queue's counters, in constant time. They are 0 when there is
// no such queue.
func (q Queue) Counts(r kv.Reader) (Counts, error) {
	qtx, err := q.view(r)
	if err != nil || qtx == nil {
		return Counts{}, err
	}
	return usageWithResults(&qtx.queueRows, r)
}

// usageWithResults reads the counters of a queue, each as it stands in r.
func usageWithResults(q *queueRows, r kv.Reader) (Counts, error) {
	c, err := usageOf(q.name, r, q.state.generation)
	if err != nil || !q.state.results {
		return c, err
	}
	kept, err := storedTally(q.name, r, 0, layout.Kept)
	return c.with(&kept), err
}
