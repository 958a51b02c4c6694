package fdbpq

import (
	"encoding/json"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

type queueKey struct{ queue, key string }

// turnsFound is what a Check has found of rates, of settings of keys, of turns and fences.
type turnsFound struct {
	waits    map[queueKey]bool // keys that wait for a token
	settings map[queueKey]KeySettings
	looking  map[string]bool // queues whose keys a timer looks at

	fences  map[queueKey]int64 // highest of the items of keys
	last    map[queueKey]int64 // last ones of keys
	forgets map[string]bool    // queues with a timer that forgets these
	passed  int64              // by store time
}

func newTurnsFound() turnsFound {
	return turnsFound{
		waits: make(map[queueKey]bool), settings: make(map[queueKey]KeySettings), looking: make(map[string]bool),
		fences: make(map[queueKey]int64), last: make(map[queueKey]int64), forgets: make(map[string]bool),
	}
}

// keyKnown checks a row that a key, or a queue, has outside generations. Fences outlive
// their queue.
func (w *walk) keyKnown(space, queue string, rest, value []byte) error {
	if s := w.queues[queue]; space != spaceKeyFence && (s == nil || !s.exists) {
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
	if len(rest) == 0 && (space == spaceTokensOf || space == spaceKeyFence) {
		return CheckKey(string(value)) // where a timer goes on
	}
	key, _, err := tuple.ConsumeBytes(rest)
	if err == nil {
		err = CheckKey(string(key))
	}
	if err != nil {
		return err
	}
	of := queueKey{queue, string(key)}
	switch space {
	case spaceTokensOf:
		var b bucket
		if b, err = parseBucket(value); b.counted {
			w.tally(w.found, lineage{queue: queue}).owing++
		}
	case spaceKeyFence:
		if len(value) != 8 {
			err = fmt.Errorf("a fence of %d bytes", len(value))
		}
		w.turns.last[of] = int64(kv.DecodeInteger(value))
	default:
		var k KeySettings
		err = json.Unmarshal(value, &k)
		w.turns.settings[of] = k
	}
	return err
}

// row checks a row of the fair order of a queue.
func (w *walk) fairRow(space string, s *queueState, line lineage, rest, value []byte) error {
	if space == spaceWeight {
		key, _, err := tuple.ConsumeBytes(rest)
		if err != nil {
			return err
		}
		w.keyOf(line, string(key)).heavy = true
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
	if space != spaceFairKey {
		if len(value) != 8 {
			return fmt.Errorf("a tag of %d bytes", len(value))
		}
		return nil
	}
	_, rest, err = tuple.ConsumeInt(rest) // the tag
	if err != nil {
		return err
	}
	key, _, err := tuple.ConsumeBytes(rest)
	if err != nil {
		return err
	}
	if found := w.keyOf(line, string(key)); found.fair == nil || class < *found.fair {
		found.fair = &class
	}
	return nil
}

func (t *turnsFound) fenced(of queueKey, fence int64) {
	t.fences[of] = max(t.fences[of], fence)
}

// balanceFences reports fences that a key may get again, and ones that nobody forgets.
func (w *walk) balanceFences() {
	for of, fence := range w.turns.fences {
		if fence > w.turns.last[of] && fence >= w.turns.passed {
			w.problem("queue %q: the key %q had the fence %d, and could get it again: the last one is %d, time has passed %d",
				of.queue, of.key, fence, w.turns.last[of], w.turns.passed)
		}
	}
	for of := range w.turns.last {
		if !w.turns.forgets[of.queue] {
			w.problem("queue %q: nobody forgets the fence of the key %q", of.queue, of.key)
		}
	}
}

// balanceTurns reports settings that are not counted.
func (w *walk) balanceTurns() {
	w.balanceFences()
	set, limited := make(map[string]int64), make(map[string]int64)
	for of, k := range w.turns.settings {
		set[of.queue] += counted(k)
		limited[of.queue] += limits(k)
	}
	for name, s := range w.queues {
		if s != nil && (s.keysSet != set[name] || s.keysLimited != limited[name]) {
			w.problem("queue %q: %d keys have settings and %d a limit, counted %d and %d", name, s.keysSet, s.keysLimited, set[name], limited[name])
		}
	}
}
