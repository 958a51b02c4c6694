package schedule

import (
	"fmt"
	"hash/fnv"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// lanes is how many parts the index has.
const lanes = 16

func dueRow(due int64, h home, name string) []byte {
	key := tuple.AppendInt(lanePrefix(laneOf(h.Queue)), due)
	return tuple.AppendString(layout.AppendHome(key, h.Queue, h.Born), name)
}

func lanePrefix(lane int64) []byte { return tuple.AppendInt(layout.Row(layout.SpaceDue), lane) }

func laneOf(queue string) int64 {
	hash := fnv.New32a()
	hash.Write([]byte(queue))
	return int64(hash.Sum32() % lanes)
}

// dueEntry is a parsed index row.
type dueEntry struct {
	key  []byte
	due  int64
	home home
	name string
}

// at returns the index row of the schedule for another time.
func (e dueEntry) at(due int64) dueEntry {
	e.due, e.key = due, dueRow(due, e.home, e.name)
	return e
}

// behindQueue is the key behind all rows of the queue at that time.
func (e dueEntry) behindQueue() []byte {
	key := tuple.AppendInt(lanePrefix(laneOf(e.home.Queue)), e.due)
	_, end := tuple.Range(layout.AppendHome(key, e.home.Queue, e.home.Born))
	return end
}

func parseDue(key []byte) (e dueEntry, err error) {
	r := tuple.Read(key[len(layout.Row(layout.SpaceDue)):])
	r.Int() // the lane
	e = dueEntry{key: key, due: r.Int(), home: newHome(r.Text(), r.Int()), name: r.Text()}
	if r.Err() != nil {
		return e, fmt.Errorf("damaged index of schedules: %w", r.Err())
	}
	return e, nil
}
