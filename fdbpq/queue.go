package fdbpq

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Queue is one queue of a store. Its methods work inside a transaction of the caller
// and take effect when it commits.
type Queue struct {
	store *Store
	name  string
	work  *Work // that the operations of the handle share; without it each has its own
	full  error // the reason to refuse new items

	making func() error // asked before the queue is made: an error refuses that
}

// Queue returns a handle for the queue with this name, which need not exist.
func (s *Store) Queue(name string) Queue {
	return Queue{store: s, name: name}
}

// Store returns the store of the queue.
func (q Queue) Store() *Store { return q.store }

// Name returns the queue's name.
func (q Queue) Name() string { return q.name }

// Making returns a handle that makes the queue only if may returns nil; otherwise requests that would
// make it fail with the error of may. A queue that counts with an existing queue is made without asking, see [CountsWith].
func (q Queue) Making(may func() error) Queue {
	q.making = may
	return q
}

// Full returns a handle with which pushes and imports add no new items: they are refused for
// the reason. A repeated push still finds its item. A push that replaces or hands over an item
// at least as large is accepted.
func (q Queue) Full(reason error) Queue {
	q.full = reason
	return q
}

// Arrivals returns a watch that fires when an item of the queue becomes ready.
// Created in the transaction that found no item, it misses no arrival.
func (q Queue) Arrivals(tx kv.Tx) *kv.Watch {
	return tx.Watch(layout.QueueRow(layout.SpaceArrivals, q.name))
}

// Within returns the same handle within a Work.
func (q Queue) Within(w *Work) Queue {
	q.work = w
	return q
}

// In runs fn, whose operations on the queue belong together: in the Work of the handle, or else in a Work of their own, as
// [Store.In] does: then an error fails the transaction.
func (q Queue) In(tx kv.Tx, fn func(Queue) error) error {
	if q.work != nil {
		return fn(q)
	}
	return q.store.In(tx, func(w *Work) error { return fn(q.Within(w)) })
}

// open begins an operation on the queue, which need not exist.
func (q Queue) open(tx kv.Tx) (*queueTx, error) {
	w := q.work
	if w == nil {
		w = newWork(q.store, tx)
	}
	w.events = nil
	qtx, err := w.queue(q.name)
	if err != nil {
		return nil, err
	}
	qtx.txSize, qtx.making = 0, q.making
	return qtx, qtx.disuse.use()
}

// begin begins an operation on the queue. It returns nil when there is no such queue.
func (q Queue) begin(tx kv.Tx) (*queueTx, error) {
	qtx, err := q.open(tx)
	if err != nil || !qtx.there() {
		return nil, err
	}
	return qtx, nil
}

// view begins an operation that only reads. It returns nil when there is no such queue.
func (q Queue) view(r kv.Reader) (*queueTx, error) {
	if q.work != nil {
		if err := q.work.flush(); err != nil {
			return nil, err
		}
	}
	s, err := q.readState(r)
	if err != nil || s == nil {
		return nil, err
	}
	return workOn(q.store, r).with(q.name, s), nil
}

// readState returns the queue's state, nil when there is no such queue.
func (q Queue) readState(r kv.Reader) (*queueState, error) {
	if w := q.work; w != nil && r == kv.Reader(w.tx) {
		qtx, err := w.queue(q.name)
		if err != nil || !qtx.there() {
			return nil, err
		}
		return qtx.state, nil
	}
	s, err := q.store.readStateRow(r, q.name)
	if err != nil || s == nil || !s.exists {
		return nil, err
	}
	return s, nil
}

// beginAt starts a transaction on the queue and locates an item in it, whatever its state. It returns nil without the queue, or
// without the item.
func (q Queue) beginAt(tx kv.Tx, id ID) (*queueTx, *layout.Item, error) {
	qtx, err := q.begin(tx)
	if err != nil || qtx == nil {
		return nil, nil, err
	}
	l, err := qtx.locate(tx, id)
	return qtx, l, err
}

// beginWithItem starts a transaction on the queue and locates a living item in it. ErrHeld: it cannot be changed.
func (q Queue) beginWithItem(tx kv.Tx, id ID) (*queueTx, *layout.Item, error) {
	qtx, l, err := q.beginAt(tx, id)
	switch {
	case err != nil || l == nil || l.Dying():
		return qtx, nil, err
	case l.Held():
		return qtx, l, ErrHeld
	}
	return qtx, l, nil
}

// ErrHeld: somebody holds the item, or items, as a link does.
var ErrHeld = errors.New("a link holds it")

// Born returns the generation at which the queue was made. ErrNoQueue: there is no
// such queue.
func (q Queue) Born(r kv.Reader) (born int64, err error) {
	s, err := q.readLiving(r)
	if err != nil {
		return 0, err
	}
	return s.born, nil
}

