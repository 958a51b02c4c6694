package fdbpq

import "github.com/pqbridge/pqbridge/fdbpq/kv"

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
