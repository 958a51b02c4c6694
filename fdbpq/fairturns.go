package fdbpq

import (
	"cmp"
	"slices"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/tuple"
)

// fairTurns selects items where keys take turns. It changes the order in memory, and
// writes what has changed when it has selected.
type fairTurns struct {
	looks
	plain source
	rows  fairRows
	moved []*flow // keys with a next item

	virtual map[int64]*tag     // of classes
	finish  map[fairKey]*tag   // of keys
	left    map[fairPlace]bool // rows that were read: whether they are marks
	served  map[fairKey]bool   // keys that had items
	passed  map[int64]bool     // classes in which keys were forgotten
}

// flow is a key that may have its next item.
type flow struct {
	*turn
	place fairPlace
	cost  int64
}

// tag is a row that holds a tag.
type tag struct {
	at      int64
	changed bool
}

func (a fairPlace) compare(b fairPlace) int {
	return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.tag, b.tag), cmp.Compare(a.key, b.key))
}

func (c *collector) takeFairTurns() error {
	t := fairTurns{
		looks:   looks{collector: c, keys: make(map[string]*turn)},
		virtual: make(map[int64]*tag), finish: make(map[fairKey]*tag), left: make(map[fairPlace]bool),
		served: make(map[fairKey]bool), passed: make(map[int64]bool),
	}
	t.plain.next = c.scan(c.snapshot, c.state, spaceReady, Min, AllPriorities, "").next
	t.rows.begin, t.rows.end = tuple.Range(t.fairPrefix(spaceFairKey))
	ready, err := t.refilled()
	if err != nil {
		return err
	}
	for _, next := range ready {
		if err := t.moveTo(next); err != nil {
			return err
		}
	}
	for len(c.items) < c.sel.Limit && !c.more {
		done, err := t.step()
		if err != nil {
			return err
		}
		if done {
			break
		}
	}
	if !c.remove {
		return nil
	}
	if err := t.write(); err != nil {
		return err
	}
	return t.spend()
}

// step looks at the next item or key and reports whether it was the last one.
func (t *fairTurns) step() (done bool, err error) {
	plain, err := t.plain.first(t.sel.Limit-len(t.items), t.sel.MaxBytes)
	if err != nil {
		return false, err
	}
	row, err := t.rows.first(t, max(rowsAtOnce, t.sel.Limit-len(t.items)))
	if err != nil {
		return false, err
	}
	next := (*fairPlace)(nil)
	earlier := func(p fairPlace) bool { return next == nil || p.compare(*next) < 0 }
	if plain != nil {
		at, err := t.placeOf("", t.state.config.Fair.class(plain.place.priority))
		if err != nil {
			return false, err
		}
		next = &at
	}
	slices.SortFunc(t.moved, func(a, b *flow) int { return a.place.compare(b.place) })
	if row != nil && earlier(row.place) && (len(t.moved) == 0 || row.place.compare(t.moved[0].place) <= 0) {
		return t.look(t.rows.take())
	}
	if len(t.moved) > 0 && earlier(t.moved[0].place) {
		first := t.moved[0]
		t.moved = t.moved[1:]
		return t.take(first)
	}
	if plain != nil {
		t.plain.entries = t.plain.entries[1:]
		return t.takePlain(*plain, *next)
	}
	return true, nil
}

// look looks at the key of a row. Its row is written again where the key belongs.
func (t *fairTurns) look(row fairEntry) (done bool, err error) {
	t.left[row.place] = row.mark
	of := fairKey{row.place.class, row.place.key}
	if t.keys[of.key] == nil && !row.mark {
		found, err := t.lookAt(of.key)
		if err != nil {
			return false, err
		}
		if found.ready {
			if err := t.moveTo(found); err != nil || t.standsIn(of) {
				return false, err
			}
			return false, t.pass(of, row.place.tag)
		}
	}
	if !t.standsIn(of) {
		if err := t.pass(of, row.place.tag); err != nil {
			return false, err
		}
	}
	return t.givesUp(), nil
}

