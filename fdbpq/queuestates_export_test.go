package fdbpq

import (
	"context"
	"fmt"
	"reflect"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// KnowsQueue reports whether the store remembers the state of a queue.
func KnowsQueue(s *Store, queue string) bool { return s.queueStates.last(queue) != nil }

// CheckStates compares the states of queues that the store keeps with their rows, parsed anew: with those from which they
// were parsed, and with those that db has. It leaves what the store keeps as it is.
func CheckStates(ctx context.Context, s *Store, db kv.DB) error {
	begin, end := tuple.Range(layout.Row(layout.SpaceState))
	return db.View(ctx, func(r kv.Reader) error {
		rows, err := r.Range(begin, end, kv.RangeOptions{Limit: 1000})
		if err != nil {
			return err
		}
		for _, row := range rows {
			queue, _, err := tuple.ConsumeString(row.Key[len(layout.Row(layout.SpaceState)):])
			if err != nil {
				return err
			}
			if kept, _ := s.queueStates.find(queue, row.Value); kept != nil {
				if err := sameState(kept, row.Value); err != nil {
					return fmt.Errorf("queue %q: %w", queue, err)
				}
			}
		}
		return s.queueStates.check()
	})
}

func (c *queueStates) check() error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for queue, known := range c.ofQueue {
		if known.state == nil { // dropped
			continue
		}
		if err := sameState(known.state, []byte(known.row)); err != nil {
			return fmt.Errorf("queue %q: %w", queue, err)
		}
	}
	if want := (queueState{generation: 1, exists: true, config: defaultConfig()}); !reflect.DeepEqual(*unknownState, want) {
		return fmt.Errorf("the state of an unknown queue is %+v, expected %+v", *unknownState, want)
	}
	return nil
}

func sameState(kept *queueState, row []byte) error {
	fresh, err := parseState(row)
	if err == nil && !reflect.DeepEqual(kept, fresh) {
		err = fmt.Errorf("the state kept is %+v, and its row is that of %+v", kept, fresh)
	}
	return err
}
