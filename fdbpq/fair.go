package fdbpq

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
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
// (layout.SpaceFairKey), and in a class in the order of tags. The tag belongs to the next item of
// the key: the tag of the item before, and that item's cost, which counts the less the more the key weighs.
// The virtual time of the class is the highest tag that was served, and a key that comes stands the
// cost of its first item behind it: self-clocked fair queueing. So a key gains nothing by its absence, and each
// item moves time on: new keys, however many, keep no key waiting for good.
//
// The items without a key count as a key of weight 1. It needs no row in the order, because pops
// read its first item anyway. A row of its own has its tag (layout.SpaceUnnamed).
//
// The rows follow the rules of the key index (layout.SpaceKeyHead), except that a row may stand
// in a class before that of the key's first item. Pushes and settlements do not know tags, so
// they write rows with tag 0, and pops move these to their places.
//
// Rows belong to a numbered order, so that another configuration begins with an empty order.
// Pops go in the order of the queue until all keys have a row in the fair order.

// fairIndex reads and writes the order in which keys take turns.
type fairIndex struct{ *queueRows }

// prefixOf returns the prefix of rows of the present fair order in a space.
func (f fairIndex) prefixOf(space string) []byte {
	return tuple.AppendInt(layout.GenerationPrefix(space, f.name, f.state.generation), f.state.fairOrder)
}

func (f fairIndex) classPrefix(space string, class int64) []byte {
	return tuple.AppendInt(f.prefixOf(space), class)
}

func (f fairIndex) row(p fairPlace) []byte {
	return tuple.AppendBytes(tuple.AppendInt(f.classPrefix(layout.SpaceFairKey, p.class), p.tag), []byte(p.key))
}

func (f fairIndex) weightRow(key string) []byte { return f.rowsOfKey(layout.SpaceWeight, key) }

// fairPlace is the place of a key in the fair order. A key that comes has tag 0.
type fairPlace struct {
	class, tag int64
	key        string
}

func (a fairPlace) compare(b fairPlace) int {
	return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.tag, b.tag), cmp.Compare(a.key, b.key))
}

func (f fairIndex) parseRow(key []byte) (p fairPlace, err error) {
	r := tuple.Read(key[len(f.prefixOf(layout.SpaceFairKey)):])
	p = fairPlace{class: r.Int(), tag: r.Int(), key: string(r.Bytes())}
	if r.Err() != nil {
		return p, fmt.Errorf("damaged row of a key in turn: %w", r.Err())
	}
	return p, nil
}

// rows reads the rows of the fair order.
func (f fairIndex) rows(r kv.Reader) func(limit, maxBytes int) ([]fairPlace, error) {
	begin, end := tuple.Range(f.prefixOf(layout.SpaceFairKey))
	return func(limit, maxBytes int) ([]fairPlace, error) {
		pairs, err := r.Range(begin, end, kv.RangeOptions{Limit: limit, MaxBytes: maxBytes})
		if err != nil {
			return nil, err
		}
		places := make([]fairPlace, len(pairs))
		for i, pair := range pairs {
			if places[i], err = f.parseRow(pair.Key); err != nil {
				return nil, err
			}
			begin = append(pair.Key, 0)
		}
		return places, nil
	}
}

// place writes the row of a key that comes, in the class of its first item.
func (f fairIndex) place(first layout.Place, key string) {
	if f.state.config.Fair == "" {
		return
	}
	row := f.row(fairPlace{class: f.state.config.Fair.class(first.Priority), key: key})
	f.tx.Set(row, nil)
}

// tagUnit is by how much an item of cost 1 moves the tag of a key of weight 1.
const tagUnit = 1 << 20

// tagsEnd is a tag behind which the queue begins its next order, far from overflow: 30 hours of cost 4,000 at 5,000 items a second.
const tagsEnd = 1 << 61

// tagsOf is by how much a cost moves the tag of a key with a weight.
func tagsOf(cost, weight int64) int64 { return cost * tagUnit / weight }

// A settlement that says another cost than the delivery has reserved does not know the tag of the key, so it adds the difference to a row
// of what the key owes (layout.SpaceOwed). The next pop that places the key takes that into account, and takes it off the row. Both only
// add, so they do not conflict, and if two pops have taken the same, the row has it back. The items without a key have one row in all
// classes.

func (f fairIndex) owedRow(key string) []byte { return f.rowsOfKey(layout.SpaceOwed, key) }