// standsIn reports whether a key is known to have its next item in a class.
func (t *fairTurns) standsIn(of fairKey) bool {
	return slices.ContainsFunc(t.moved, func(f *flow) bool { return f.key == of.key && f.place.class == of.class })
}

// moveTo gives a key that may have its next item the place where it is in turn.
func (t *fairTurns) moveTo(next *turn) error {
	at, err := t.placeOf(next.key, t.state.config.Fair.class(next.at.priority))
	if err != nil {
		return err
	}
	// Pushes may give the key a weight all the time, and pops would run again each time.
	weight, err := t.weightOf(t.snapshot, next.key, &next.settings)
	t.moved = append(t.moved, &flow{turn: next, place: at, cost: tagUnit / weight})
	return err
}

// reader returns what pops depend on. Peeks change nothing, and depend on nothing.
func (t *fairTurns) reader() kv.Reader {
	if t.remove {
		return t.tx
	}
	return t.snapshot
}

func (t *fairTurns) tag(row []byte) (*tag, error) {
	value, err := t.reader().Get(row)
	return &tag{at: int64(kv.DecodeInteger(value))}, err
}

func (t *fairTurns) virtualTime(class int64) (*tag, error) {
	var err error
	if t.virtual[class] == nil {
		t.virtual[class], err = t.tag(t.classPrefix(spaceClass, class))
	}
	return t.virtual[class], err
}

func (t *fairTurns) finishOf(of fairKey) (*tag, error) {
	var err error
	if t.finish[of] == nil {
		t.finish[of], err = t.tag(t.finishRow(of))
	}
	return t.finish[of], err
}

// placeOf is where a key is in turn.
func (t *fairTurns) placeOf(key string, class int64) (fairPlace, error) {
	now, err := t.virtualTime(class)
	if err != nil {
		return fairPlace{}, err
	}
	finish, err := t.finishOf(fairKey{class, key})
	return fairPlace{class: class, tag: max(now.at, finish.at), key: key}, err
}

// take selects the next item of a key.
func (t *fairTurns) take(f *flow) (done bool, err error) {
	selected := len(t.items)
	if done, err = t.selectNext(f.turn); err != nil {
		return false, err
	}
	if len(t.items) > selected {
		if err := t.serve(f.place, f.cost); err != nil {
			return false, err
		}
	}
	if t.remove {
		t.queueTx.keys.of(f.key).placed = true
	}
	if of := (fairKey{f.place.class, f.key}); t.finish[of].at > 0 {
		t.served[of] = true // its tag needs a row, wherever its next item is
	}
	if !f.ready {
		return done, nil
	}
	f.place, err = t.placeOf(f.key, t.state.config.Fair.class(f.at.priority))
	t.moved = append(t.moved, f)
	return done, err
}

// takePlain selects an item without a key.
func (t *fairTurns) takePlain(item entry, at fairPlace) (done bool, err error) {
	selected := len(t.items)
	if done, err = t.add(item); err == nil && len(t.items) > selected {
		err = t.serve(at, tagUnit)
	}
	return done, err
}

// serve moves virtual time and a key's tag on.
func (t *fairTurns) serve(at fairPlace, cost int64) error {
	now, err := t.virtualTime(at.class)
	if err != nil {
		return err
	}
	if at.tag > now.at {
		now.at, now.changed = at.tag, true
	}
	of := fairKey{at.class, at.key}
	finish, err := t.finishOf(of)
	if err != nil {
		return err
	}
	finish.at, finish.changed = at.tag+cost, true
	t.served[of] = true
	return nil
}

