package fdbpq

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Import is an item that goes back to the place it had, in this store or in
// another one, with all that is known about it.
type Import struct {
	ID       ID
	Priority int64 // another than the id's when the item was moved
	Payload  []byte
	Headers  []byte

	Pushed     time.Time // zero: now
	NotBefore  time.Time // not takeable before that; zero or past: ready
	Expires    time.Time // when its TTL is over; zero: never
	Deliveries int64
	Fence      int64
	Dead       *DeadLetter
}

// Imported tells what became of an Import.
type Imported struct {
	Seq   int64
	Found *StoredItem // an item with this id is there already, and stays as it is
	Err   error       // this item was refused, without effect on the others
}

var (
	// ErrOccupied: an item with another id stands where one was to be put.
	ErrOccupied = errors.New("the place is occupied by another item")

	// ErrPlace: an id names a place that no push could have given.
	ErrPlace = errors.New("no place in a queue")
)

const (
	// maxCount leaves room for pushes behind what was imported.
	maxCount = 1 << 62

	// maxTail is far beyond a count and the random part, ours or the recipe's.
	maxTail = 64
)

// Import puts items where they stood, and makes the queue if need be. Later
// pushes stand behind all of them. An item that is there already is left alone,
// so an import that was interrupted can be repeated. Neither max_length nor
// message ids concern it.
//
// Ids are taken on trust. Those that a store made never meet; two that somebody
// made up out of the same count and random part can.
func (q Queue) Import(tx kv.Tx, items ...Import) ([]Imported, error) {
	tx.Prefetch(queueRow(spaceState, q.name), queueRow(spaceHigh, q.name))
	p, err := q.admit(tx)
	if err != nil {
		return nil, err
	}
	free, err := p.vacant(items)
	if err != nil {
		return nil, err
	}
	results := make([]Imported, len(items))
	for i := range items {
		home := items[i].ID.place
		if results[i], err = p.restore(&items[i], free[home]); err != nil {
			return nil, err
		}
		// From here on only the rows themselves tell.
		delete(free, home)
		delete(free, place{priority: items[i].Priority, tail: home.tail})
	}
	if p.fences != 0 {
		tx.Set(p.prefix(spaceFence), kv.EncodeInteger(uint64(p.fences)))
	}
	p.finish()
	return results, nil
}

