package fdbpq

import (
	"bytes"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/tuple"
)

// queueSpaces are the kinds of rows whose second element is a queue.
var queueSpaces = []string{
	spaceState, spaceHigh, spaceArrivals, spaceCounter, spaceReady, spaceDelayed, spaceLeased, spaceForward, spaceChunk,
	spaceDedup, spaceReplay, spaceReplayed, spaceRequest, spaceResult, spaceGarbage,
}

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
				begin, end := tuple.Range(queueRow(space, name))
				if bytes.Compare(begin, last) <= 0 && bytes.Compare(first, end) < 0 {
					between = append(between, name)
					break
				}
			}
		}
		after = names[len(names)-1]
	}
}