// Generation returns the generation of the queue's items. Each purge begins a new generation. ErrNoQueue: there is no such queue.
func (q Queue) Generation(r kv.Reader) (int64, error) {
	s, err := q.readLiving(r)
	if err != nil {
		return 0, err
	}
	return s.generation, nil
}

// readLiving returns the state of a queue that has to exist.
func (q Queue) readLiving(r kv.Reader) (*queueState, error) {
	s, err := q.readState(r)
	if err == nil && s == nil {
		err = ErrNoQueue
	}
	return s, err
}

// Counted reports whether the queue counts among its tenant's queues already: it exists, or the queue with which it
// counts exists.
func (q Queue) Counted(r kv.Reader) (bool, error) {
	s, err := q.readState(r)
	if with := CountsWith(q.name); err == nil && s == nil && with != "" {
		s, err = q.store.Queue(with).readState(r)
	}
	return s != nil, err
}

// A queue may belong to a tenant: its name is then that of the tenant, a dot, and its own. A configuration
// or a dead letter names another queue by its own name, and means a queue of the same tenant.

// tenantOf returns the tenant of a queue, "" for a queue without a tenant.
func tenantOf(queue string) string { return queue[:max(0, strings.LastIndexByte(queue, '.'))] }

// ownName returns the name of a queue without its tenant.
func ownName(queue string) string { return queue[strings.LastIndexByte(queue, '.')+1:] }

// sameTenant returns the name of the queue that the tenant of a queue calls own.
func sameTenant(queue, own string) string { return queue[:len(queue)-len(ownName(queue))] + own }

// CountsWith returns the queue with which a queue counts as one queue of its tenant: its default dead-letter queue, or the
// queue whose dead letters it has. It returns "" for a queue that counts alone. So dead letters never make a queue too many.
func CountsWith(queue string) string {
	home, dead := strings.CutSuffix(queue, DeadLetterSuffix)
	switch {
	case !dead:
		return queue + DeadLetterSuffix
	case strings.HasSuffix(home, DeadLetterSuffix):
		return ""
	}
	return home
}

// defaultDeadLetters is the name of the queue's default dead-letter queue, "" if it would
// be too long to be asked for.
func defaultDeadLetters(queue string) string {
	if len(ownName(queue))+len(DeadLetterSuffix) > MaxDeadLetterName {
		return ""
	}
	return queue + DeadLetterSuffix
}

// DeadLetterSuffix ends the name of a queue's default dead-letter queue.
const DeadLetterSuffix = "-dead"

// MaxDeadLetterName bounds the bytes of that name. An item that went to a queue with a
// longer one could not be reached.
const MaxDeadLetterName = 69

// listed reports whether a list of queues, separated by commas, names a queue. "*" names
// all.
func listed(names, queue string) bool {
	return names == "*" || slices.Contains(strings.Split(names, ","), queue)
}

// areNames reports whether a text is a list of queues, or "*", or empty.
func areNames(text string) bool { return text == "" || !slices.Contains(strings.Split(text, ","), "") }

// Queues returns up to limit names of existing queues in their order, starting after
// the given name.
func (s *Store) Queues(r kv.Reader, after string, limit int) ([]string, error) {
	prefix := tuple.AppendString(nil, layout.SpaceState)
	begin, end := tuple.Range(prefix)
	if after != "" {
		begin = append(layout.QueueRow(layout.SpaceState, after), 0)
	}
	var names []string
	for most, more := min(limit, queuesPerRead), true; more && len(names) < limit; {
		page, err := r.Range(begin, end, kv.RangeOptions{Limit: most})
		if err != nil {
			return nil, err
		}
		for _, pair := range page {
			name, _, err := tuple.ConsumeString(pair.Key[len(prefix):])
			if err != nil {
				return nil, fmt.Errorf("damaged queue name: %w", err)
			}
			head, _, err := parseStateHead(pair.Value) // of a queue that only a later program serves, too
			if err != nil {
				return nil, fmt.Errorf("queue %q: %w", name, err)
			}
			if head.exists() && len(names) < limit {
				names = append(names, name)
			}
		}
		if more = len(page) == most; more {
			begin = append(page[len(page)-1].Key, 0)
		}
	}
	return names, nil
}

// queuesPerRead has room for the longest page that a bridge shows, and the name behind it.
const queuesPerRead = MaxBatch + 1

// QueuesBetween returns the names of existing queues that may have rows from the
// first key to the last.
func (s *Store) QueuesBetween(r kv.Reader, first, last []byte) ([]string, error) {
	var between []string
	for after := ""; ; {
		names, err := s.Queues(r, after, queuesPerRead)
		if err != nil || len(names) == 0 {
			return between, err
		}
		for _, name := range names {
			for _, kind := range layout.RowKinds {
				begin, end := layout.AllRows(kind.Space, name)
				if kind.Lasts != layout.OfStore && bytes.Compare(begin, last) <= 0 && bytes.Compare(first, end) < 0 {
					between = append(between, name)
					break
				}
			}
		}
		after = names[len(names)-1]
	}
}
