package fdbpq

import (
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Work is what one transaction does to queues of a store. Its operations share store time and
// the states of the queues. What several of them change, they write once, at the end: the
// rows with which pops find keys, the counters, arrivals and the highest count.
type Work struct {
	transaction
	queues []*queueTx
	events []Event // of the present operation
	joint  bool    // several operations share it: none of them ends it

	// Memory of the first queue, which is nearly always the only one.
	first    queueTx
	pointers [1]*queueTx
}

// queueTx is one queue within a Work: its rows, and the operations that change its items, make
// it, or reach other queues of the Work.
type queueTx struct {
	queueRows
	work     *Work
	txSize   int          // of the items that the present operation has processed
	ended    int          // size of the holds that were ended since the last Hold
	making   func() error // see Queue.Making, of the present operation
	assigned assigned
	settled  *layout.Item // memory for the item of one settlement after another
}

// assigned are the numbers that a queue has given out.
type assigned struct {
	count         int64 // highest count
	known         bool  // it was read
	counts        bool  // a higher one than the stored one was given out
	promisedFence int64 // highest minFence assigned by an import; 0: not read yet
}

func (s *Store) work(tx kv.Tx) *Work {
	w := s.workOn(tx.Snapshot())
	w.tx = tx
	return w
}

// workOn returns a Work that only reads.
func (s *Store) workOn(r kv.Reader) *Work {
	memory := make([]byte, bufferSize) // keys and values would grow to it in many steps
	w := &Work{transaction: transaction{store: s, snapshot: r, keyBuffer: memory[32:32:112], valueBuffer: memory[112:112]}}
	w.queues, w.first.home = w.pointers[:0], memory[0:0:32]
	return w
}

// queue returns a queue, which need not exist.
func (w *Work) queue(name string) (*queueTx, error) {
	if qtx := w.known(name); qtx != nil {
		return qtx, nil
	}
	s, err := w.store.readStateRow(w.tx, name)
	if err != nil {
		return nil, err
	}
	if s == nil {
		s = &queueState{config: defaultConfig()}
	}
	qtx := w.with(name, s)
	w.queues = append(w.queues, qtx)
	return qtx, nil
}

// with returns a queue in a state.
func (w *Work) with(name string, s *queueState) *queueTx {
	qtx := &w.first
	if qtx.work != nil {
		qtx = new(queueTx)
	}
	qtx.work, qtx.transaction, qtx.name, qtx.state = w, &w.transaction, name, s
	return qtx
}

// known returns a queue whose state the Work has read, nil if it has not.
func (w *Work) known(name string) *queueTx {
	for _, qtx := range w.queues {
		if qtx.name == name {
			return qtx
		}
	}
	return nil
}

// Found says of how many keys the rows were written with which pops find them, whatever their items did.
func (w *Work) Found() Found { return w.found }

// happened returns the events of the present operation.
func (qtx *queueTx) happened() []Event {
	events := qtx.work.events
	qtx.work.events = nil
	return events
}

// highest is the highest count that was given out, also by what the transaction has not
// written yet.
func (qtx *queueTx) highest() (int64, error) {
	if !qtx.assigned.known {
		// By snapshot: a dependency on it would make all pushes conflict.
		high, err := qtx.snapshot.Get(layout.QueueRow(layout.SpaceHigh, qtx.name))
		if err != nil {
			return 0, err
		}
		qtx.assigned.count, qtx.assigned.known = int64(kv.DecodeInteger(high)), true
	}
	return qtx.assigned.count, nil
}

// issue notes that a count was given out.
func (qtx *queueTx) issue(count int64) {
	if count > qtx.assigned.count {
		qtx.assigned.count, qtx.assigned.counts = count, true
	}
}

// emit reports an event of the present operation.
func (qtx *queueTx) emit(e Event) {
	e.Queue = qtx.name
	qtx.work.events = append(qtx.work.events, e)
}
