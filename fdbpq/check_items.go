package fdbpq

import (
	"bytes"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// foundItem expects the rows that writeItem writes for the item.
func foundItem(w *walk, r *foundRow) error {
	p, err := layout.ParsePlace(r.rest)
	if err != nil && r.space == layout.SpaceReady {
		return nil // another program's item, whose priority has a type that we do not use
	}
	if err != nil {
		return err
	}
	l, err := layout.ParseItem(r.space, r.Value, p)
	if err != nil || l.Foreign {
		return err
	}
	if count, err := p.Count(); err != nil {
		return err
	} else if count > w.high[r.queue] {
		w.Problem("queue %q: item %s has count %d, the highest assigned is %d", r.queue, idOf(l), count, w.high[r.queue])
	}
	if l.Chunks > 0 {
		w.chunks[r.queue+"\x00"+p.Suffix] += l.Size
	}
	qtx := w.of(r.lineage)
	qtx.enter(l)
	rows := w.written.rows
	w.written.rows, qtx.keys = rows[:0], keyChanges{}
	if !bytes.Equal(rows[0].Key, r.Key) {
		return fmt.Errorf("item with key %q is in the space %q", l.Key, r.space)
	}
	for _, row := range rows[1:] {
		w.expect(row.Key, row.Value)
	}
	if l.Held() && l.Holder == "" {
		w.Problem("queue %q: item %s is held, and has no holder", r.queue, idOf(l))
	}
	return w.itemOfKey(qtx, l)
}

func foundChunk(w *walk, r *foundRow) error {
	count, random, err := tuple.ConsumeInt(r.rest)
	if err != nil {
		return err
	}
	_, number, err := tuple.ConsumeBytes(random)
	if err != nil {
		return err
	}
	key := r.queue + "\x00" + string(r.rest[:len(r.rest)-len(number)])
	if _, ok := w.chunks[key]; !ok {
		return fmt.Errorf("chunk of no item (count %d)", count)
	}
	w.chunks[key] -= int64(len(r.Value))
	return nil
}

// foundRowOfItem checks a row that an item has besides its own.
func foundRowOfItem(w *walk, r *foundRow) error {
	if expected, ok := w.rows[string(r.Key)]; !ok || expected.value != string(r.Value) {
		return fmt.Errorf("it belongs to no item")
	}
	delete(w.rows, string(r.Key))
	return nil
}
