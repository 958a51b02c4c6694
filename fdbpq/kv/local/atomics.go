package local

import (
	"github.com/cockroachdb/pebble/v2"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// resolveAtomics adds the results of the atomic operations to the batch. It runs
// under the commit lock, so it reads the newest values. What the batch of a term b has
// already is newer than the store; b is nil without a term.
func (db *DB) resolveAtomics(w *writeSet, batch *pebble.Batch, b *Batch) error {
	if len(w.cleared) > 0 {
		db.counters.reset()
	}
	for i := range w.entries {
		e, hash := &w.entries[i], w.keys.entries[i].hash
		if e.kind != kindAtomic {
			db.counters.drop(hash)
			continue
		}
		key := w.keys.key(int32(i))
		value, known := db.counters.get(hash, key)
		if !known && b != nil {
			value, known = b.value(hash, key)
		}
		if !known {
			stored, err := db.read(db.store, key)
			if err != nil {
				db.counters.reset() // some have values that will not be committed
				return err
			}
			value = kv.DecodeInteger(stored)
		}
		value = w.evaluate(e, value)
		db.counters.put(hash, key, value)
		if err := batch.Set(key, kv.EncodeInteger(value), nil); err != nil {
			db.counters.reset()
			return unavailable(err)
		}
		w.putInteger(e, value) // for the cache of rows, and for other replicas, which get results
	}
	return nil
}
