package fdbpq

import (
	"fmt"

	"github.com/pqbridge/pqbridge/internal/tuple"
)

// keyOf is a key in one generation of a queue.
type keyOf struct {
	lineage
	key string
}

// keyFound is what a Check has found of a key.
type keyFound struct {
	first *place // of its ready items
	begun *place // of those that were leased before
	head  *place // first row with which pops find it
	held  int    // leased items, and ones that wait between two leases
	fair  *int64 // first class in which it has a row
	heavy bool   // a push gave it a weight
}

func (w *walk) keyOf(line lineage, key string) *keyFound {
	k := keyOf{line, key}
	if w.keys[k] == nil {
		w.keys[k] = &keyFound{}
	}
	return w.keys[k]
}

func earliest(first *place, p place) *place {
	if first == nil || p.compare(*first) < 0 {
		return &p
	}
	return first
}

// key notes which rows the key of an item has for it.
func (w *walk) key(space string, line lineage, l *located) error {
	if (l.key != "") != (space == spaceKeyed) && l.state == StateReady {
		return fmt.Errorf("item with key %q is in the space %q", l.key, space)
	}
	if l.key == "" {
		return nil
	}
	if err := CheckKey(l.key); err != nil {
		return err
	}
	w.turns.fenced(queueKey{line.queue, l.key}, l.keyFence)
	row := func(space string) []byte {
		return tuple.AppendBytes(generationPrefix(space, line.queue, line.generation), []byte(l.key))
	}
	switch l.state {
	case StateReady:
		found := w.keyOf(line, l.key)
		found.first = earliest(found.first, l.place)
		w.keyRows[string(l.place.append(row(spaceKeyReady)))] = false
		if l.begun() {
			found.begun = earliest(found.begun, l.place)
			w.keyRows[string(l.place.append(row(spaceKeyBegun)))] = false
		}
	case StateLeased:
		w.keyRows[string(append(row(spaceKeyHeld), l.place.tail...))] = false
	case StateDelayed:
		if l.begun() {
			// Whether it has the row depends on what key_order was when its lease ended.
			w.keyRows[string(append(row(spaceKeyHeld), l.place.tail...))] = true
		}
	}
	return nil
}

// row checks a row of a ready item with a key.
func (w *walk) keyRow(row []byte) error {
	if _, expected := w.keyRows[string(row)]; !expected {
		return fmt.Errorf("row of a key without an item")
	}
	w.keyRows[string(row)] = true
	return nil
}

func (w *walk) keyHeld(line lineage, rest, row []byte) error {
	key, _, err := tuple.ConsumeBytes(rest)
	if err != nil {
		return err
	}
	w.keyOf(line, string(key)).held++
	return w.keyRow(row)
}

// keyHead notes a row with which pops find a key. It may lead to nothing.
func (w *walk) keyHead(line lineage, rest, value []byte) error {
	p, err := parsePlace(rest)
	if err == nil {
		err = CheckKey(string(value))
	}
	if err != nil {
		return err
	}
	found := w.keyOf(line, string(value))
	found.head = earliest(found.head, p)
	return nil
}

// balanceKeys reports missing rows of keys.
func (w *walk) balanceKeys() {
	for row, seen := range w.keyRows {
		if !seen {
			w.problem("row %q of a key is missing", row)
		}
	}
	for of, found := range w.keys {
		if found.heavy && found.first == nil {
			w.problem("queue %q: the key %q has a weight, and no ready items", of.queue, of.key)
		}
		if found.first == nil || w.mayBeHidden(of, found) {
			continue
		}
		last := found.first
		if found.begun != nil && found.begun.compare(*last) > 0 {
			last = found.begun
		}
		if found.head == nil || found.head.compare(*last) > 0 {
			w.problem("queue %q: pops do not find the key %q", of.queue, of.key)
		}
		if s := w.queues[of.queue]; s.fairBuilt && (found.fair == nil || *found.fair > s.config.Fair.class(last.priority)) {
			w.problem("queue %q: the key %q has no turn", of.queue, of.key)
		}
	}
	w.balanceTurns()
}

// mayBeHidden reports whether pops need not find a key: it may have no more, or waits for
// a token, or is paused, or is about to be looked at.
func (w *walk) mayBeHidden(of keyOf, found *keyFound) bool {
	settings := w.turns.settings[queueKey{of.queue, of.key}]
	limit := int(settings.limit(&w.queues[of.queue].config))
	return settings.paused() || limit > 0 && found.held >= limit || w.turns.waits[queueKey{of.queue, of.key}] || w.turns.looking[of.queue]
}
