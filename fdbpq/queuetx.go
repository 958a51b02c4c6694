package fdbpq

import (
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// queueTx works on one queue within a transaction. It sums up changes of the queue's
// counters, which finish writes once. Without tx it only reads.
type queueTx struct {
	Queue
	tx        kv.Tx     // nil for a view
	snapshot  kv.Reader // the transaction's snapshot
	state     *queueState
	storeTime int64 // store time, 0 until it is read
	tally     tally
	keys      keyChanges
	arrived   bool // an item became ready
	sweeps    bool // the transaction is that of a sweep
	goesOn    bool // which did a part of a long work
	events    []Event
	txSize    int // of the items processed so far
	buffers   *buffers
}

// buffers are memory for building keys and values. The operations on one queue in
// one transaction run one after the other and share it.
type buffers struct {
	generation int64
	home       []byte // see appendHome
	key        []byte
	value      []byte
}

// bufferSize is enough for the keys of a queue, and for the value of a small item.
const bufferSize = 256

// tally has a number for each counter of a queue.
type tally struct {
	ready, leased, delayed, bytes, expiring, remembered, owing int64
}

// begin returns a queueTx, nil when there is no such queue.
func (q Queue) begin(tx kv.Tx) (*queueTx, error) {
	s, err := q.readState(tx)
	if err != nil || s == nil {
		return nil, err
	}
	return q.newQueueTx(tx, s), nil
}

func (q Queue) newQueueTx(tx kv.Tx, s *queueState) *queueTx {
	qtx := q.newQueueView(tx.Snapshot(), s)
	qtx.tx = tx
	return qtx
}

// newQueueView returns a queueTx that only reads.
func (q Queue) newQueueView(r kv.Reader, s *queueState) *queueTx {
	qtx := &queueTx{Queue: q, snapshot: r, state: s}
	if q.cache != nil {
		qtx.buffers = &q.cache.buffers
	} else {
		qtx.buffers = new(buffers)
	}
	if b := qtx.buffers; b.key == nil {
		memory := make([]byte, bufferSize) // keys and values would grow to it in many steps
		b.home, b.key, b.value = memory[0:0:32], memory[32:32:112], memory[112:112]
	}
	return qtx
}

// now is store time, the same for all operations on the queue.
func (qtx *queueTx) now() (int64, error) {
	if qtx.storeTime == 0 && qtx.cache != nil {
		qtx.storeTime = qtx.cache.storeTime
	}
	if qtx.storeTime == 0 {
		now, err := qtx.store.now(qtx.snapshot)
		if err != nil {
			return 0, err
		}
		qtx.storeTime = now
		if qtx.cache != nil {
			qtx.cache.storeTime = now
		}
	}
	return qtx.storeTime, nil
}

// appendPrefix appends the prefix of the queue's keys in a space.
func (qtx *queueTx) appendPrefix(key []byte, space string) []byte {
	b, generation := qtx.buffers, qtx.state.generation
	if b.generation != generation || len(b.home) == 0 {
		b.generation = generation
		b.home = appendHome(b.home[:0], qtx.name, generation)
	}
	return append(tuple.AppendString(key, space), b.home...)
}

// prefix returns the prefix of the queue's keys in a space, with capacity for a place.
func (qtx *queueTx) prefix(space string) []byte {
	return qtx.appendPrefix(make([]byte, 0, len(space)+len(qtx.name)+64), space)
}

// key returns the key of p in a space; it is valid until the next call, like
// timerKey's.
func (qtx *queueTx) key(space string, p place) []byte {
	b := qtx.buffers
	b.key = p.append(qtx.appendPrefix(b.key[:0], space))
	return b.key
}

// timerKey returns the key of the timer of the item at p.
func (qtx *queueTx) timerKey(due int64, kind string, p place) []byte {
	b := qtx.buffers
	b.key = appendTimerKey(b.key[:0], due, kind, qtx.name, qtx.state.generation, p)
	return b.key
}

// set writes a value at p in a space. The value was built in buffers.value, whose
// memory it may have replaced.
func (qtx *queueTx) set(space string, p place, value []byte) {
	qtx.tx.Set(qtx.key(space, p), value)
	qtx.buffers.value = value
}

// finish writes the changes of the counters, and has pops find the keys that changed.
func (qtx *queueTx) finish() error {
	if err := (keyIndex{qtx}).flush(); err != nil {
		return err
	}
	for counter, delta := range qtx.tally.fields() {
		if *delta != 0 {
			qtx.tx.Add(qtx.counterKey(qtx.state.generation, counter), *delta)
		}
	}
	if qtx.arrived {
		qtx.tx.Add(queueRow(spaceArrivals, qtx.name), 1)
	}
	qtx.tally, qtx.arrived = tally{}, false
	return nil
}