// pass forgets a key's tag in a class when virtual time has got there. A row at a lesser
// tag says nothing: each tag has a row.
func (t *fairTurns) pass(of fairKey, at int64) error {
	finish, err := t.finishOf(of)
	if err != nil || finish.at > at {
		return err
	}
	if finish.at > 0 {
		now, err := t.virtualTime(of.class)
		if err != nil {
			return err
		}
		if finish.at > now.at {
			now.at, now.changed = finish.at, true
		}
		finish.at, finish.changed = 0, true
	}
	delete(t.served, of)
	t.passed[of.class] = true
	return t.forgetWeight(of.key)
}

// forgetWeight clears the weight of a key that has no ready items.
func (t *fairTurns) forgetWeight(key string) error {
	if !t.remove || key == "" {
		return nil
	}
	row, err := t.tx.Get(t.weightRow(key))
	if err != nil || row == nil {
		return err
	}
	if _, ok, err := t.firstOfKey(t.snapshot, key); err != nil || ok {
		return err
	}
	t.tx.Clear(t.weightRow(key))
	return nil
}

// write writes where the keys stand now.
func (t *fairTurns) write() error {
	stand := make(map[fairPlace]bool) // whether it is a mark
	for of := range t.served {
		stand[fairPlace{of.class, t.finish[of].at, of.key}] = true
	}
	for _, f := range t.moved {
		stand[f.place] = false
	}
	for p, mark := range t.left {
		if is, stands := stand[p]; stands && is == mark {
			delete(stand, p)
			continue
		}
		row := t.fairRow(p)
		t.tx.Conflict(row) // a push may write it at the same time
		t.tx.Clear(row)
	}
	for p, mark := range stand {
		if mark {
			t.tx.Set(t.fairRow(p), isMark)
		} else {
			t.tx.Set(t.fairRow(p), nil)
		}
	}
	for of, finish := range t.finish {
		t.writeTag(t.finishRow(of), finish)
	}
	return t.writeClasses()
}

// writeTag writes a row that has changed. A tag of 0 needs none.
func (t *fairTurns) writeTag(row []byte, v *tag) {
	switch {
	case !v.changed:
	case v.at == 0:
		t.tx.Clear(row)
	default:
		t.tx.Set(row, kv.EncodeInteger(uint64(v.at)))
	}
}

// writeClasses writes the virtual times, and forgets those of classes without keys.
func (t *fairTurns) writeClasses() error {
	for class, now := range t.virtual {
		if t.passed[class] && now.at > 0 {
			begin, end := tuple.Range(t.classPrefix(spaceFairKey, class))
			rows, err := t.snapshot.Range(begin, end, kv.RangeOptions{Limit: 1})
			if err != nil {
				return err
			}
			if len(rows) == 0 {
				now.at, now.changed = 0, true
			}
		}
		t.writeTag(t.classPrefix(spaceClass, class), now)
	}
	return nil
}

// rowsAtOnce is how many rows one read gives at least: some of them may be marks.
const rowsAtOnce = 8

// fairEntry is a row of the fair order.
type fairEntry struct {
	place fairPlace
	mark  bool
}

// fairRows reads the rows of the fair order.
type fairRows struct {
	begin, end []byte
	entries    []fairEntry
	ended      bool
}

// first returns the first row that was not taken, nil when there is none.
func (r *fairRows) first(t *fairTurns, limit int) (*fairEntry, error) {
	if len(r.entries) == 0 && !r.ended {
		pairs, err := t.snapshot.Range(r.begin, r.end, kv.RangeOptions{Limit: limit})
		if err != nil {
			return nil, err
		}
		for _, pair := range pairs {
			p, err := t.parseFairRow(pair.Key)
			if err != nil {
				return nil, err
			}
			r.entries = append(r.entries, fairEntry{place: p, mark: len(pair.Value) > 0})
			r.begin = append(pair.Key, 0)
		}
		r.ended = len(pairs) == 0
	}
	if r.ended {
		return nil, nil
	}
	return &r.entries[0], nil
}

func (r *fairRows) take() fairEntry {
	first := r.entries[0]
	r.entries = r.entries[1:]
	return first
}
