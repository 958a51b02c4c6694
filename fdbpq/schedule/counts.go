package schedule

import (
	"fmt"
	"slices"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/internal/named"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// counts are what the limits of a queue's schedules are about.
type counts struct{ schedules, bytes, dense int64 }

func (n *counts) add(row *record, times int64) {
	if row == nil {
		return
	}
	n.schedules += times
	n.bytes += times * row.item.size()
	if row.dense {
		n.dense += times
	}
}

func (h home) counts(r kv.Reader) (n counts, err error) {
	value, err := r.Get(h.Prefix(layout.SpaceSchedules))
	if err != nil || value == nil {
		return n, err
	}
	return parseCounts(value)
}

// Bytes returns how many bytes schedules have, of the queues behind a name up to the last.
func (s *Schedules) Bytes(r kv.Reader, after, last string) (n int64, err error) {
	_, begin := tuple.Range(layout.QueueRow(layout.SpaceSchedules, after))
	_, end := tuple.Range(layout.QueueRow(layout.SpaceSchedules, last))
	for more := true; more; {
		rows, err := r.Range(begin, end, kv.RangeOptions{Limit: fdbpq.MaxBatch})
		if err != nil {
			return 0, err
		}
		more = len(rows) == fdbpq.MaxBatch
		for _, pair := range rows {
			begin = append(slices.Clip(pair.Key), 0)
			h, _, err := named.ParseHome(layout.SpaceSchedules, pair.Key)
			if err != nil {
				return 0, fmt.Errorf("damaged counts of schedules: %w", err)
			}
			living, err := s.store.Queue(h.Queue).Born(r)
			if err != nil && err != fdbpq.ErrNoQueue {
				return 0, err
			}
			if err != nil || living != h.Born {
				continue // of a queue that was deleted
			}
			counted, err := parseCounts(pair.Value)
			if err != nil {
				return 0, err
			}
			n += counted.bytes + counted.schedules*fdbpq.DefinitionBytes
		}
	}
	return n, nil
}

func parseCounts(value []byte) (n counts, err error) {
	r := tuple.Read(value)
	if r.Ints(&n.schedules, &n.bytes, &n.dense); r.Err() != nil {
		return n, fmt.Errorf("damaged counts of schedules: %w", r.Err())
	}
	return n, nil
}

// count counts a schedule as it is from now on; after is nil for a schedule that was deleted. It refuses a schedule too many.
func (h home) count(tx kv.Tx, before, after *record) error {
	n, err := h.counts(tx)
	if err != nil {
		return err
	}
	was := n
	n.add(before, -1)
	n.add(after, 1)
	switch {
	case n == was:
		return nil
	case n.schedules > was.schedules && n.schedules > MaxCount:
		return fmt.Errorf("%w: the queue has %d, allowed are %d", ErrTooMany, was.schedules, MaxCount)
	case n.bytes > was.bytes && n.bytes > MaxBytes:
		return fmt.Errorf("%w: their items have %d bytes, allowed are %d", ErrTooMany, was.bytes, MaxBytes)
	case n.dense > was.dense && n.dense > MaxDense:
		return fmt.Errorf("%w: %d of the queue fire twice within %s, allowed are %d", ErrTooMany, was.dense, denseGap, MaxDense)
	}
	value := []byte(nil)
	for _, field := range []int64{n.schedules, n.bytes, n.dense} {
		value = tuple.AppendInt(value, field)
	}
	if tx.Set(h.Prefix(layout.SpaceSchedules), value); n == (counts{}) {
		tx.Clear(h.Prefix(layout.SpaceSchedules))
	}
	return nil
}
