package fdbpq

import (
	"bytes"
	"slices"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// fairTurns selects items where keys take turns. It changes the order in memory, and writes the
// changes after the selection.
type fairTurns struct {
	keyVisits
	plain  source[entry]
	rows   source[fairPlace]
	last   *fairPlace // row that was read last
	moved  []*fairKey // keys with a next item
	placed []*fairKey // those, and keys that had one

	classes map[int64]*classTime
	left    map[fairPlace]bool // rows that were read
	fresh   int                // keys of these rows that had an item
	unnamed *debt              // of the items without a key; nil: not read yet
}

// fairKey is a key with an item that the pop may take next.
type fairKey struct {
	*turn
	place  fairPlace
	weight int64
	debt   debt
	stood  int64   // its tag, by its row
	left   []int64 // classes in which it stood before, in this selection
}

// debt is what a key owes. A turn costs nothing at least, so what is owed to a key may last for several turns.
type debt struct{ owed, paid int64 }

// with is the cost of a turn with what is owed.
func (d *debt) with(cost int64) int64 {
	more := max(d.owed, -cost)
	d.owed, d.paid = d.owed-more, d.paid+more
	return cost + more
}

// classTime has the virtual time of a class, and the tag of its next item without a key.
type classTime struct {
	virtual, unnamed int64    // unnamed is 0 if there was no such item
	before           [2]int64 // both as the rows have them
}

// takeFairTurns returns the store time of the first token that a key waits for without a row, 0 if no key does.
func takeFairTurns(v keyVisits) (token int64, err error) {
	t := fairTurns{keyVisits: v, classes: make(map[int64]*classTime), left: make(map[fairPlace]bool)}
	t.plain.next = scanOf(t.name, t.front(t.state), t.state, layout.SpaceReady, Min, AllPriorities, "").next
	rows := t.fairIndex.rows(t.front(t.state))
	t.rows.next = func(limit, maxBytes int) ([]fairPlace, error) {
		places, err := rows(limit, maxBytes)
		t.prefetch(places)
		return places, err
	}
	ready, err := t.refilled()
	if err != nil {
		return 0, err
	}
	for _, next := range ready {
		if err := t.moveTo(next, fairPlace{}); err != nil {
			return 0, err
		}
	}
	if err := t.untilDone(t.step); err != nil || !t.remove {
		return t.token, err
	}
	if err := t.write(); err != nil {
		return 0, err
	}
	return t.token, t.spend()
}

// prefetch announces visits of the keys of rows.
func (t *fairTurns) prefetch(places []fairPlace) {
	for _, at := range places {
		if t.prefetchKey(at.key); t.remove && t.visited[at.key] == nil {
			t.tx.Prefetch(t.fairIndex.weightRow(at.key))
			if t.state.fairTags {
				t.tx.Prefetch(t.fairIndex.owedRow(at.key), t.fairIndex.tagRow(at.class, at.key))
			}
		}
	}
}

// step takes the next item, or visits the next key. done: no item and no key is left.
func (t *fairTurns) step() (done bool, err error) {
	plain, err := t.plain.first(t.basket.room(), t.maxBytes)
	if err != nil {
		return false, err
	}
	slices.SortFunc(t.moved, func(a, b *fairKey) int { return a.place.compare(b.place) })
	row, err := t.firstRow()
	if err != nil {
		return false, err
	}
	next := (*fairPlace)(nil)
	earlier := func(p fairPlace) bool { return next == nil || p.compare(*next) < 0 }
	if plain != nil {
		at, err := t.placeOfUnnamed(plain)
		if err != nil {
			return false, err
		}
		next = &at
	}
	// One pop visits a bounded number of keys that come, and the next pop others.
	enough := t.fresh >= maxKeyVisits && len(t.moved) > 0 && row != nil && row.tag == 0
	if row != nil && !enough && earlier(*row) && (len(t.moved) == 0 || row.compare(t.moved[0].place) <= 0) {
		return t.visitKey(t.rows.take())
	}
	if len(t.moved) > 0 && earlier(t.moved[0].place) {
		first := t.moved[0]
		t.moved = t.moved[1:]
		return t.take(first)
	}
	if plain != nil {
		return t.takePlain(t.plain.take(), *next)
	}
	return true, nil
}

// firstRow returns the first row that was not taken, nil if the first moved key comes before
// it. A pop of one item usually reads one row: an engine that keeps former versions
// steps over all versions of each row that it passes, and the row of a key that often comes
// and goes has many.
func (t *fairTurns) firstRow() (*fairPlace, error) {
	if len(t.rows.entries) == 0 && t.last != nil && len(t.moved) > 0 && t.moved[0].place.compare(*t.last) <= 0 {
		return nil, nil
	}
	limit := t.basket.room()
	if t.last != nil {
		limit = max(rowsAtOnce, limit)
	}
	read := len(t.rows.entries) == 0
	row, err := t.rows.first(limit, 0)
	if read && row != nil {
		t.last = &t.rows.entries[len(t.rows.entries)-1]
	}
	return row, err
}

// unread reports whether rows of a class were not taken.
func (t *fairTurns) unread(class int64) (bool, error) {
	if slices.ContainsFunc(t.rows.entries, func(p fairPlace) bool { return p.class == class }) {
		return true, nil
	}
	begin, end := tuple.Range(t.fairIndex.classPrefix(layout.SpaceFairKey, class))
	if t.last != nil && t.last.class >= class {
		begin = append(t.fairIndex.row(*t.last), 0)
	}
	if bytes.Compare(begin, end) >= 0 {
		return false, nil
	}
	rows, err := t.snapshot.Range(begin, end, kv.RangeOptions{Limit: 1})
	return len(rows) > 0, err
}

// visitKey visits the key of a row. write writes the row again at the place of the key.
func (t *fairTurns) visitKey(at fairPlace) (done bool, err error) {
	t.left[at] = true
	if _, err := t.class(at.class); err != nil { // which may have no other key
		return false, err
	}
	if t.visited[at.key] == nil {
		found, err := t.visit(at.key)
		if err != nil {
			return false, err
		}
		if found.ready {
			t.fresh++
			return false, t.moveTo(found, at)
		}
	}
	return t.givesUp(), nil
}

// moveTo gives a key with an item to take its place in the order: the place of its row, or the place of a
// key that comes.
func (t *fairTurns) moveTo(next *turn, at fairPlace) error {
	// Pushes may give the key a weight all the time, and pops would run again each time.
	weight, err := t.fairIndex.weightOf(t.snapshot, next.key, &next.settings)
	if err != nil {
		return err
	}
	f := &fairKey{turn: next, place: at, weight: weight}
	if t.state.fairTags {
		if f.debt.owed, err = t.fairIndex.owed(next.key); err != nil {
			return err
		}
	}
	if err := t.stand(f, t.state.config.Fair.class(next.at.Priority)); err != nil {
		return err
	}
	t.placed = append(t.placed, f)
	if t.moved = append(t.moved, f); len(t.moved) <= t.limit {
		t.prefetchItem(next.key, next.at)
	}
	return nil
}

// stand places a key in a class: where it stands already, or as a key that comes. The row by which the pop has found it may say neither.
func (t *fairTurns) stand(f *fairKey, class int64) (err error) {
	c, err := t.class(class)
	if err != nil {
		return err
	}
	f.stood = 0
	if t.state.fairTags {
		if f.stood, err = t.fairIndex.tag(class, f.key); err != nil {
			return err
		}
	}
	there := f.place.tag != 0 && f.place.class == class
	switch {
	case there && (f.stood == 0 || f.stood == f.place.tag):
		return nil
	case f.stood != 0 && f.stood >= c.virtual:
		f.place = fairPlace{class: class, tag: f.stood, key: f.key}
		return nil
	}
	cost := int64(1)
	if t.state.fairTags {
		row, err := t.snapshot.Get(t.queueRows.key(layout.SpaceKeyed, f.at))
		if err != nil {
			return err
		}
		if cost, err = costIn(layout.SpaceKeyed, entry{place: f.at, value: row}); err != nil {
			return err
		}
	}
	f.place = fairPlace{class: class, tag: max(1, c.virtual+tagsOf(f.debt.with(cost), f.weight)), key: f.key}
	return nil
}

// costIn is the cost of an item in its row.
func costIn(space string, of entry) (int64, error) {
	l, err := layout.ParseItem(space, of.value, of.place)
	if err != nil {
		return 0, err
	}
	return l.Costs(), nil
}

// placeOfUnnamed is the place of the next item without a key.
func (t *fairTurns) placeOfUnnamed(item *entry) (fairPlace, error) {
	class := t.state.config.Fair.class(item.place.Priority)
	c, err := t.class(class)
	if err != nil {
		return fairPlace{}, err
	}
	if c.unnamed == 0 {
		cost := int64(1)
		if t.state.fairTags {
			if cost, err = costIn(layout.SpaceReady, *item); err != nil {
				return fairPlace{}, err
			}
		}
		d, err := t.unnamedDebt()
		if err != nil {
			return fairPlace{}, err
		}
		c.unnamed = max(1, c.virtual+tagsOf(d.with(cost), 1))
	}
	return fairPlace{class: class, tag: c.unnamed}, nil
}

// unnamedDebt is what the items without a key owe.
func (t *fairTurns) unnamedDebt() (_ *debt, err error) {
	if t.unnamed == nil {
		t.unnamed = new(debt)
		if t.state.fairTags {
			t.unnamed.owed, err = t.fairIndex.owed("")
		}
	}
	return t.unnamed, err
}

// class returns the times of a class, from its rows the first time.
func (t *fairTurns) class(class int64) (*classTime, error) {
	if c := t.classes[class]; c != nil {
		return c, nil
	}
	f := t.fairIndex
	values, err := t.reader(t.remove).GetAll([][]byte{f.classPrefix(layout.SpaceClass, class), f.classPrefix(layout.SpaceUnnamed, class)})
	if err != nil {
		return nil, err
	}
	c := &classTime{virtual: int64(kv.DecodeInteger(values[0])), unnamed: int64(kv.DecodeInteger(values[1]))}
	c.before = [2]int64{c.virtual, c.unnamed}
	t.classes[class] = c
	return c, nil
}

// take selects the next item of a key.
func (t *fairTurns) take(f *fairKey) (done bool, err error) {
	served, done, err := t.selectNext(f.turn)
	if err != nil {
		return false, err
	}
	if served {
		c, err := t.class(f.place.class)
		if err != nil {
			return false, err
		}
		c.virtual = max(c.virtual, f.place.tag)
	}
	if t.remove {
		t.keys.of(f.key).placed = true
	}
	if served {
		f.place.tag += tagsOf(f.debt.with(t.basket.cost()), f.weight)
	}
	if !f.ready {
		return done, nil
	}
	if class := t.state.config.Fair.class(f.at.Priority); class != f.place.class {
		f.left = append(f.left, f.place.class)
		err = t.stand(f, class)
	}
	t.moved = append(t.moved, f)
	return done, err
}

// takePlain selects an item without a key.
func (t *fairTurns) takePlain(item entry, at fairPlace) (done bool, err error) {
	added, done, err := t.basket.add(item, 0)
	if err != nil || !added {
		return done, err
	}
	d, err := t.unnamedDebt()
	if err != nil {
		return false, err
	}
	c := t.classes[at.class]
	c.virtual = max(c.virtual, at.tag)
	c.unnamed = c.virtual + tagsOf(d.with(t.basket.cost()), 1)
	next, err := t.plain.first(1, 0)
	if err == nil && (next == nil || t.state.config.Fair.class(next.place.Priority) != at.class) {
		c.unnamed = 0
	}
	return done, err
}

// write writes the rows of the keys at their present places, and the times of the classes.
func (t *fairTurns) write() error {
	stand := make(map[fairPlace]bool)
	for _, f := range t.moved {
		stand[f.place] = true
	}
	for p := range t.left {
		if stand[p] {
			delete(stand, p)
			continue
		}
		row := t.fairIndex.row(p)
		t.tx.Conflict(row) // a push may write it at the same time
		t.tx.Clear(row)
	}
	for p := range stand {
		t.tx.Set(t.fairIndex.row(p), nil)
	}
	if t.state.fairTags {
		t.writeCosts()
	}
	end := int64(0)
	for class, c := range t.classes {
		if err := t.writeClass(class, c); err != nil {
			return err
		}
		end = max(end, c.virtual, c.unnamed)
	}
	if end > tagsEnd {
		return t.fairIndex.again()
	}
	return nil
}

// writeCosts writes the tags of keys that have others, and takes off what keys have paid of what they owe.
func (t *fairTurns) writeCosts() {
	for _, f := range t.placed {
		for _, class := range f.left {
			t.tx.Clear(t.fairIndex.tagRow(class, f.key))
		}
		if f.place.tag != f.stood {
			t.tx.Set(t.fairIndex.tagRow(f.place.class, f.key), kv.EncodeInteger(uint64(f.place.tag)))
		}
		t.pays(f.key, f.debt)
	}
	if t.unnamed != nil {
		t.pays("", *t.unnamed)
	}
}

func (t *fairTurns) pays(key string, d debt) {
	if d.paid != 0 {
		t.tx.Add(t.fairIndex.owedRow(key), -d.paid)
	}
}

// writeClass writes the times of a class that have changed, and clears the times of a class without items.
func (t *fairTurns) writeClass(class int64, c *classTime) error {
	stands := slices.ContainsFunc(t.moved, func(f *fairKey) bool { return f.place.class == class })
	if !stands && c.unnamed == 0 && c.virtual > 0 {
		others, err := t.unread(class)
		if err != nil {
			return err
		}
		if !others {
			c.virtual = 0
			if t.state.fairTags {
				t.tx.ClearRange(tuple.Range(t.fairIndex.classPrefix(layout.SpaceTag, class)))
			}
		}
	}
	for i, row := range [][]byte{t.fairIndex.classPrefix(layout.SpaceClass, class), t.fairIndex.classPrefix(layout.SpaceUnnamed, class)} {
		switch now := [2]int64{c.virtual, c.unnamed}[i]; {
		case now == c.before[i]:
		case now == 0:
			t.tx.Clear(row)
		default:
			t.tx.Set(row, kv.EncodeInteger(uint64(now)))
		}
	}
	return nil
}

// rowsAtOnce is how many rows one read asks for at least: some keys may have no item to take.
const rowsAtOnce = 8
