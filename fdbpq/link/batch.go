package link

import (
	"cmp"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// batch is the last batch of a link.
type batch struct {
	number     int64
	id, before string   // of this batch, and of the batch before; before the first batch it is the taker's Ask.Batch
	since      int64    // wall clock at which it was made
	given      int64    // items that the taker has
	generation int64    // of the queue, when its items were held
	held       [][]byte // these items, as a fdbpq.Holding names them; none: the taker has confirmed the batch
}

// living are the items that are still held: a purge of the queue has ended those of an earlier generation.
func (b *batch) living(generation int64) [][]byte {
	if b.generation != generation {
		return nil
	}
	return b.held
}

// holding names items of the batch.
func (b *batch) holding(link string, items [][]byte) fdbpq.Holding {
	return fdbpq.Holding{Holder: holder(link), Generation: b.generation, Items: items}
}

const holderPrefix = "link:"

// holder is what a link calls itself as the holder of its items.
func holder(link string) string { return holderPrefix + link }

func (b *batch) pack() []byte {
	row := tuple.AppendInt(nil, version)
	for _, n := range []int64{b.number, b.since, b.given, b.generation, int64(len(b.held))} {
		row = tuple.AppendInt(row, n)
	}
	row = tuple.AppendString(tuple.AppendString(row, b.id), b.before)
	for _, item := range b.held {
		row = tuple.AppendBytes(row, item)
	}
	return row
}

func (b *batch) parse(row []byte) error {
	r := tuple.Read(row)
	var read, n int64
	r.Ints(&read, &b.number, &b.since, &b.given, &b.generation, &n)
	b.id, b.before = r.Text(), r.Text()
	if err := cmp.Or(r.Err(), noun.CheckVersion(read, version)); err != nil {
		return err
	}
	if n < 0 || n > fdbpq.MaxBatch {
		return fmt.Errorf("a batch of %d items", n)
	}
	for range n {
		item := r.Bytes()
		if _, err := layout.ParsePlace(item); err != nil || r.Err() != nil {
			return cmp.Or(r.Err(), err)
		}
		b.held = append(b.held, item)
	}
	return r.Err()
}
