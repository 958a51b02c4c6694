package schedule

import (
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
)

// Each item of a schedule says whose it is, in lines of its headers.
const (
	nameHeader = "PQ-Schedule: "
	atHeader   = "PQ-Scheduled-At: "
)

// owner is whose the unique values of items of schedules are.
const owner = "schedule"

// newItem is what the schedule pushes for a time.
func (row *record) newItem(name string, at time.Time) fdbpq.NewItem {
	i := &row.item
	headers := make([]byte, 0, len(i.Headers)+len(nameHeader)+len(name)+len(atHeader)+len(time.RFC3339Nano)+4)
	headers = append(append(append(headers, i.Headers...), nameHeader...), name...)
	headers = append(append(headers, "\r\n"...), atHeader...)
	headers = append(at.AppendFormat(headers, time.RFC3339Nano), "\r\n"...)
	item := fdbpq.NewItem{
		Headers: headers, Payload: i.Payload, Priority: i.Priority, HasPriority: i.HasPriority,
		Key: i.Key, Weight: i.Weight, TTL: i.TTL, Owner: owner,
	}
	if row.config.Overlap == OverlapAllow {
		return item
	}
	item.Unique = name
	switch row.config.Overlap {
	case OverlapOne:
		item.UniqueUntilLeased = true
	case OverlapReplace:
		item.OnConflict = fdbpq.ConflictReplace
	}
	return item
}
