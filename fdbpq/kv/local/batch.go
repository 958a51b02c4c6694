package local

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local/internal/logs"
)

// Batch is a group of transactions of a term that commit together, in an order in which each of them would commit
// alone. A batch for reads alone may have none. Its caller decides it once: by Commit, Refuse or MarkUnknown.
type Batch struct {
	term    *Term
	all     []*proposal
	losers  []*proposal // conflict with the batch: they run again afterwards
	reads   []chan error
	store   *pebble.Batch
	changes []byte
	open    bool // it has transactions, and is not decided
}

// Next returns the next batch as soon as a transaction or a read waits for one, or an
// error when ctx has ended. A batch with more than one transaction has at most about
// limit bytes of changes.
func (t *Term) Next(ctx context.Context, limit int) (*Batch, error) {
	for {
		select {
		case <-t.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		b, err := t.gather(limit)
		if err != nil {
			return nil, err
		}
		if len(b.all) > 0 || len(b.reads) > 0 {
			return b, nil
		}
		b.drop(nil)
	}
}

// gather makes a batch of the transactions and reads that wait.
func (t *Term) gather(limit int) (*Batch, error) {
	db := t.db
	b := &Batch{term: t}
	t.mu.Lock()
	size, n := 0, 0
	for !t.held && n < len(t.waiting) && (n == 0 || size+t.waiting[n].t.buf.writes.size() <= limit) {
		size += t.waiting[n].t.buf.writes.size()
		n++
	}
	taken := t.waiting[:n:n]
	t.waiting = append([]*proposal(nil), t.waiting[n:]...)
	b.reads, t.reads = t.reads, nil
	more := n > 0 && len(t.waiting) > 0
	if b.open = n > 0; b.open {
		t.batches++
	}
	t.mu.Unlock()
	if more {
		t.ready()
	}
	refused := db.tables.err()
	if err := db.failure.err(); err != nil {
		refused = err
	}
	var mark [logs.MaxMark]byte
	b.store = db.store.NewBatchWithSize(64 + logs.MaxMark + 2*size)
	if err := b.store.LogData(db.disk.Synced().Append(mark[:0]), nil); err != nil {
		refused = err
	}
	for _, p := range taken {
		if refused != nil {
			p.finish(verdict{err: unavailable(refused)})
			continue
		}
		b.add(p)
	}
	return b, nil
}

// add adds a proposal, unless it has to run again or fails.
func (b *Batch) add(p *proposal) {
	db, w := b.term.db, &p.t.buf.writes
	if from := p.t.pinned; from != nil {
		// No other commit can come first: this batch is the next one, and its maker does not give up.
		if loss, _ := from.firstConflict(context.Background(), &p.t.buf.reads, db.newest.Load()); loss != nil {
			db.stats.conflicts.Add(1)
			p.finish(verdict{rerun: true}) // the commit that it lost against has been applied
			return
		}
		for _, o := range b.all {
			if o.c.conflicts(&p.t.buf.reads) {
				db.stats.conflicts.Add(1)
				b.losers = append(b.losers, p)
				return
			}
		}
	}
	if b.widens(p) {
		w.widenRanges()
		again, err := db.writer.newBatch(w)
		if err != nil {
			p.finish(verdict{err: unavailable(err)})
			return
		}
		db.writer.closeBatch(p.batch)
		p.batch, p.c = again, newCommit(w)
	}
	if err := db.writer.resolveAtomics(w, p.batch, b); err != nil {
		p.finish(verdict{err: err})
		return
	}
	if err := b.store.Apply(p.batch, nil); err != nil {
		// A part of the transaction may be in the batch.
		panic(fmt.Sprintf("kv/local: a batch in memory cannot be copied: %v", err))
	}
	b.changes = w.encode(b.changes)
	b.all = append(b.all, p)
}

// widens reports whether others have set keys in ranges that the proposal clears key by
// key. Then the proposal must clear the ranges.
func (b *Batch) widens(p *proposal) bool {
	narrow := &p.t.buf.writes.narrow
	if narrow.empty() {
		return false
	}
	if change, _ := p.t.pinned.firstConflict(context.Background(), narrow, b.term.db.newest.Load()); change != nil {
		return true
	}
	return slices.ContainsFunc(b.all, func(o *proposal) bool { return o.c.conflicts(narrow) })
}

// value returns the integer that the batch writes to key; known is false if it writes none.
func (b *Batch) value(hash uint64, key []byte) (value uint64, known bool) {
	for _, p := range slices.Backward(b.all) {
		if !p.c.wrote(hash, key) {
			continue
		}
		w := &p.t.buf.writes
		if e := w.find(hash, key); e != nil && e.kind == kindSet {
			return kv.DecodeInteger(w.value(e)), true
		}
		return 0, true
	}
	return 0, false
}

// Changes are the effects of the batch, for Apply on other replicas. They belong to the batch.
func (b *Batch) Changes() []byte { return b.changes }

// Transactions is how many transactions commit with the batch.
func (b *Batch) Transactions() int { return len(b.all) }

// Commit commits a batch that is in the log. An error leaves the replica unusable.
func (b *Batch) Commit(position []byte) error {
	db := b.term.db
	if err := db.commits.lock.lock(context.Background()); err != nil {
		return err
	}
	err := db.commits.applyShared(b.all, b.store, position)
	db.commits.lock.unlock()
	if err != nil {
		b.MarkUnknown(err)
		return err
	}
	for _, r := range b.reads {
		r <- nil
	}
	b.reads = nil
	b.drop(nil)
	return nil
}

// Refuse ends a batch that is not in the log and never will be: transactions and reads fail
// with ErrUnavailable and the reason err.
func (b *Batch) Refuse(err error) {
	b.fail(unavailable(err), err)
}

// MarkUnknown ends a batch that may or may not be in the log: transactions fail with ErrUnknown and
// the reason err, reads with ErrUnavailable.
func (b *Batch) MarkUnknown(err error) {
	b.fail(fmt.Errorf("%w: %w", kv.ErrUnknown, err), err)
}

func (b *Batch) fail(transactions, reads error) {
	b.term.db.writer.counters.reset() // they may count what was not committed
	for _, r := range b.reads {
		r <- reads
	}
	b.reads = nil
	b.drop(transactions)
}

// drop answers the transactions and frees the batch.
func (b *Batch) drop(err error) {
	for _, p := range b.all {
		p.finish(verdict{err: err})
	}
	for _, p := range b.losers {
		p.finish(verdict{rerun: true})
	}
	b.all, b.losers = nil, nil
	b.term.db.writer.closeBatch(b.store)
	if b.open {
		b.open = false
		b.term.decide()
	}
}

// Changes are the effects of commits on the keys of a store, in order: for each operation its number and its byte
// strings, each string behind its length as a uvarint.
const (
	changeSet        = 1 // key, value
	changeClear      = 2 // key
	changeClearRange = 3 // begin, end
)

var errChanges = errors.New("kv/local: changes that this version cannot read")

func appendChange(b []byte, operation byte, parts ...[]byte) []byte {
	b = append(b, operation)
	for _, p := range parts {
		b = binary.AppendUvarint(b, uint64(len(p)))
		b = append(b, p...)
	}
	return b
}

// encode appends the writes as changes. Atomic operations are resolved before.
func (w *writeSet) encode(b []byte) []byte {
	for _, r := range w.cleared {
		b = appendChange(b, changeClearRange, decodeKey(r.begin), decodeKey(r.end))
	}
	for _, i := range w.sorted {
		switch e, key := &w.entries[i], w.keys.key(i); {
		case e.kind == kindSet:
			b = appendChange(b, changeSet, decodeKey(key), w.value(e))
		case !w.cleared.contains(key):
			b = appendChange(b, changeClear, decodeKey(key))
		}
	}
	return b
}

// decode adds changes to the writes.
func (w *writeSet) decode(changes []byte) error {
	for len(changes) > 0 {
		operation := changes[0]
		first, rest, ok := cutString(changes[1:])
		var second []byte
		if ok && operation != changeClear {
			second, rest, ok = cutString(rest)
		}
		if !ok {
			return errChanges
		}
		changes = rest
		switch operation {
		case changeSet:
			w.set(first, second)
		case changeClear:
			w.clear(first)
		case changeClearRange:
			w.clearRange(first, second)
		default:
			return errChanges
		}
	}
	return w.refused
}

func cutString(b []byte) (first, rest []byte, ok bool) {
	size, n := binary.Uvarint(b)
	if n <= 0 || uint64(len(b)-n) < size {
		return nil, nil, false
	}
	return b[n : n+int(size)], b[n+int(size):], true
}
