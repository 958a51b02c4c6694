package local

import (
	"log/slog"

	"github.com/cockroachdb/pebble/v2"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local/internal/logs"
)

// writer puts the writes of transactions into Pebble's batches.
type writer struct {
	store    *pebble.DB
	disk     *logs.Disk
	counters *counterCache
	damages  *damages
	log      *slog.Logger
}

// newBatch returns a batch with the writes whose values are known, in the order of
// their keys, which Pebble inserts fastest.
func (wr *writer) newBatch(w *writeSet) (*pebble.Batch, error) {
	batch := wr.store.NewBatchWithSize(64 + logs.MaxMark + w.size() + 16*w.keys.len())
	var buf [logs.MaxMark]byte
	if err := batch.LogData(wr.disk.Synced().Append(buf[:0]), nil); err != nil {
		return nil, err
	}
	for _, r := range w.cleared {
		if err := batch.DeleteRange(r.begin, r.end, nil); err != nil {
			return nil, err
		}
	}
	for _, i := range w.sorted {
		var err error
		e, key := &w.entries[i], w.keys.key(i)
		switch {
		case e.kind == kindSet:
			err = batch.Set(key, w.value(e), nil)
		case e.kind == kindClear && !w.cleared.contains(key):
			err = batch.Delete(key, nil)
		}
		if err != nil {
			return nil, err
		}
	}
	return batch, nil
}

func (wr *writer) closeBatch(batch *pebble.Batch) {
	if err := batch.Close(); err != nil {
		wr.log.Error("kv/local: closing a batch failed", "err", err)
	}
}

// resolveAtomics adds the results of the atomic operations to the batch. It runs under the commit lock, so it reads
// the newest values. Values in the batch of a term, b, are newer than the store; b is nil without a term.
func (wr *writer) resolveAtomics(w *writeSet, batch *pebble.Batch, b *Batch) error {
	if len(w.cleared) > 0 {
		wr.counters.reset()
	}
	for i := range w.entries {
		e, hash := &w.entries[i], w.keys.entries[i].hash
		if e.kind != kindAtomic {
			wr.counters.drop(hash)
			continue
		}
		key := w.keys.key(int32(i))
		value, known := wr.counters.get(hash, key)
		if !known && b != nil {
			value, known = b.value(hash, key)
		}
		if !known {
			stored, err := valueIn(wr.store, key)
			if err != nil {
				wr.counters.reset() // some of its values will not be committed
				return wr.damages.readError(err)
			}
			value = kv.DecodeInteger(stored)
		}
		value = w.evaluate(e, value)
		wr.counters.put(hash, key, value)
		if err := batch.Set(key, kv.EncodeInteger(value), nil); err != nil {
			wr.counters.reset()
			return unavailable(err)
		}
		w.putInteger(e, value) // for the cache of rows, and for other replicas, which get results
	}
	return nil
}
