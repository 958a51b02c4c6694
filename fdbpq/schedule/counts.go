package schedule

import (
	"fmt"

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

func parseCounts(value []byte) (n counts, err error) {
	r := tuple.Read(value)
	if r.Ints(&n.schedules, &n.bytes, &n.dense); r.Err() != nil {
		return n, fmt.Errorf("damaged counts of schedules: %w", r.Err())
	}
	return n, nil
}