// owed is by how much more the key's deliveries have cost, or less than none, than its tags say.
func (f fairIndex) owed(key string) (int64, error) {
	row, err := f.snapshot.Get(f.owedRow(key))
	return int64(kv.DecodeInteger(row)), err
}

// owe notes that a delivery has cost more than its key has paid, or less. A key without ready items owes nothing: its next turn
// is that of a key that comes.
func (f fairIndex) owe(key string, by int64) error {
	if f.state.config.Fair == "" || by == 0 {
		return nil
	}
	if key != "" {
		if _, ready, err := f.keyIndex.first(f.snapshot, key); err != nil || !ready {
			return err
		}
		f.tx.Conflict(f.goneRow(key))
	}
	f.tx.Add(f.owedRow(key), by)
	return f.keepTags()
}

// forgive clears what a key owes that has no ready item any more, and its tags in the classes of the items that went.
func (f fairIndex) forgive(key string, went []layout.Place) {
	if !f.state.fairTags {
		return
	}
	f.tx.Clear(f.owedRow(key))
	f.tx.Clear(f.goneRow(key))
	for _, p := range went {
		f.tx.Clear(f.tagRow(f.state.config.Fair.class(p.Priority), key))
	}
}

// goneRow never exists. Who clears what a key owes clears it, too, and who adds to that depends on it.
func (f fairIndex) goneRow(key string) []byte { return append(f.owedRow(key), 0) }

// Where costs or weights differ, a key has a row with its tag besides (layout.SpaceTag), and pops clear all other rows of the key in the
// order: a row with tag 0, which is written for an item that goes before the others, or when the key may have more again, gives it no other
// turn, and no second one. These rows go with the virtual time of the class. Where all weigh and cost the same, what such a row adds
// falls together with the row that was there.

func (f fairIndex) tagRow(class int64, key string) []byte {
	return tuple.AppendBytes(f.classPrefix(layout.SpaceTag, class), []byte(key))
}

// keepTags has keys that take turns have rows with their tags from now on.
func (f fairIndex) keepTags() error {
	if f.state.fairTags {
		return nil
	}
	next := *f.state
	next.fairTags = true
	return f.writeState(&next)
}

// tag is that of a key in a class, 0 if it is not known.
func (f fairIndex) tag(class int64, key string) (int64, error) {
	row, err := f.snapshot.Get(f.tagRow(class, key))
	return int64(kv.DecodeInteger(row)), err
}

// weightOf is the share of a key: what is set for it, or what a push said.
func (f fairIndex) weightOf(r kv.Reader, key string, k *KeySettings) (int64, error) {
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

// leave clears the rows of the present order by ranges, however many they are.
func (f fairIndex) leave() {
	if f.state.config.Fair == "" {
		return
	}
	f.clearOrder()
	for _, space := range []string{layout.SpaceWeight, layout.SpaceOwed} {
		f.tx.ClearRange(tuple.Range(layout.GenerationPrefix(space, f.name, f.state.generation)))
	}
}

func (f fairIndex) clearOrder() {
	for _, space := range []string{layout.SpaceFairKey, layout.SpaceUnnamed, layout.SpaceClass, layout.SpaceTag} {
		f.tx.ClearRange(tuple.Range(f.prefixOf(space)))
	}
}

// again begins the next order, with lower tags. Keys keep their weights, and what they owe.
func (f fairIndex) again() error {
	f.clearOrder()
	next := *f.state
	next.fairOrder++
	next.fairBuilt = false
	if err := f.writeState(&next); err != nil {
		return err
	}
	return f.buildLater("")
}

// buildLater sets a timer that goes on behind a key. The transaction that begins an order builds
// nothing: until it commits, other transactions add keys without rows in the order.
func (f fairIndex) buildLater(behind string) error {
	return f.timers.atOnce(layout.TimerFair, fmt.Sprintf("%d:%s", f.state.fairOrder, behind))
}

// due writes the rows of the next keys. After the last key, pops go by the fair order.
func (f fairIndex) due(t layout.Timer) error {
	s := f.state
	order, behind, _ := strings.Cut(t.ID, ":")
	if !f.there() || s.config.Fair == "" || s.fairBuilt || order != strconv.FormatInt(s.fairOrder, 10) {
		return nil
	}
	last, done, err := f.keyIndex.findNext(behind)
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
