package fdbpq

import (
	"bytes"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/tuple"
)

// QueuesBetween returns the names of existing queues that may have rows between
// two keys, both of them included.
func (s *Store) QueuesBetween(r kv.Reader, first, last []byte) ([]string, error) {
	var between []string
	for after := ""; ; {
		names, err := s.Queues(r, after, queuesPerRead)
		if err != nil || len(names) == 0 {
			return between, err
		}
		for _, name := range names {
			for _, space := range queueSpaces {
				begin := queueRow(space, name) // itself a row of some spaces, which the range behind it leaves out
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
