package fdbpq

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

func (w *walk) keyOf(line lineage, key string) *keyFound {
	k := keyOf{line, key}
	if w.keys[k] == nil {
		w.keys[k] = &keyFound{}
	}
	return w.keys[k]
}

func earliest(first *layout.Place, p layout.Place) *layout.Place {
	if first == nil || p.Compare(*first) < 0 {
		return &p
	}
	return first
}

// itemOfKey notes what the key of an item has for it.
func (w *walk) itemOfKey(qtx *queueTx, l *layout.Item) error {
	if l.Key == "" {
		return nil
	}
	w.known.fences[queueKey{qtx.name, l.Key}] = max(w.known.fences[queueKey{qtx.name, l.Key}], l.KeyFence)
	switch {
	case l.State == layout.StateReady:
		found := w.keyOf(lineage{qtx.name, qtx.state.generation}, l.Key)
		found.first = earliest(found.first, l.Place)
		if l.Begun() {
			found.begun = earliest(found.begun, l.Place)
		}
	case l.State == layout.StateDelayed && l.MayHoldKey():
		w.rows[string(keyLimits{&qtx.queueRows}.row(l))] = expectedRow{optional: true}
	}
	return CheckKey(l.Key)
}

// foundKeyHead notes a row with which pops find a key. It may lead to nothing.
func foundKeyHead(w *walk, r *foundRow) error {
	p, err := layout.ParsePlace(r.rest)
	if err == nil {
		err = CheckKey(string(r.Value))
	}
	if err != nil {
		return err
	}
	found := w.keyOf(r.lineage, string(r.Value))
	found.head = earliest(found.head, p)
	return nil
}

// balanceKeys reports keys that pops do not find.
func (w *walk) balanceKeys() {
	for of, found := range w.keys {
		if found.heavy && found.first == nil {
			w.Problem("queue %q: the key %q has a weight, and no ready items", of.queue, of.key)
		}
		if found.first == nil || w.mayBeHidden(of, found) {
			continue
		}
		last := found.first
		if found.begun != nil && found.begun.Compare(*last) > 0 {
			last = found.begun
		}
		if found.head == nil || found.head.Compare(*last) > 0 {
			w.Problem("queue %q: pops do not find the key %q", of.queue, of.key)
		}
		if s := w.queues[of.queue]; s.fairBuilt && (found.fair == nil || *found.fair > s.config.Fair.class(last.Priority)) {
			w.Problem("queue %q: the key %q has no turn", of.queue, of.key)
		}
	}
}

// mayBeHidden reports whether pops need not find a key: it may have no more, or waits for
// a token, or is paused, or is about to be looked at.
func (w *walk) mayBeHidden(of keyOf, found *keyFound) bool {
	settings := w.known.settings[queueKey{of.queue, of.key}]
	limit := int(settings.limit(&w.queues[of.queue].config))
	waits := w.known.waits[queueKey{of.queue, of.key}]
	return settings.paused() || limit > 0 && found.held >= limit || waits || w.known.working[queueTimer{of.queue, layout.TimerKeys}]
}

// ofKey returns the key whose row it is. The row without a key has the one behind which a timer
// goes on: done.
func (r *foundRow) ofKey() (of queueKey, done bool, err error) {
	key := r.Value
	if done = len(r.rest) == 0; !done {
		key, _, err = tuple.ConsumeBytes(r.rest)
	}
	if err == nil {
		err = CheckKey(string(key))
	}
	return queueKey{r.queue, string(key)}, done || err != nil, err
}

// foundKeyHeld checks the row of an item that counts as leased.
func foundKeyHeld(w *walk, r *foundRow) error {
	key, _, err := tuple.ConsumeBytes(r.rest)
	if err != nil {
		return err
	}
	w.keyOf(r.lineage, string(key)).held++
	return foundRowOfItem(w, r)
}

// foundKeyFence checks the last fence of a key. It may outlive its queue.
func foundKeyFence(w *walk, r *foundRow) error {
	of, done, err := r.ofKey()
	if done {
		return err
	}
	w.known.last[of] = int64(kv.DecodeInteger(r.Value))
	if len(r.Value) != 8 {
		err = fmt.Errorf("a fence of %d bytes", len(r.Value))
	}
	return err
}

