package fdbpq

import (
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// queueRows reads and writes rows of one queue within a Work. It sums up changes of the queue's
// counters, and of its keys, which flush writes once.
//
// A part that has only these rows changes no items, makes no queues, and reports no events: one with a queueTx does.
type queueRows struct {
	*transaction
	rowParts
	name    string
	state   *queueState // without exists if there is no such queue
	missing bool        // the state is of a new queue, which its first item makes
	arrived bool        // an item became ready
	freed   bool        // an item became ready since the last call of Work.Freed
	tally   layout.Tally
	stored  *layout.Tally // the counters without the tally, if a limit has depended on them since the last flush
	keys    keyChanges

	finishes bool          // items have left results since the last flush
	promised *layout.Tally // what results took, and items that ask for theirs, at the last flush, if a limit has depended on that

	home           []byte // what follows the space in keys, see appendPrefix
	homeGeneration int64
}

// arrive notes that pops may find an item which they did not find before.
func (q *queueRows) arrive() { q.arrived, q.freed = true, true }

// there reports whether the queue exists.
func (q *queueRows) there() bool { return q.state.exists && !q.missing }

func (q *queueRows) writeState(s *queueState) error {
	raw, err := s.pack()
	if err != nil {
		return err
	}
	q.tx.Set(layout.QueueRow(layout.SpaceState, q.name), raw)
	q.state = s
	return nil
}

// appendPrefix appends the prefix of the queue's keys in a space.
func (q *queueRows) appendPrefix(key []byte, space string) []byte {
	if generation := q.state.generation; generation != q.homeGeneration || len(q.home) == 0 {
		q.homeGeneration = generation
		q.home = layout.AppendHome(q.home[:0], q.name, generation)
	}
	return append(tuple.AppendString(key, space), q.home...)
}

// prefix returns the prefix of the queue's keys in a space, with capacity for a place.
func (q *queueRows) prefix(space string) []byte {
	return q.appendPrefix(make([]byte, 0, len(space)+len(q.name)+64), space)
}

// key returns the key of p in a space, which is valid until the next call of key or timerKey.
func (q *queueRows) key(space string, p layout.Place) []byte {
	q.keyBuffer = p.Append(q.appendPrefix(q.keyBuffer[:0], space))
	return q.keyBuffer
}

// rowsOfKey returns the prefix of the rows of an item key in a space, with capacity for a place.
func (q *queueRows) rowsOfKey(space, key string) []byte {
	b := make([]byte, 0, len(space)+len(q.name)+len(key)+64)
	return tuple.AppendBytes(q.appendPrefix(b, space), []byte(key))
}

// timerKey returns the key of the timer of the item at p.
func (q *queueRows) timerKey(due int64, kind string, p layout.Place) []byte {
	q.keyBuffer = layout.AppendTimerKey(q.keyBuffer[:0], due, kind, q.name, q.state.generation, p)
	return q.keyBuffer
}

// set writes a value at p in a space. The value was built in valueBuffer, and may have outgrown it.
func (q *queueRows) set(space string, p layout.Place, value []byte) {
	q.tx.Set(q.key(space, p), value)
	q.valueBuffer = value
}
