// Package meter counts the rows that transactions read and write.
//
// What it guarantees: a transaction does the same with a meter as without one. What a run before a conflict has read
// does not count.
package meter

import "github.com/pqbridge/pqbridge/fdbpq/kv"

// rowBytes is how many bytes of the rows that are read count as a row.
const rowBytes = 512

// Meter counts the rows of one transaction after another. It belongs to one goroutine at a time.
type Meter struct {
	rows, bytes int

	// Memory of the present transaction.
	reading, snapshot reader
	writing           tx
}

// Rows returns how many rows the present transaction has read and written so far, in rows: a read counts as one more
// than it finds, since finding the first row costs as much as the next ones, and so does each half KiB.
func (m *Meter) Rows() int { return m.rows + m.bytes/rowBytes }

// End ends the present transaction, which the meter does not keep, and returns its rows.
func (m *Meter) End() int {
	rows := m.Rows()
	*m = Meter{}
	return rows
}

// Reader begins to count what a transaction reads.
func (m *Meter) Reader(r kv.Reader) kv.Reader {
	*m = Meter{reading: reader{r, m}}
	return &m.reading
}

// Tx begins to count what a transaction reads and writes.
func (m *Meter) Tx(t kv.Tx) kv.Tx {
	*m = Meter{reading: reader{t, m}, writing: tx{t, m}}
	return &m.writing
}

// reader counts reads.
type reader struct {
	kv.Reader
	meter *Meter
}

func (r *reader) Get(key []byte) ([]byte, error) {
	value, err := r.Reader.Get(key)
	r.meter.rows++
	r.meter.bytes += len(value)
	return value, err
}

func (r *reader) GetAll(keys [][]byte) ([][]byte, error) {
	values, err := r.Reader.GetAll(keys)
	r.meter.rows += len(keys)
	for _, value := range values {
		r.meter.bytes += len(value)
	}
	return values, err
}

func (r *reader) Range(begin, end []byte, opts kv.RangeOptions) ([]kv.Pair, error) {
	pairs, err := r.Reader.Range(begin, end, opts)
	r.meter.rows += 1 + len(pairs)
	for i := range pairs {
		r.meter.bytes += len(pairs[i].Key) + len(pairs[i].Value)
	}
	return pairs, err
}

// tx counts reads and writes.
type tx struct {
	kv.Tx
	meter *Meter
}

func (t *tx) Get(key []byte) ([]byte, error) { return t.meter.reading.Get(key) }

func (t *tx) GetAll(keys [][]byte) ([][]byte, error) { return t.meter.reading.GetAll(keys) }

func (t *tx) Range(begin, end []byte, opts kv.RangeOptions) ([]kv.Pair, error) {
	return t.meter.reading.Range(begin, end, opts)
}

func (t *tx) Snapshot() kv.Reader {
	if t.meter.snapshot.Reader == nil {
		t.meter.snapshot = reader{t.Tx.Snapshot(), t.meter}
	}
	return &t.meter.snapshot
}

func (t *tx) Set(key, value []byte) {
	t.meter.rows++
	t.Tx.Set(key, value)
}

func (t *tx) Clear(key []byte) {
	t.meter.rows++
	t.Tx.Clear(key)
}

func (t *tx) ClearRange(begin, end []byte) {
	t.meter.rows++
	t.Tx.ClearRange(begin, end)
}

func (t *tx) Add(key []byte, delta int64) {
	t.meter.rows++
	t.Tx.Add(key, delta)
}

func (t *tx) Max(key []byte, value uint64) {
	t.meter.rows++
	t.Tx.Max(key, value)
}
