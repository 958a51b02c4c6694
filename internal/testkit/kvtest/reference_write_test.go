package kvtest

import (
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

func (tx *referenceTx) Conflict(key []byte) {
	tx.conflicts += 2*len(key) + 1
	if !tx.is(conflictIgnored) {
		tx.depend(keySpan(string(key)))
	}
}

func (tx *referenceTx) Set(key, value []byte)   { tx.write(set(string(key), string(value))) }
func (tx *referenceTx) Clear(key []byte)        { tx.write(clearKey(string(key))) }
func (tx *referenceTx) Add(key []byte, d int64) { tx.write(add(string(key), d)) }

func (tx *referenceTx) Max(key []byte, v uint64) { tx.write(raise(string(key), v)) }

func (tx *referenceTx) ClearRange(begin, end []byte) {
	if tx.is(clearsWhatItSees) {
		i, j := between(tx.rows, string(begin), string(end))
		for _, row := range tx.rows[i:j] {
			tx.write(clearKey(row.key))
		}
		return
	}
	tx.write(clearRange(string(begin), string(end)))
}

func (tx *referenceTx) write(o op) {
	if tx.is(integersConflict) && (o.kind == opAdd || o.kind == opMax) {
		tx.depend(keySpan(o.key))
	}
	if tx.is(addsWhatItSees) && o.kind == opAdd {
		o = setInteger(o.key, kv.DecodeInteger(tx.value(o.key))+uint64(o.delta))
	}
	if tx.is(signedMax) && o.kind == opMax && int64(o.max) < int64(kv.DecodeInteger(tx.value(o.key))) {
		return
	}
	tx.ops = append(tx.ops, o)
	tx.rows = applied(tx.rows, o)
}

// applied returns rows after a write.
func applied(rows []referenceRow, o op) []referenceRow {
	switch o.kind {
	case opClear:
		return splice(rows, o.key, o.key+"\x00", nil)
	case opClearRange:
		return splice(rows, o.key, o.end, nil)
	case opSet:
		return splice(rows, o.key, o.key+"\x00", []referenceRow{{o.key, o.value}})
	}
	// Let the model do the arithmetic.
	m := model{}
	if i, found := find(rows, o.key); found {
		m[o.key] = rows[i].value
	}
	m.apply(o)
	return splice(rows, o.key, o.key+"\x00", []referenceRow{{o.key, m[o.key]}})
}

// span returns what a write conflicts with.
func (o op) span() span {
	if o.kind == opClearRange {
		return span{o.key, o.end}
	}
	return keySpan(o.key)
}

func (tx *referenceTx) tooLarge() error {
	size := tx.conflicts
	if tx.is(conflictsWeighNothing) {
		size = 0
	}
	for _, o := range tx.ops {
		long := len(o.key) > kv.MaxKeySize && !tx.is(longKeys)
		if long || len(o.value) > kv.MaxValueSize && !tx.is(longValues) {
			return fmt.Errorf("%w: %s", kv.ErrTooLarge, o)
		}
		size += len(o.key) + len(o.end) + len(o.value)
	}
	if size > kv.MaxTxSize && !tx.is(longTransactions) {
		return fmt.Errorf("%w: transaction of %d bytes", kv.ErrTooLarge, size)
	}
	return nil
}

// commit reports whether the transaction took effect.
func (tx *referenceTx) commit() bool {
	db := tx.db
	db.mu.Lock()
	defer db.mu.Unlock()
	if len(tx.ops) > 0 {
		for _, v := range db.versions[tx.base+1:] {
			if tx.conflictsWith(v) {
				return false
			}
		}
		last := db.versions[len(db.versions)-1]
		next := version{rows: last.rows}
		for i, o := range tx.ops {
			if i == len(tx.ops)/2 {
				next.half = next.rows
			}
			next.rows = applied(next.rows, o)
			if s := o.span(); s.begin < s.end {
				next.writes = append(next.writes, s)
			}
		}
		db.versions = append(db.versions, next)
		tx.base = len(db.versions) - 1
		for w := range db.watches {
			if w.value != valueOf(next.rows, w.key) && !w.missed(tx) {
				w.end()
			}
		}
	}
	rows := db.versions[len(db.versions)-1].rows
	for i, w := range tx.watches {
		switch {
		case tx.is(watchFromCommit):
			w.value = valueOf(rows, w.key)
			db.watches[w] = true
		case w.value != valueOf(rows, w.key), tx.is(watchFiresAtOnce):
			w.end()
		case tx.is(oneWatch) && i > 0:
		default:
			db.watches[w] = true
		}
	}
	return true
}

func (tx *referenceTx) conflictsWith(v version) bool {
	if tx.is(snapshotIsolation) {
		// The first committer wins, and nothing else matters.
		tx.reads = nil
		for _, o := range tx.ops {
			if o.kind == opSet || o.kind == opClear {
				tx.reads = append(tx.reads, o.span())
			}
		}
	}
	for _, w := range v.writes {
		for _, r := range tx.reads {
			if r.overlaps(w) {
				return true
			}
		}
		if tx.is(writesConflict) {
			for _, o := range tx.ops {
				if o.span().overlaps(w) {
					return true
				}
			}
		}
	}
	return false
}
