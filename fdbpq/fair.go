package fdbpq

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Fair says within which priorities keys take turns: "priority" makes each priority a
// class, and numbers such as "0,100" are the classes' borders: up to -1, 0 to 99, and from
// 100 on. "" means that they do not.
type Fair string

// FairPriority makes each priority a class.
const FairPriority Fair = "priority"

// maxBorders bounds the classes of a queue: each transaction on it reads them.
const maxBorders = 64

// ordered reports whether the borders are numbers in rising order, and not too many.
func (f Fair) ordered() bool {
	n, last := 0, int64(0)
	for text := range strings.SplitSeq(string(f), ",") {
		border, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n > 0 && border <= last || strconv.FormatInt(border, 10) != text {
			return false
		}
		n, last = n+1, border
	}
	return n <= maxBorders
}

func (f Fair) check() error {
	if f != "" && f != FairPriority && !f.ordered() {
		return configError("fair is %q: expected %q, or up to %d priorities in rising order at which a class begins, such as \"0,100\"",
			string(f), string(FairPriority), maxBorders)
	}
	return nil
}

// class returns the class of a priority: less is more urgent.
func (f Fair) class(priority int64) int64 {
	if f == FairPriority {
		return priority
	}
	class := int64(0)
	for text := range strings.SplitSeq(string(f), ",") {
		if border, err := strconv.ParseInt(text, 10, 64); err != nil || priority < border {
			break
		}
		class++
	}
	return class
}

// Where keys take turns, each key with ready items has a row in the order of the classes
// (spaceFairKey), and in a class in the order of tags. The tag is that of its next item:
// the one of the item before and a cost, the less the more the key weighs. The virtual time
// of the class is the highest tag that was served, and a key that comes stands a cost behind
// it: self-clocked fair queueing. So a key gains nothing by its absence, and each item moves
// time on: keys that are new all the time keep nobody waiting for good.
//
// The items without a key are a key of weight 1. It needs no row in the order, because pops
// read its first item anyway, and has its tag in a row of its own (spaceUnnamed).
//
// The rows keep the rules of those in the order of the queue (spaceKeyHead), but that a
// row may stand in a class before the one of the key's first item. Pushes and settlements
// do not know tags, so they write rows with tag 0, and pops put them where they belong.
//
// Rows belong to a numbered order, so that another configuration begins with an empty one.
// Pops go in the order of the queue until all keys have a row in the fair one.

// fair is what a queue does about the order in which keys take turns.
type fair struct{ *queueTx }

// prefixOf returns the prefix of rows of the present fair order in a space.
func (f fair) prefixOf(space string) []byte {
	return tuple.AppendInt(generationPrefix(space, f.name, f.state.generation), f.state.fairOrder)
}

func (f fair) classPrefix(space string, class int64) []byte {
	return tuple.AppendInt(f.prefixOf(space), class)
}

func (f fair) row(p fairPlace) []byte {
	return tuple.AppendBytes(tuple.AppendInt(f.classPrefix(spaceFairKey, p.class), p.tag), []byte(p.key))
}

func (f fair) weightRow(key string) []byte { return f.rowsOfKey(spaceWeight, key) }

// fairPlace is where a key stands.
type fairPlace struct {
	class, tag int64
	key        string
}

func (f fair) parseRow(key []byte) (p fairPlace, err error) {
	r := tuple.Read(key[len(f.prefixOf(spaceFairKey)):])
	p = fairPlace{class: r.Int(), tag: r.Int(), key: string(r.Bytes())}
	if r.Err() != nil {
		return p, fmt.Errorf("damaged row of a key in turn: %w", r.Err())
	}
	return p, nil
}

// place has pops look at a key whose first item is there.
func (f fair) place(first place, key string) {
	if f.state.config.Fair == "" {
		return
	}
	row := f.row(fairPlace{class: f.state.config.Fair.class(first.priority), key: key})
	f.tx.Set(row, nil)
}

// prepareFair begins another order.
func prepareFair(qtx *queueTx, next *queueState) error {
	if next.config.Fair != qtx.state.config.Fair {
		fair{qtx}.leave()
		next.fairOrder++
		next.fairBuilt = next.config.Fair != "" && !next.keyed
	}
	return nil
}

// fairChanged has all keys get a row in another order.
func fairChanged(qtx *queueTx, before *Config) error {
	if c := &qtx.state.config; c.Fair == before.Fair || c.Fair == "" || qtx.state.fairBuilt {
		return nil
	}
	return fair{qtx}.buildLater("")
}

// leave clears the rows of an order. Those of a long one are many, but a range.
func (f fair) leave() {
	if f.state.config.Fair == "" {
		return
	}
	for _, space := range []string{spaceFairKey, spaceUnnamed, spaceClass} {
		f.tx.ClearRange(tuple.Range(f.prefixOf(space)))
	}
	f.tx.ClearRange(tuple.Range(generationPrefix(spaceWeight, f.name, f.state.generation)))
}

// buildLater sets a timer that goes on behind a key. The transaction that begins an order
// builds nothing: another one may add keys before it commits, without rows in the order.
func (f fair) buildLater(behind string) error {
	return timers{f.queueTx}.atOnce(timerFair, fmt.Sprintf("%d:%s", f.state.fairOrder, behind))
}

// due gives the next keys their rows. After the last one pops go by the order.
func (f fair) due(t timer) error {
	s := f.state
	order, behind, _ := strings.Cut(t.id, ":")
	if !f.there() || s.config.Fair == "" || s.fairBuilt || order != strconv.FormatInt(s.fairOrder, 10) {
		return nil
	}
	last, done, err := keyIndex{f.queueTx}.findNext(behind)
	if err != nil {
		return err
	}
	if !done {
		return f.buildLater(last)
	}
	built := *s
	built.fairBuilt = true
	return f.writeState(&built)
}

// tagUnit is what an item costs a key of weight 1.
const tagUnit = 1 << 20

// weightOf is the share of a key.
func (f fair) weightOf(r kv.Reader, key string, k *KeySettings) (int64, error) {
	if k.Weight != nil {
		return *k.Weight, nil
	}
	row, err := r.Get(f.weightRow(key))
	if err != nil || row == nil {
		return 1, err
	}
	weight, _, err := tuple.ConsumeInt(row)
	if err == nil {
		err = checkWeight(weight)
	}
	if err != nil {
		return 0, fmt.Errorf("damaged weight of key %q: %w", key, err)
	}
	return weight, nil
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
