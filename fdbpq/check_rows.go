package fdbpq

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
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
	_, err := parseBucket(r.Value, false)
	return cmp.Or(r.living(), err)
}

// foundCost checks the tokens of a queue's cost.
func foundCost(w *walk, r *foundRow) error {
	_, err := parseBucket(r.Value, true)
	return cmp.Or(r.living(), err)
}

// foundTokensOf checks the tokens of a key, and foundCostOf those of its cost.
func foundTokensOf(w *walk, r *foundRow) error { return foundOfKey(w, r, false) }
func foundCostOf(w *walk, r *foundRow) error   { return foundOfKey(w, r, true) }

func foundOfKey(w *walk, r *foundRow, cost bool) error {
	_, done, err := r.ofKey()
	if err = cmp.Or(r.living(), err); done || err != nil {
		return err
	}
	_, err = parseBucket(r.Value, cost)
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

// foundOwed checks what a key owes. The items without a key may owe something while there are none.
func foundOwed(w *walk, r *foundRow) error {
	key, _, err := tuple.ConsumeBytes(r.rest)
	if err != nil {
		return err
	}
	if len(key) > 0 {
		w.keyOf(r.lineage, string(key)).owes = true
	}
	if len(r.Value) != 8 {
		return fmt.Errorf("what a key owes has %d bytes", len(r.Value))
	}
	return nil
}

// foundFairTag checks a tag, of a key or of the items without one, or the virtual time of a class.
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

func foundState(w *walk, r *foundRow) (err error) {
	w.queues[r.queue], err = parseState(r.Value)
	if errors.Is(err, ErrFormat) {
		w.later[r.queue] = true
		return fmt.Errorf("%w: the rows of queue %q were not checked, which a later program has to do", err, r.queue)
	}
	if s := w.queues[r.queue]; err == nil && s.exists && s.config.ExpireEmpty > 0 {
		w.expect(usedRow(r.queue), nil)
		w.expect(lookRow(r.queue), nil)
	}
	return err
}

// foundUse checks a row of a queue that deletes itself. All its rows are cleared with the setting.
func foundUse(w *walk, r *foundRow) error {
	if _, asked := w.rows[string(r.Key)]; !asked {
		return errors.New("its queue does not delete itself")
	}
	delete(w.rows, string(r.Key))
	if r.space == layout.SpaceUsed {
		if len(r.Value) != 8 {
			return fmt.Errorf("a time of %d bytes", len(r.Value))
		}
		return nil
	}
	due, _, err := tuple.ConsumeInt(r.Value)
	if err == nil {
		w.expect(layout.IDTimerKey(due, layout.TimerUnused, r.queue, ""), nil)
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

// foundKept checks a result.
func foundKept(w *walk, r *foundRow) error {
	suffix, err := suffixOf(r.rest)
	if err != nil {
		return err
	}
	kept, err := layout.ParseResult(r.Value)
	if err != nil {
		return err
	}
	if r.state == nil || !r.state.exists || !r.state.results {
		return fmt.Errorf("queue %q keeps no results", r.queue)
	}
	since := kept.Since(suffix)
	results{&w.of(r.lineage).queueRows}.count(since.Size, 1)
	w.expect(since.Key(r.queue), since.Append(nil))
	if kept.Chunks > 0 {
		begin, _ := layout.KeptParts(r.queue, suffix)
		w.chunks[string(begin)] += kept.Size
	}
	at := keptAs{r.queue, kept.Keep}
	if last, known := w.kept[at]; !known || kept.Timer() < last {
		w.kept[at] = kept.Timer()
	}
	return nil
}

// foundKeptPart checks a part of a large result.
func foundKeptPart(w *walk, r *foundRow) error {
	suffix, err := suffixOf(r.rest)
	if err != nil {
		return err
	}
	of, _ := layout.KeptParts(r.queue, suffix)
	if _, known := w.chunks[string(of)]; !known {
		return fmt.Errorf("part of no result")
	}
	w.chunks[string(of)] -= int64(len(r.Value))
	return nil
}

// suffixOf reads the suffix of an item from a key.
func suffixOf(rest []byte) (string, error) {
	suffix, _, err := tuple.ConsumeBytes(rest)
	return string(suffix), err
}
