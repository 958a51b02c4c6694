package fdbpq

import (
	"bytes"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Queues returns up to limit names of existing queues in their order, starting after
// the given name.
func (s *Store) Queues(r kv.Reader, after string, limit int) ([]string, error) {
	prefix := tuple.AppendString(nil, layout.SpaceState)
	begin, end := tuple.Range(prefix)
	if after != "" {
		begin = append(layout.QueueRow(layout.SpaceState, after), 0)
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
			head, _, err := parseStateHead(pair.Value) // of a queue that only a later program serves, too
			if err != nil {
				return nil, fmt.Errorf("queue %q: %w", name, err)
			}
			if head.exists() && len(names) < limit {
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
			for _, kind := range layout.RowKinds {
				begin, end := layout.AllRows(kind.Space, name)
				if kind.Lasts != layout.OfStore && bytes.Compare(begin, last) <= 0 && bytes.Compare(first, end) < 0 {
					between = append(between, name)
					break
				}
			}
		}
		after = names[len(names)-1]
	}
}