// balanceFences reports fences that a key may get again, and ones that nobody forgets.
func (w *walk) balanceFences() {
	known := &w.known
	for of, fence := range known.fences {
		if fence > known.last[of] && fence >= known.passed {
			w.Problem("queue %q: the key %q had the fence %d, and could get it again: the last one is %d, time has passed %d",
				of.queue, of.key, fence, known.last[of], known.passed)
		}
	}
	for of := range known.last {
		if !known.working[queueTimer{of.queue, layout.TimerFences}] {
			w.Problem("queue %q: nobody forgets the fence of the key %q", of.queue, of.key)
		}
	}
}

// foundSettings checks the settings of a key.
func foundSettings(w *walk, r *foundRow) error {
	of, done, err := r.ofKey()
	if err = cmp.Or(r.living(), err); done || err != nil {
		return err
	}
	var k KeySettings
	err = json.Unmarshal(r.Value, &k)
	w.known.settings[of] = k
	return err
}

// balanceSettings reports settings that are not counted.
func (w *walk) balanceSettings() {
	set, limited := make(map[string]int64), make(map[string]int64)
	for of, k := range w.known.settings {
		set[of.queue] += counted(k)
		limited[of.queue] += limits(k)
	}
	for name, s := range w.queues {
		if s != nil && (s.keysSet != set[name] || s.keysLimited != limited[name]) {
			w.Problem("queue %q: %d keys have settings and %d a limit, counted %d and %d", name, s.keysSet, s.keysLimited, set[name], limited[name])
		}
	}
}

// foundKeyWaits checks the row of a key that waits for a token.
func foundKeyWaits(w *walk, r *foundRow) error {
	_, key, err := parseKeyWait(r.rest)
	w.known.waits[queueKey{r.queue, key}] = true
	return cmp.Or(r.living(), err)
}

// foundTokens checks the tokens of a queue.
func foundTokens(w *walk, r *foundRow) error {
	_, err := parseBucket(r.Value)
	return cmp.Or(r.living(), err)
}

// foundTokensOf checks the tokens of a key.
func foundTokensOf(w *walk, r *foundRow) error {
	_, done, err := r.ofKey()
	if err = cmp.Or(r.living(), err); done || err != nil {
		return err
	}
	b, err := parseBucket(r.Value)
	if b.counted {
		w.of(lineage{queue: r.queue}).tally.Owing++
	}
	return err
}

// foundWeight checks the weight that a push gave a key.
func foundWeight(w *walk, r *foundRow) error {
	key, _, err := tuple.ConsumeBytes(r.rest)
	if err != nil {
		return err
	}
	w.keyOf(r.lineage, string(key)).heavy = true
	weight, _, err := tuple.ConsumeInt(r.Value)
	if err == nil {
		err = checkWeight(weight)
	}
	return err
}

// fairClass is the class of a row of the fair order.
func (r *foundRow) fairClass() (class int64, rest []byte, err error) {
	order, rest, err := tuple.ConsumeInt(r.rest)
	if err != nil {
		return 0, nil, err
	}
	if order != r.state.fairOrder || r.state.config.Fair == "" {
		return 0, nil, fmt.Errorf("the order %d is not that of the queue", order)
	}
	return tuple.ConsumeInt(rest)
}

// foundFairTag checks a tag, or the virtual time of a class.
func foundFairTag(w *walk, r *foundRow) error {
	if _, _, err := r.fairClass(); err != nil {
		return err
	}
	if len(r.Value) != 8 {
		return fmt.Errorf("a tag of %d bytes", len(r.Value))
	}
	return nil
}

// foundFairKey checks the row of a key in turn.
func foundFairKey(w *walk, r *foundRow) error {
	class, rest, err := r.fairClass()
	if err != nil {
		return err
	}
	if _, rest, err = tuple.ConsumeInt(rest); err != nil { // the tag
		return err
	}
	key, _, err := tuple.ConsumeBytes(rest)
	if err != nil {
		return err
	}
	if found := w.keyOf(r.lineage, string(key)); found.fair == nil || class < *found.fair {
		found.fair = &class
	}
	return nil
}
