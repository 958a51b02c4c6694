package fdbpq

import (
	"errors"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// foundMsgID checks a message id.
func foundMsgID(w *walk, r *foundRow) error {
	id, _, err := tuple.ConsumeString(r.rest)
	if err != nil {
		return err
	}
	m, err := parseRememberedPush(r.Value)
	if err != nil {
		return err
	}
	w.of(r.lineage).tally.Remembered++
	w.expect(layout.IDTimerKey(m.due, layout.TimerMsgID, r.queue, id), nil)
	return nil
}

// foundPopID checks a pop id.
func foundPopID(w *walk, r *foundRow) error {
	id, _, err := tuple.ConsumeString(r.rest)
	if err != nil {
		return err
	}
	m, err := parseRememberedPop(r.Value)
	if err != nil {
		return err
	}
	w.of(r.lineage).tally.Remembered++
	w.expect(layout.IDTimerKey(m.due, layout.TimerPopID, r.queue, id), nil)
	w.popItems[string(tuple.AppendString(layout.QueueRow(layout.SpacePopItem, r.queue), id))] += m.items
	if m.nothing() {
		w.expect(repeatedRow(r.queue, id), nil)
	}
	return nil
}

// foundRepeatedPop checks a row of a repeated pop.
func foundRepeatedPop(w *walk, r *foundRow) error {
	delete(w.rows, string(r.Key))
	id, _, err := tuple.ConsumeString(r.rest)
	if _, known := w.popItems[string(tuple.AppendString(layout.QueueRow(layout.SpacePopItem, r.queue), id))]; err == nil && !known {
		err = errors.New("repetition of no remembered pop")
	}
	return err
}

// foundPopItem checks a row of a remembered pop: an item, or a chunk of its payload.
func foundPopItem(w *walk, r *foundRow) error {
	_, number, err := tuple.ConsumeString(r.rest)
	if err != nil {
		return err
	}
	pop := string(r.Key[:len(r.Key)-len(number)])
	if _, known := w.popItems[pop]; !known {
		return fmt.Errorf("item of no remembered pop")
	}
	_, part, err := tuple.ConsumeInt(number)
	if err != nil {
		return err
	}
	if item := string(r.Key[:len(r.Key)-len(part)]); len(part) > 0 {
		if _, known := w.chunks[item]; !known {
			return fmt.Errorf("chunk of no item")
		}
		w.chunks[item] -= int64(len(r.Value))
		return nil
	}
	w.popItems[pop]--
	p, value, err := layout.SplitPlace(r.Value)
	if err != nil {
		return err
	}
	e, err := layout.ParseEnvelope(value, p)
	if e.Chunks > 0 {
		w.chunks[string(r.Key)] += e.Size
	}
	return err
}