// vacant returns the places of items where nothing stands, if that can be told
// for all of them at once: by looking at the ranges they lie in, four reads
// instead of four for each. In a queue that is being filled there is nothing;
// otherwise each place is looked at by itself. The commit depends on the places
// alone.
func (p *pusher) vacant(items []Import) (map[place]bool, error) {
	free := make(map[place]bool, len(items))
	if len(items) < 2 {
		return free, nil
	}
	for _, space := range spaces {
		var first, last []byte
		for i := range items {
			key := items[i].ID.place.append(bytes.Clone(p.prefix(space)))
			if first == nil || bytes.Compare(key, first) < 0 {
				first = key
			}
			if last == nil || bytes.Compare(key, last) > 0 {
				last = key
			}
		}
		found, err := p.past.Range(first, append(last, 0), kv.RangeOptions{Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(found) > 0 {
			for i := range items {
				p.tx.Prefetch(p.rowKeys(p.state, items[i].ID.place)...)
			}
			return free, nil
		}
	}
	for i := range items {
		for _, key := range p.rowKeys(p.state, items[i].ID.place) {
			p.tx.Conflict(key)
		}
		free[items[i].ID.place] = true
	}
	return free, nil
}

// restore puts one item where it stood; free says that nothing stands at the
// place in its id, nor a row that leads elsewhere.
func (p *pusher) restore(item *Import, free bool) (Imported, error) {
	seq, err := p.possible(item)
	if err != nil {
		return Imported{Err: err}, nil
	}
	at := place{priority: item.Priority, tail: item.ID.place.tail}
	there, err := p.meet(item, at, free)
	if err != nil {
		if errors.Is(err, ErrOccupied) {
			return Imported{Err: err}, nil
		}
		return Imported{}, err
	}
	if there != nil {
		held, err := p.held(p.tx, p.state, there, true)
		return Imported{Seq: seq, Found: held}, err
	}
	e := envelope{
		pushed: p.pushed, home: item.ID.place.priority,
		deliveries: item.Deliveries, fence: max(item.Fence, item.Deliveries),
	}
	if !item.Pushed.IsZero() {
		e.pushed = item.Pushed.UnixNano()
	}
	if err := p.storeContent(&e, at, item.Headers, item.Payload); err != nil {
		return Imported{Err: err}, nil
	}
	if err := p.accept(); err != nil {
		return Imported{}, err
	}
	if e.floor, err = p.floor(e.fence); err != nil {
		return Imported{}, err
	}
	if item.Dead != nil && *item.Dead != (DeadLetter{}) {
		e.dead = *item.Dead
	}
	due, err := p.times(item, &e)
	if err != nil {
		return Imported{}, err
	}
	p.relocate(item.ID.place, &e, at.priority)
	p.count = max(p.count, seq)
	p.tally.bytes += e.size
	if due != 0 {
		p.addDelayed(at, due, &e)
	} else {
		p.addReady(at, &e)
	}
	return Imported{Seq: seq}, nil
}

// possible says why an item may not be imported, and otherwise its place in
// push order.
func (p *pusher) possible(item *Import) (seq int64, err error) {
	seq, err = item.ID.place.count()
	if err != nil || seq < 0 || seq > maxCount || len(item.ID.place.tail) > maxTail {
		return 0, fmt.Errorf("%w: the id %s", ErrPlace, item.ID)
	}
	if !item.Pushed.IsZero() && !time.Unix(0, item.Pushed.UnixNano()).Equal(item.Pushed) {
		return 0, fmt.Errorf("%w: pushed at %s, expected a time in the years from 1678 to 2262", ErrTime, item.Pushed.Format(time.RFC3339))
	}
	for _, n := range []int64{item.Deliveries, item.Fence} {
		if n < 0 || n > maxCount {
			return 0, fmt.Errorf("%w: deliveries %d and fence %d, allowed are 0 to %d", ErrPlace, item.Deliveries, item.Fence, maxCount)
		}
	}
	wall := p.store.clock.wall()
	for _, t := range []time.Time{item.NotBefore, item.Expires} {
		if !t.IsZero() && t.Sub(wall) > MaxDelay {
			return 0, fmt.Errorf("%w: %s from now, allowed are up to %s", ErrTime, t.Sub(wall), MaxDelay)
		}
	}
	return seq, nil
}

// maxLeases is more than an item has leases before two processes agree on the
// time.
const maxLeases = 1 << 20

// floor returns what the next fence of an imported item is at least. The item may
// have been here before, and been leased any number of times since it was
// exported; a fence given twice would be one right in two hands. So it is higher
// than the time in microseconds, which is more than leases can count up to, and
// than all that imports have been promised before.
func (p *pusher) floor(fence int64) (int64, error) {
	if p.fences == 0 {
		last, err := p.tx.Get(p.prefix(spaceFence))
		if err != nil {
			return 0, err
		}
		now, err := p.now()
		if err != nil {
			return 0, err
		}
		p.fences = max(now/int64(time.Microsecond), int64(kv.DecodeInteger(last))+maxLeases)
	}
	p.fences = max(p.fences, fence+1)
	return p.fences, nil
}

// meet returns the item with this id, nil when there is none, and ErrOccupied
// when its place or the rows of its payload are another one's.
func (p *pusher) meet(item *Import, at place, free bool) (*located, error) {
	if !free {
		there, err := p.locate(p.tx, p.state, item.ID)
		if err != nil {
			return nil, err
		}
		if there != nil {
			if there.home != item.ID.place.priority {
				return nil, ErrOccupied
			}
			return there, nil
		}
	}
	var keys [][]byte
	if at != item.ID.place {
		keys = p.rowKeys(p.state, at)[:3]
	}
	if len(item.Headers)+len(item.Payload) > maxInline {
		keys = append(keys, appendChunkKey(p.prefix(spaceChunk), at, 0))
	}
	if len(keys) == 0 {
		return nil, nil
	}
	rows, err := p.tx.GetAll(keys)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if row != nil {
			return nil, ErrOccupied
		}
	}
	return nil, nil
}

// times sets when the item expires and returns when it becomes ready, 0 for at
// once.
func (p *pusher) times(item *Import, e *envelope) (due int64, err error) {
	if item.NotBefore.IsZero() && item.Expires.IsZero() {
		return 0, nil
	}
	now, err := p.now()
	if err != nil {
		return 0, err
	}
	wall := p.store.clock.wall()
	if !item.Expires.IsZero() {
		e.expires = now + int64(max(0, item.Expires.Sub(wall)))
	}
	if !item.NotBefore.IsZero() && item.NotBefore.After(wall) {
		due = now + int64(item.NotBefore.Sub(wall))
	}
	return due, nil
}
