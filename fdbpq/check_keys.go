package fdbpq

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

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
	_, err = parseBucket(r.Value)
	w.of(lineage{queue: r.queue}).tally.Owing++
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
