package fdbpq

import (
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Config returns the queue's configuration, the defaults when there is no such
// queue.
func (q Queue) Config(r kv.Reader) (Config, error) {
	s, err := q.read(r)
	if err != nil || s == nil {
		return defaultConfig(), err
	}
	return s.config, nil
}

// Display turns a store time, such as [StoredItem.Due], into the time of day it
// stands for by this process's wall clock.
func (s *Store) Display(due int64) time.Time { return s.display(due) }
