package fdbpq

import (
	"bytes"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Queue is one queue of a store. Its methods work inside a transaction of the caller
// and take effect when it commits.
type Queue struct {
	store *Store
	name  string
	work  *Work // which several operations share; nil: each has its own
	full  error // why no new items are added; nil: they are
}

// Full returns a handle with which pushes and imports add no new items: they are refused for
// the reason. One that is repeated still finds its item, and one whose content takes the
// place of no less, of an item that it hands over or replaces, is accepted.
func (q Queue) Full(reason error) Queue {
	q.full = reason
	return q
}

// Queue returns a handle for the queue with this name, which need not exist.
func (s *Store) Queue(name string) Queue {
	return Queue{store: s, name: name}
}

// Name returns the queue's name.
func (q Queue) Name() string { return q.name }

// QueuesBetween returns the names of existing queues that may have rows from the
// first key to the last.
func (s *Store) QueuesBetween(r kv.Reader, first, last []byte) ([]string, error) {
	var between []string
	for after := ""; ; {
		names, err := s.Queues(r, after, queuesPerRead)
		if err != nil || len(names) == 0 {
			return between, err
		}
		for _, name := range names {
			for _, space := range queueSpaces {
				begin := queueRow(space, name) // a row of its own in some spaces, which tuple.Range leaves out
				_, end := tuple.Range(begin)
				if bytes.Compare(begin, last) <= 0 && bytes.Compare(first, end) < 0 {
					between = append(between, name)
					break
				}
			}
		}
		after = names[len(names)-1]
	}
}

// Queues returns up to limit names of existing queues in their order, starting after
// the given name.
func (s *Store) Queues(r kv.Reader, after string, limit int) ([]string, error) {
	prefix := tuple.AppendString(nil, spaceState)
	begin, end := tuple.Range(prefix)
	if after != "" {
		begin = append(queueRow(spaceState, after), 0)
	}
	var names []string
	for most, more := min(limit, queuesPerRead), true; more && len(names) < limit; {
		page, err := r.Range(begin, end, kv.RangeOptions{Limit: most})
		if err != nil {
			return nil, err
		}
		for _, pair := range page {
			name, _, err := tuple.ConsumeString(pair.Key[len(prefix):])
			if err != nil {
				return nil, fmt.Errorf("damaged queue name: %w", err)
			}
			state, _, err := parseStateHead(pair.Value)
			if err != nil {
				return nil, fmt.Errorf("queue %q: %w", name, err)
			}
			if state.exists() && len(names) < limit {
				names = append(names, name)
			}
		}
		if more = len(page) == most; more {
			begin = append(page[len(page)-1].Key, 0)
		}
	}
	return names, nil
}

// queuesPerRead has room for the longest page that a bridge shows, and the name behind it.
const queuesPerRead = MaxBatch + 1

// Arrivals returns a watch that fires when an item of the queue becomes ready.
// Created in the transaction that found no item, it misses none.
func (q Queue) Arrivals(tx kv.Tx) *kv.Watch {
	return tx.Watch(queueRow(spaceArrivals, q.name))
}
