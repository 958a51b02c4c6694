package schedule

import (
	"fmt"
	"hash/fnv"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/internal/named"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// home is where the rows of a queue's schedules are.
type home struct{ named.Home }

func newHome(queue string, born int64) home { return home{named.Home{Queue: queue, Born: born}} }

// homeOf is where the schedules of a queue are. ErrNoQueue: there is no such queue.
func homeOf(r kv.Reader, q fdbpq.Queue) (home, error) {
	born, err := q.Born(r)
	return newHome(q.Name(), born), err
}

func read(r kv.Reader, q fdbpq.Queue, name string) (*record, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	h, err := homeOf(r, q)
	if err != nil {
		return nil, err
	}
	row, err := h.read(r, name)
	if err == nil && row == nil {
		err = ErrNone
	}
	return row, err
}

// read returns a schedule, nil if there is none.
func (h home) read(r kv.Reader, name string) (*record, error) {
	rows, err := r.GetAll([][]byte{h.Key(layout.SpaceSchedule, name), h.Key(layout.SpaceProgress, name)})
	if err != nil || rows[0] == nil && rows[1] == nil {
		return nil, err
	}
	row := new(record)
	err = row.parseDefinition(rows[0])
	if err == nil {
		err = row.parse(rows[1])
	}
	if err != nil {
		return nil, fmt.Errorf("damaged schedule %q: %w", name, err)
	}
	return row, nil
}

// write writes a schedule, and moves its index row. before is the schedule as the store has it,
// nil: there is none.
func (h home) write(tx kv.Tx, name string, before, after *record) error {
	value, err := after.packDefinition()
	if err != nil {
		return err
	}
	tx.Set(h.Key(layout.SpaceSchedule, name), value)
	h.advance(tx, name, before, after)
	return nil
}

// advance writes how far a schedule is, and moves its index row.
func (h home) advance(tx kv.Tx, name string, before, after *record) {
	tx.Set(h.Key(layout.SpaceProgress, name), after.pack())
	was, is := int64(0), after.nextVisit()
	if before != nil {
		was = before.nextVisit()
	}
	if was == is {
		return
	}
	if was != 0 {
		tx.Clear(dueRow(was, h, name))
	}
	if is != 0 {
		tx.Set(dueRow(is, h, name), nil)
	}
}

// remove clears a schedule.
func (h home) remove(tx kv.Tx, name string, row *record) error {
	if err := h.count(tx, row, nil); err != nil {
		return err
	}
	tx.Clear(h.Key(layout.SpaceSchedule, name))
	tx.Clear(h.Key(layout.SpaceProgress, name))
	if at := row.nextVisit(); at != 0 {
		tx.Clear(dueRow(at, h, name))
	}
	return nil
}

func (h home) counts(r kv.Reader) (n counts, err error) {
	value, err := r.Get(h.Prefix(layout.SpaceSchedules))
	if err != nil || value == nil {
		return n, err
	}
	return parseCounts(value)
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

// shards is how many parts the index has.
const shards = 16

func dueRow(due int64, h home, name string) []byte {
	key := tuple.AppendInt(shardPrefix(shardOf(h.Queue)), due)
	return tuple.AppendString(layout.AppendHome(key, h.Queue, h.Born), name)
}

func shardPrefix(shard int64) []byte { return tuple.AppendInt(layout.Row(layout.SpaceDue), shard) }

func shardOf(queue string) int64 {
	hash := fnv.New32a()
	hash.Write([]byte(queue))
	return int64(hash.Sum32() % shards)
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
	key := tuple.AppendInt(shardPrefix(shardOf(e.home.Queue)), e.due)
	_, end := tuple.Range(layout.AppendHome(key, e.home.Queue, e.home.Born))
	return end
}

func parseDue(key []byte) (e dueEntry, err error) {
	r := tuple.Read(key[len(layout.Row(layout.SpaceDue)):])
	r.Int() // the shard
	e = dueEntry{key: key, due: r.Int(), home: newHome(r.Text(), r.Int()), name: r.Text()}
	if r.Err() != nil {
		return e, fmt.Errorf("damaged index of schedules: %w", r.Err())
	}
	return e, nil
}
