package fdbpq

import (
	"encoding/json"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/tuple"
)

type queueKey struct{ queue, key string }

// turnsFound is what a Check has found of rates, of settings of keys, and of turns.
type turnsFound struct {
	waits    map[queueKey]bool // keys that wait for a token
	settings map[queueKey]KeySettings
	looking  map[string]bool                // queues whose keys a timer looks at
	rows     map[lineage]map[fairPlace]bool // of the fair order
	finish   map[lineage]map[fairKey]int64
	virtual  map[lineage]map[int64]int64
}

func newTurnsFound() turnsFound {
	return turnsFound{
		waits: make(map[queueKey]bool), settings: make(map[queueKey]KeySettings), looking: make(map[string]bool),
		rows: make(map[lineage]map[fairPlace]bool), finish: make(map[lineage]map[fairKey]int64), virtual: make(map[lineage]map[int64]int64),
	}
}

// keyKnown checks a row that a key, or a queue, has outside generations.
func (w *walk) keyKnown(space, queue string, rest, value []byte) error {
	if s := w.queues[queue]; s == nil || !s.exists {
		return fmt.Errorf("there is no queue %q", queue)
	}
	if space == spaceTokens {
		_, err := parseBucket(value)
		return err
	}
	if space == spaceKeyWaits {
		key, err := waitingKey(rest)
		w.turns.waits[queueKey{queue, key}] = true
		return err
	}
	key, _, err := tuple.ConsumeBytes(rest)
	if err == nil {
		err = CheckKey(string(key))
	}
	if err != nil {
		return err
	}
	if space == spaceTokensOf {
		_, err := parseBucket(value)
		return err
	}
	var k KeySettings
	err = json.Unmarshal(value, &k)
	w.turns.settings[queueKey{queue, string(key)}] = k
	return err
}

// fairRow checks a row of the fair order of a queue.
func (w *walk) fairRow(space string, s *queueState, line lineage, rest, value []byte) error {
	if space == spaceWeight {
		weight, _, err := tuple.ConsumeInt(value)
		if err == nil {
			err = checkWeight(weight)
		}
		return err
	}
	order, rest, err := tuple.ConsumeInt(rest)
	if err != nil {
		return err
	}
	if order != s.fairOrder || s.config.Fair == "" {
		return fmt.Errorf("the order %d is not that of the queue", order)
	}
	class, rest, err := tuple.ConsumeInt(rest)
	if err != nil {
		return err
	}
	at := int64(kv.DecodeInteger(value))
	switch space {
	case spaceClass:
		put(w.turns.virtual, line, class, at)
		return nil
	case spaceFinish:
		key, _, err := tuple.ConsumeBytes(rest)
		put(w.turns.finish, line, fairKey{class, string(key)}, at)
		return err
	}
	tag, rest, err := tuple.ConsumeInt(rest)
	if err != nil {
		return err
	}
	key, _, err := tuple.ConsumeBytes(rest)
	if err != nil {
		return err
	}
	put(w.turns.rows, line, fairPlace{class, tag, string(key)}, true)
	if found := w.keyOf(line, string(key)); len(value) == 0 && (found.fair == nil || class < *found.fair) {
		found.fair = &class
	}
	return nil
}

func put[K comparable, V any](in map[lineage]map[K]V, line lineage, key K, value V) {
	if in[line] == nil {
		in[line] = make(map[K]V)
	}
	in[line][key] = value
}

// balanceTurns reports settings that are not counted, and tags that no pop would forget.
func (w *walk) balanceTurns() {
	set, limited := make(map[string]int64), make(map[string]int64)
	for of, k := range w.turns.settings {
		set[of.queue] += settings(k)
		limited[of.queue] += limits(k)
	}
	for name, s := range w.queues {
		if s != nil && (s.keysSet != set[name] || s.keysLimited != limited[name]) {
			w.problem("queue %q: %d keys have settings and %d a limit, counted %d and %d", name, s.keysSet, s.keysLimited, set[name], limited[name])
		}
	}
	for line, tags := range w.turns.finish {
		for of, at := range tags {
			if !w.turns.rows[line][fairPlace{of.class, at, of.key}] {
				w.problem("queue %q: the tag %d of the key %q in class %d has no row", line.queue, at, of.key, of.class)
			}
		}
	}
	for line, classes := range w.turns.virtual {
		used := make(map[int64]bool)
		for p := range w.turns.rows[line] {
			used[p.class] = true
		}
		for class := range classes {
			if !used[class] {
				w.problem("queue %q: class %d has a virtual time, and no key", line.queue, class)
			}
		}
	}
}
