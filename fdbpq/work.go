package fdbpq

import "github.com/pqbridge/pqbridge/fdbpq/kv"

// Work is what one transaction does to queues of a store. Its operations share store time and
// the states of the queues. What several of them change, they write once, at the end: the
// rows with which pops find keys, the counters, arrivals and the highest count.
type Work struct {
	transaction
	queues []*queueTx
	index  map[string]*queueTx // of more queues than a few
	events []Event             // of the present operation
	joint  bool                // several operations share it, and end by In

	deleted []string // queues that were deleted because nobody uses them

	// Memory of the first queue, which is nearly always the only one.
	first    queueTx
	pointers [1]*queueTx
}

// Queue returns a handle for a queue within the Work.
func (w *Work) Queue(name string) Queue { return w.store.Queue(name).Within(w) }

func newWork(s *Store, tx kv.Tx) *Work {
	w := workOn(s, tx.Snapshot())
	w.tx = tx
	return w
}

// workOn returns a Work that only reads.
func workOn(s *Store, r kv.Reader) *Work {
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
	w.indexLast()
	return qtx, nil
}

// fewQueues is how many queues a Work looks through faster than it finds one by an index.
const fewQueues = 16

// indexLast keeps the index of the queues, if there are more than a few.
func (w *Work) indexLast() {
	if len(w.queues) <= fewQueues {
		return
	}
	if w.index == nil {
		w.index = make(map[string]*queueTx, 4*fewQueues)
		for _, qtx := range w.queues {
			w.index[qtx.name] = qtx
		}
	}
	last := w.queues[len(w.queues)-1]
	w.index[last.name] = last
}

// with returns a queue in a state.
func (w *Work) with(name string, s *queueState) *queueTx {
	qtx := &w.first
	if qtx.work != nil {
		qtx = new(queueTx)
	}
	qtx.work, qtx.transaction, qtx.name, qtx.state = w, &w.transaction, name, s
	qtx.rowParts, qtx.itemParts = rowPartsOf(&qtx.queueRows), itemPartsOf(qtx)
	return qtx
}

// known returns a queue whose state the Work has read, nil before that.
func (w *Work) known(name string) *queueTx {
	if w.index != nil {
		return w.index[name]
	}
	for _, qtx := range w.queues {
		if qtx.name == name {
			return qtx
		}
	}
	return nil
}

// Keeping has the queues of the Work keep the body of a result only if may admits its bytes. It is asked when the queue and the store
// have room, and not for results that nobody has asked for. nil: [Store.Crowded] decides.
func (w *Work) Keeping(may func(bytes int) bool) { w.keeping = may }

// Found counts the keys whose rows were written, the rows with which pops find keys, whatever their items did.
func (w *Work) Found() Found { return w.found }

// In runs fn, whose operations on queues of the Work belong together, and then writes what
// they have changed together. No other handle of these queues is used in the transaction
// before In returns. An error fails the transaction.
func (s *Store) In(tx kv.Tx, fn func(*Work) error) error {
	w := newWork(s, tx)
	w.joint = true
	if err := fn(w); err != nil {
		return err
	}
	return w.flush()
}

func (w *Work) flush() error {
	for _, qtx := range w.queues {
		if err := qtx.flush(); err != nil {
			return err
		}
	}
	return nil
}

// Freed reports whether items of a queue have become ready, or free to go, since it was asked
// before: a pop of the Work that found no item may find one now.
func (w *Work) Freed(queue string) (bool, error) {
	qtx, err := w.queue(queue)
	if err == nil {
		err = qtx.keyIndex.flush()
	}
	if err != nil {
		return false, err
	}
	freed := qtx.freed
	qtx.freed = false
	return freed, nil
}

// transaction is what the queues of a Work share: the transaction itself, store time, and
// memory for building keys and values.
type transaction struct {
	store     *Store
	tx        kv.Tx     // nil for a view
	snapshot  kv.Reader // the transaction's snapshot
	storeTime int64     // 0 until it is read
	wall      int64     // wall clock of the first push, which all further pushes have, too; 0: before it
	sweeps    bool      // the transaction is a sweep's
	goesOn    bool      // the sweep did a part of a long work
	found     Found     // keys that were found for pops

	keeping func(bytes int) bool // see Work.Keeping

	// Operations run one after the other and share this memory.
	keyBuffer, valueBuffer []byte
}

// bufferSize is enough for the keys of a queue, and for the value of a small item.
const bufferSize = 256

// now is store time, the same for all operations of a Work.
func (t *transaction) now() (int64, error) {
	if t.storeTime == 0 {
		now, err := t.store.inside.Clock.At(t.snapshot)
		if err != nil {
			return 0, err
		}
		t.storeTime = now
	}
	return t.storeTime, nil
}

// reader reads rows so that the transaction depends on them, or by snapshot, so that it does not.
func (t *transaction) reader(depends bool) kv.Reader {
	if depends {
		return t.tx
	}
	return t.snapshot
}

// front reads the rows in front of the items that a pop takes, and how many items a purge removes. Neither fails on a
// push, but in a strict queue, where both depend on these rows. A view has no dependencies.
func (t *transaction) front(s *queueState) kv.Reader {
	return t.reader(t.tx != nil && (t.store.strict || s.config.Strict))
}

// Found counts the keys of each queue whose rows were written, the rows with which pops find keys. A change of the
// configuration may write the rows of some keys with ready items, and sweeps then write the rows of all, a part in each.
type Found map[string]int

func (f *Found) add(queue string) {
	if *f == nil {
		*f = make(Found)
	}
	(*f)[queue]++
}
