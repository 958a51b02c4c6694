package fdbpq

import (
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Inspection is the state of a queue at a glance.
type Inspection struct {
	Counts
	Config         Config
	MaxBytes       int64 // what Config and Options allow together; 0: no limit
	MaxResultBytes int64 // likewise, of results
	Paused         bool

	Keyed     bool // items of the queue have had keys
	FairReady bool // all keys stand in the order of Config.Fair, and pops go by it

	KeysSet   int64 // keys that have settings of their own
	KeysOwing int64 // keys that have not all tokens of their rate, as far as they are remembered

	CostTokens int64 // that the cost rate allows now, negative if the queue owes some

	Next *Item // that pop.min would return; nil: it would find no item

	queue *queueRows // see Explain
}

// Inspect returns the state of the queue, nil when there is no such queue.
func (q Queue) Inspect(r kv.Reader) (*Inspection, error) {
	qtx, err := q.view(r)
	if err != nil || qtx == nil {
		return nil, err
	}
	s := qtx.state
	i := &Inspection{
		Config: s.config, MaxBytes: q.store.maxBytes(&s.config), MaxResultBytes: q.store.maxResultBytes(&s.config),
		Paused: s.paused, Keyed: s.keyed, FairReady: s.fairBuilt, KeysSet: s.keysSet, queue: &qtx.queueRows,
	}
	if i.Counts, err = usageWithResults(&qtx.queueRows, r); err != nil {
		return nil, err
	}
	if i.KeysOwing, err = keysOwing(q.name, r); err != nil {
		return nil, err
	}
	if i.CostTokens, err = qtx.rates.costTokens(); err != nil {
		return nil, err
	}
	found := collector{
		queueRows: &qtx.queueRows,
		sel:       Selection{End: Min, Band: &AllPriorities, Limit: 1, MaxBytes: 1},
	}
	if err := found.run(); err != nil {
		return nil, err
	}
	for _, f := range found.items {
		item, err := itemOf(&f)
		if err != nil {
			return nil, err
		}
		i.Next = &item
	}
	return i, nil
}

// Oldest is the ready item that was pushed first, as far as a few reads tell.
type Oldest struct {
	Pushed  time.Time // the zero time: no item is ready
	AtLeast bool      // not all priorities were looked at: another item may be older
}

// OldestReady returns the oldest ready item of all priorities. The items of a priority
// lie in the order of their pushes, so it looks at the first of each, from both ends in
// turns, and at no more priorities than most. Dead letters and imported items lie in the
// order in which they came to this queue, so an older one may lie behind the first.
func (q Queue) OldestReady(r kv.Reader, most int) (Oldest, error) {
	s, err := q.readState(r)
	if err != nil || s == nil {
		return Oldest{}, err
	}
	oldest, err := oldestIn(q.name, r, s, layout.SpaceReady, most)
	if err != nil || !s.keyed {
		return oldest, err
	}
	keyed, err := oldestIn(q.name, r, s, layout.SpaceKeyed, most)
	if !keyed.Pushed.IsZero() && (oldest.Pushed.IsZero() || keyed.Pushed.Before(oldest.Pushed)) {
		oldest.Pushed = keyed.Pushed
	}
	oldest.AtLeast = oldest.AtLeast || keyed.AtLeast
	return oldest, err
}

func oldestIn(queue string, r kv.Reader, s *queueState, space string, most int) (Oldest, error) {
	heads := heads{scan: scanOf(queue, r, s, space, Min, AllPriorities, "")}
	var oldest Oldest
	for looks := 0; ; looks++ {
		if looks == most {
			left, err := heads.any()
			oldest.AtLeast = left
			return oldest, err
		}
		next := heads.first
		if looks%2 == 1 {
			next = heads.last
		}
		head, err := next()
		if err != nil || head == nil {
			return oldest, err
		}
		e, err := layout.ParseEnvelope(head.value, head.place)
		if err != nil {
			return oldest, err
		}
		pushed := time.Unix(0, e.PushedAt)
		if !e.Foreign && (oldest.Pushed.IsZero() || pushed.Before(oldest.Pushed)) { // others have no time
			oldest.Pushed = pushed
		}
	}
}

// heads finds the first item of each priority in a space, from both ends. Each priority
// is found once.
type heads struct{ *scan }

// any reports whether a priority is left.
func (h heads) any() (bool, error) {
	pairs, err := h.r.Range(h.begin, h.end, kv.RangeOptions{Limit: 1})
	return len(pairs) > 0, err
}

// first returns the head of the lowest priority that is left, nil behind the last priority.
func (h heads) first() (*entry, error) {
	head, err := h.one(h.begin, h.end)
	if head != nil {
		h.begin = append(h.level(head.place.Priority), 0xff)
	}
	return head, err
}

// last returns the head of the highest priority that is left, nil behind the last priority.
func (h heads) last() (*entry, error) {
	highest := scan{r: h.r, prefix: h.prefix, begin: h.begin, end: h.end, reverse: true}
	found, err := highest.next(1, 0)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	level := h.level(found[0].place.Priority)
	head, err := h.one(level, h.end)
	h.end = level
	return head, err
}

// one returns the first entry of a range.
func (h heads) one(begin, end []byte) (*entry, error) {
	found, err := (&scan{r: h.r, prefix: h.prefix, begin: begin, end: end}).next(1, 0)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// level is where the keys of a priority begin.
func (h heads) level(priority int64) []byte {
	return tuple.AppendInt(h.begin[:h.prefix:h.prefix], priority)
}

// OldestLease is the lease that began first, as far as a few reads tell.
type OldestLease struct {
	Age     time.Duration // 0: not known
	AtLeast bool          // not all leases were looked at: another lease may be older
	Latest  time.Duration // how long ago the latest lease began, of the leases that were looked at; 0: not known

	// Of the lease, if Age is not 0.
	Item       ID
	Holder     string // name that its holder gave itself, which may be empty
	Since, Due int64  // store times

	Dying *ID // an item that is dead, and waits for room to become a dead letter; nil: none was found

	ofKeys map[string]*layout.Item // the oldest leased item of each key, where keys are limited; see Explain
}

// leaseBytes bounds the rows of leased items that are read for the oldest lease: they may
// have the content of the items.
const leaseBytes = 256 << 10

// OldestLease returns how long the oldest lease and the latest one have lasted, extensions included. It looks
// at no more leases than most, in the order of the items.
func (q Queue) OldestLease(r kv.Reader, most int) (oldest OldestLease, err error) {
	s, err := q.readState(r)
	if err != nil || s == nil {
		return oldest, err
	}
	now, err := q.store.inside.Clock.At(r)
	if err != nil {
		return oldest, err
	}
	leased := scanOf(q.name, r, s, layout.SpaceLeased, Min, AllPriorities, "")
	entries, err := leased.next(most, leaseBytes)
	if err != nil {
		return oldest, err
	}
	for _, entry := range entries {
		l, err := layout.ParseItem(layout.SpaceLeased, entry.value, entry.place)
		if err != nil {
			return oldest, err
		}
		if l.Dying() {
			if oldest.Dying == nil {
				oldest.Dying = new(idOf(l))
			}
			continue
		}
		if l.Key != "" && s.keyLimited() {
			if oldest.ofKeys == nil {
				oldest.ofKeys = make(map[string]*layout.Item)
			}
			oldest.ofKeys[l.Key] = longer(oldest.ofKeys[l.Key], l)
		}
		age := time.Duration(now - l.Since)
		if l.Held() || age <= 0 {
			continue
		}
		if oldest.Latest == 0 || age < oldest.Latest {
			oldest.Latest = age
		}
		if age > oldest.Age {
			oldest.Age, oldest.Item, oldest.Holder, oldest.Since, oldest.Due = age, idOf(l), l.Holder, l.Since, l.Due
		}
	}
	oldest.AtLeast, err = heads{leased}.any()
	return oldest, err
}

// longer returns the item of the two that holds their key for longer.
func longer(a, b *layout.Item) *layout.Item {
	switch {
	case a == nil, b.State == layout.StateLeased && a.State != layout.StateLeased:
		return b
	case a.State == layout.StateLeased && b.State == layout.StateLeased && b.Since < a.Since:
		return b
	}
	return a
}
