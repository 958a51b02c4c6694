package fdbpq

import (
	"errors"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

func foundState(w *walk, r *foundRow) (err error) {
	w.queues[r.queue], err = parseState(r.Value)
	if errors.Is(err, ErrFormat) {
		w.later[r.queue] = true
		return fmt.Errorf("%w: the rows of queue %q were not checked, which a later program has to do", err, r.queue)
	}
	return err
}

func foundHighest(w *walk, r *foundRow) error {
	w.high[r.queue] = int64(kv.DecodeInteger(r.Value))
	return nil
}

// foundRequest checks a row of a request of the recipe, or of its result.
func foundRequest(w *walk, r *foundRow) error {
	due, _, err := tuple.ConsumeInt(r.Value)
	w.expect(layout.IDTimerKey(due, layout.TimerRequest, r.queue, string(r.rest)), nil)
	return err
}

func foundTimer(w *walk, r *foundRow) error {
	t, err := layout.ParseTimer(r.Key)
	if w.later[t.Queue] {
		return nil
	}
	if err != nil {
		return err
	}
	if _, expected := w.rows[string(r.Key)]; expected {
		delete(w.rows, string(r.Key))
		return nil
	}
	if t.Kind == layout.TimerResults {
		keep, err := layout.ParseKeep(t.ID)
		at := keptAs{t.Queue, keep}
		if first, known := w.forgets[at]; err == nil && (!known || t.Due < first) {
			w.forgets[at] = t.Due
		}
		return err
	}
	s, kind := w.queues[t.Queue], layout.TimerKinds[t.Kind]
	switch {
	case kind.OfQueue:
		w.known.working[queueTimer{t.Queue, t.Kind}] = true
		return nil // it does no harm that it looks at rows
	case kind.OfItem && s != nil && (t.Generation < s.generation || !s.exists):
		return nil // of a past generation
	case !kind.OfItem && t.Kind != layout.TimerRequest && (s == nil || s.generation > 1):
		return nil // of an id that Delete has forgotten
	}
	return fmt.Errorf("timer of kind %q without an item or an id", t.Kind)
}

// foundCounter checks a counter.
func foundCounter(w *walk, r *foundRow) error {
	counter, _, err := tuple.ConsumeInt(r.rest)
	if err != nil {
		return err
	}
	fields := w.counters(r.lineage).Fields()
	if counter < 0 || counter >= layout.Counters {
		return fmt.Errorf("unknown counter %d", counter)
	}
	*fields[counter] = int64(kv.DecodeInteger(r.Value))
	return nil
}
