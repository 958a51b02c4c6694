package fdbpq

import (
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Work is what one transaction does to queues of a store. Its operations share store time and
// the states of the queues. What several of them change, they write once, at the end: the
// rows with which pops find keys, the counters, arrivals and the highest count.
type Work struct {
	store     *Store
	tx        kv.Tx     // nil for a view
	snapshot  kv.Reader // the transaction's snapshot
	storeTime int64     // store time, 0 until it is read
	wall      int64     // wall clock of the first push, which the others have, too; 0: there was none
	queues    []*queueTx
	events    []Event // of the present operation
	joint     bool    // several operations share it: none of them ends it
	sweeps    bool    // the transaction is that of a sweep
	goesOn    bool    // which did a part of a long work

	// Memory for building keys and values. Operations run one after the other and share it.
	keyBuffer, valueBuffer []byte

	// Memory of the first queue, which is nearly always the only one.
	first    queueTx
	pointers [1]*queueTx
}

// bufferSize is enough for the keys of a queue, and for the value of a small item.
const bufferSize = 256

// queueTx is one queue within a Work. It sums up changes of the queue's counters, and of its
// keys, which flush writes once.
type queueTx struct {
	*Work
	name     string
	state    *queueState // one that does not exist, if there is no such queue
	missing  bool        // the state is that of a new queue, which its first item makes
	tally    layout.Tally
	stored   *layout.Tally // the counters without the tally; nil: no limit has depended on them since the last flush
	keys     keyChanges
	arrived  bool         // an item became ready
	freed    bool         // the same since Work.Freed was asked
	txSize   int          // of the items that the present operation has processed
	ended    int          // the same of the holds that operations have ended before the next Hold
	making   func() error // see Queue.Making, of the present operation
	assigned assigned
	settled  *layout.Item // memory for the item of one settlement after another

	home           []byte // see appendHome
	homeGeneration int64
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
	w := &Work{store: s, snapshot: r, keyBuffer: memory[32:32:112], valueBuffer: memory[112:112]}
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
	if qtx.Work != nil {
		qtx = new(queueTx)
	}
	qtx.Work, qtx.name, qtx.state = w, name, s
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

// happened returns the events of the present operation.
func (w *Work) happened() []Event {
	events := w.events
	w.events = nil
	return events
}

// now is store time, the same for all operations of the Work.
func (w *Work) now() (int64, error) {
	if w.storeTime == 0 {
		now, err := w.store.inside.Clock.At(w.snapshot)
		if err != nil {
			return 0, err
		}
		w.storeTime = now
	}
	return w.storeTime, nil
}

// arrive notes that pops may find an item that they did not find before.
func (qtx *queueTx) arrive() { qtx.arrived, qtx.freed = true, true }

// there reports whether the queue exists.
func (qtx *queueTx) there() bool { return qtx.state.exists && !qtx.missing }

// appendPrefix appends the prefix of the queue's keys in a space.
func (qtx *queueTx) appendPrefix(key []byte, space string) []byte {
	if generation := qtx.state.generation; generation != qtx.homeGeneration || len(qtx.home) == 0 {
		qtx.homeGeneration = generation
		qtx.home = layout.AppendHome(qtx.home[:0], qtx.name, generation)
	}
	return append(tuple.AppendString(key, space), qtx.home...)
}

// prefix returns the prefix of the queue's keys in a space, with capacity for a place.
func (qtx *queueTx) prefix(space string) []byte {
	return qtx.appendPrefix(make([]byte, 0, len(space)+len(qtx.name)+64), space)
}

// key returns the key of p in a space; it is valid until the next call, like timerKey's.
func (qtx *queueTx) key(space string, p layout.Place) []byte {
	qtx.keyBuffer = p.Append(qtx.appendPrefix(qtx.keyBuffer[:0], space))
	return qtx.keyBuffer
}

// rowsOfKey returns the prefix of the rows of an item key in a space, with capacity for a place.
func (qtx *queueTx) rowsOfKey(space, key string) []byte {
	b := make([]byte, 0, len(space)+len(qtx.name)+len(key)+64)
	return tuple.AppendBytes(qtx.appendPrefix(b, space), []byte(key))
}

// timerKey returns the key of the timer of the item at p.
func (qtx *queueTx) timerKey(due int64, kind string, p layout.Place) []byte {
	qtx.keyBuffer = layout.AppendTimerKey(qtx.keyBuffer[:0], due, kind, qtx.name, qtx.state.generation, p)
	return qtx.keyBuffer
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

// set writes a value at p in a space. The value was built in the Work's memory, which it may
// have replaced.
func (qtx *queueTx) set(space string, p layout.Place, value []byte) {
	qtx.tx.Set(qtx.key(space, p), value)
	qtx.valueBuffer = value
}

// emit reports an event of the present operation.
func (qtx *queueTx) emit(e Event) {
	e.Queue = qtx.name
	qtx.events = append(qtx.events, e)
}

// front is the reader of what stands in front of the items that a pop takes, and of how many a purge removes: by snapshot, so
// that neither fails on a push, or, where the queue is strict, so that it depends on it.
func (w *Work) front(s *queueState) kv.Reader {
	if w.store.strict || s.config.Strict {
		return w.tx
	}
	return w.snapshot
}
