package fdbpq

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Import is an item to be put back at its place, in this store or in another one.
type Import struct {
	ID       ID    // zero: of an item with a unique value, which gets the place behind all of its priority
	Priority int64 // differs from the id's when the item was moved
	Payload  []byte
	Headers  []byte

	Pushed     time.Time // zero: now
	NotBefore  time.Time // delayed until then; zero or past: ready
	Expires    time.Time // end of its TTL; zero: never
	Deliveries int64     // failures are all that are neither Interruptions nor Returns
	Endings
	Fence    int64
	Dead     *DeadLetter
	Key      string
	KeyFence int64 // of an item with a key; later leases of the key get higher ones

	Attempts []Attempt // the oldest first; the last ones are kept

	ResultTTL time.Duration // as in NewItem
	Cost      int64         // as in NewItem

	Progress   string    // as Report has it
	ProgressAt time.Time // zero: not known

	Unique            string // ErrOccupied if another item has this value; without an id it stays as it is
	UniqueUntilLeased bool
}

// Imported is the result of an Import.
type Imported struct {
	ID    ID
	Seq   int64
	Found *StoredItem // the item that was there already: with this id, or, if none was given, with the unique value
	Err   error       // this item was refused, without effect on the others

	Events []Event // of an item with the same unique value that was past its TTL
}

var (
	// ErrOccupied: the place of the item, or its unique value, is taken by an item with another id.
	ErrOccupied = errors.New("the place is occupied by another item")

	// ErrPlace: no push could have assigned the place in the id.
	ErrPlace = errors.New("not a place in a queue")
)

const (
	// maxEndings leaves room for their sum.
	maxEndings = maxCount / 4

	// maxTail is more than a count and a random part need, ours or the recipe's.
	maxTail = 64
)

// Import puts items back at their places, and makes the queue if need be. Later
// pushes come behind them. Import leaves an item alone that is there already, so an
// interrupted import can be repeated. It ignores max_length and message ids.
//
// Ids are trusted. Ids that a store made never collide; forged ones with the same
// count and random part do.
func (q Queue) Import(tx kv.Tx, items ...Import) ([]Imported, error) {
	tx.Prefetch(layout.QueueRow(layout.SpaceState, q.name), layout.QueueRow(layout.SpaceHigh, q.name))
	var p importer
	err := q.openForPush(tx, &p.pusher)
	if err == nil {
		err = p.findFree(items)
	}
	if err != nil {
		return nil, err
	}
	for i := range items {
		if items[i].ID == (ID{}) {
			tx.Prefetch(p.unique.row(items[i].Unique))
		}
	}
	results := make([]Imported, len(items))
	for i := range items {
		item := items[i]
		home := item.ID.place
		if item.ID == (ID{}) {
			results[i], err = p.importNew(&item)
		} else {
			results[i], err = p.importItem(&item)
		}
		if err != nil {
			return nil, err
		}
		results[i].Events = p.happened()
		// These places may be occupied from here on: read their rows.
		delete(p.free, home)
		delete(p.free, layout.Place{Priority: item.Priority, Suffix: home.Suffix})
	}
	if p.assigned.promisedFence != 0 {
		tx.Set(p.prefix(layout.SpaceFence), kv.EncodeInteger(uint64(p.assigned.promisedFence)))
		p.assigned.promisedFence = 0 // an item that the transaction leases and removes may come back in it
	}
	return results, p.done()
}

// importer puts items back at their places within one transaction.
type importer struct {
	pusher
	free map[layout.Place]bool // places that have neither an item nor a forwarding row, as far as findFree has found them
}

// findFree finds the places of items that are free. It reads the ranges that
// contain all of the places, with four reads instead of four for each item. That
// suffices in a queue that is being filled; when a range has any rows, it finds no
// place, and each is read by itself. The commit need not depend on what was read: only
// another import could take one of the places, and imports of one queue conflict in the
// row of the highest fence.
func (p *importer) findFree(items []Import) error {
	p.free = make(map[layout.Place]bool, len(items))
	items = slices.DeleteFunc(slices.Clone(items), func(i Import) bool { return i.ID == ID{} })
	if len(items) < 2 {
		return nil
	}
	for _, space := range append(p.state.itemSpaces(), layout.SpaceForward) {
		var first, last []byte
		for i := range items {
			key := items[i].ID.place.Append(p.prefix(space))
			if first == nil || bytes.Compare(key, first) < 0 {
				first = key
			}
			if last == nil || bytes.Compare(key, last) > 0 {
				last = key
			}
		}
		found, err := p.snapshot.Range(first, append(last, 0), kv.RangeOptions{Limit: 1})
		if err != nil {
			return err
		}
		if len(found) > 0 {
			for i := range items {
				p.tx.Prefetch(p.rowsAt(items[i].ID.place)...)
			}
			return nil
		}
	}
	for i := range items {
		p.free[items[i].ID.place] = true
	}
	return nil
}

// importItem puts one item back at its place.
func (p *importer) importItem(item *Import) (Imported, error) {
	seq, err := p.checkImport(item)
	if err == nil {
		err = p.fences.check(item.Key, item.KeyFence)
	}
	if err != nil {
		return Imported{Err: err}, nil
	}
	at := layout.Place{Priority: item.Priority, Suffix: item.ID.place.Suffix}
	there, err := p.existing(item, at)
	if err == nil && there == nil && item.Unique != "" {
		err = p.unclaimed(item.Unique)
	}
	if err != nil {
		if errors.Is(err, ErrOccupied) {
			return Imported{Err: err}, nil
		}
		return Imported{}, err
	}
	if there != nil {
		stored, err := p.contents.stored(p.tx, there, whole)
		return Imported{ID: item.ID, Seq: seq, Found: stored}, err
	}
	return p.put(item, at, seq)
}

// importNew gives an item without an id a place, unless an item with its unique value is there.
func (p *importer) importNew(item *Import) (Imported, error) {
	if item.Unique == "" {
		return Imported{Err: fmt.Errorf("%w is missing: expected it, or an id", ErrUnique)}, nil
	}
	seq := p.assigned.count + 1
	item.ID = ID{layout.Place{Priority: item.Priority, Suffix: layout.NewSuffix(seq)}}
	if _, err := p.checkImport(item); err != nil {
		return Imported{Err: err}, nil
	}
	if err := p.fences.check(item.Key, item.KeyFence); err != nil {
		return Imported{Err: err}, nil
	}
	there, err := p.claimant(item.Unique, nil)
	if err != nil {
		return Imported{}, err
	}
	if there == nil {
		return p.put(item, item.ID.place, seq)
	}
	stored, err := p.contents.stored(p.tx, there, whole)
	if err != nil {
		return Imported{}, err
	}
	seq, err = there.Place.Count()
	return Imported{ID: stored.ID, Seq: seq, Found: stored}, err
}

// put puts an item at a place that is free.
func (p *importer) put(item *Import, at layout.Place, seq int64) (Imported, error) {
	if p.full != nil {
		return Imported{Err: p.full}, nil
	}
	e := layout.Envelope{
		PushedAt: p.pushed, IDPriority: item.ID.place.Priority, Dead: item.died(),
		Tries: item.tries(), Fence: max(item.Fence, item.tries()+item.Interruptions+item.Returns),
		Unique: item.Unique, UntilLeased: item.UniqueUntilLeased, Key: item.Key, KeyFence: item.KeyFence,
		Past:    layout.Past{Attempts: string(packAttempts(item.Attempts, p.state.config.Attempts))},
		Endings: layout.Endings{Interruptions: item.Interruptions, Returns: item.Returns},
		Asks:    asksFor(item.ResultTTL), Cost: storedCost(item.Cost),
	}
	setProgress(&e.Past, item.Progress, item.ProgressAt)
	if !item.Pushed.IsZero() {
		e.PushedAt = item.Pushed.UnixNano()
	}
	if err := p.contents.write(&e, at, item.Headers, item.Payload); err != nil {
		return Imported{Err: err}, nil
	}
	err := p.prepare(&e)
	if err == nil {
		e.MinFence, err = p.nextMinFence(e.Fence)
	}
	if err != nil {
		return Imported{}, err
	}
	if item.KeyFence > 0 {
		if err := p.fences.imported(item.Key, item.KeyFence); err != nil {
			return Imported{}, err
		}
	}
	due, err := p.importTimes(item, &e)
	if err != nil {
		return Imported{}, err
	}
	if err := p.results.clear(at.Suffix); err != nil { // of the item, when it was here before
		return Imported{}, err
	}
	p.issue(seq)
	l := layout.ReadyItem(at, e)
	p.enter(l.From(due))
	return Imported{ID: item.ID, Seq: seq}, nil
}

// tries are the deliveries of the item that count as failures.
func (item *Import) tries() int64 {
	return max(item.Failures, item.Deliveries-item.Interruptions-item.Returns)
}

// checkImport returns an error when the item may not be imported, and otherwise its
// number in push order.
func (p *importer) checkImport(item *Import) (seq int64, err error) {
	seq, err = item.ID.place.Count()
	if err != nil || seq < 0 || seq > maxCount || len(item.ID.place.Suffix) > maxTail {
		return 0, fmt.Errorf("%w: the id %s", ErrPlace, item.ID)
	}
	dead := item.died()
	for what, t := range map[string]time.Time{"pushed": item.Pushed, "dead": dead.At, "progress": item.ProgressAt} {
		if !t.IsZero() && !time.Unix(0, t.UnixNano()).Equal(t) {
			return 0, fmt.Errorf("%w: %s at %s, expected a time in the years from 1678 to 2262", ErrTime, what, t.Format(time.RFC3339))
		}
	}
	for _, n := range []int64{item.Deliveries, item.Fence, dead.Deliveries} {
		if n < 0 || n > maxCount {
			return 0, fmt.Errorf("%w: %d deliveries or leases, allowed are 0 to %d", ErrPlace, n, maxCount)
		}
	}
	for _, n := range []int64{item.Failures, item.Interruptions, item.Returns, dead.Interruptions} {
		if n < 0 || n > maxEndings {
			return 0, fmt.Errorf("%w: %d failures, interruptions or returns, allowed are 0 to %d", ErrPlace, n, maxEndings)
		}
	}
	if err := cmp.Or(CheckKey(item.Key), checkAttempts(item.Attempts), checkResultTTL(item.ResultTTL), checkItemCost(item.Cost)); err != nil {
		return 0, err
	}
	wall := p.store.inside.Clock.Wall()
	for _, t := range []time.Time{item.NotBefore, item.Expires} {
		if !t.IsZero() && t.Sub(wall) > MaxDelay {
			return 0, fmt.Errorf("%w: %s from now, allowed are up to %s", ErrTime, t.Sub(wall), MaxDelay)
		}
	}
	if item.Progress != "" {
		if err := CheckProgress(item.Progress); err != nil {
			return 0, err
		}
	}
	return seq, nil
}

// maxLeases is more leases than an item gets before the clocks of two processes
// agree.
const maxLeases = 1 << 20

// nextMinFence returns a lower bound of the imported item's next fence. The item may
// have been in this queue before and been leased since it was exported, and two
// leases with one fence would both be valid. So the bound exceeds the store time in
// microseconds, which counts faster than leases can, and the bounds of all earlier
// imports.
func (p *importer) nextMinFence(fence int64) (int64, error) {
	if p.assigned.promisedFence == 0 {
		last, err := p.tx.Get(p.prefix(layout.SpaceFence))
		if err != nil {
			return 0, err
		}
		now, err := p.now()
		if err != nil {
			return 0, err
		}
		p.assigned.promisedFence = max(now/int64(time.Microsecond), int64(kv.DecodeInteger(last))+maxLeases)
	}
	p.assigned.promisedFence = max(p.assigned.promisedFence, fence+1)
	return p.assigned.promisedFence, nil
}

// existing returns the item with this id, nil if the place is free, and ErrOccupied
// if another item has the place or the rows of the payload.
func (p *importer) existing(item *Import, at layout.Place) (*layout.Item, error) {
	if !p.free[item.ID.place] {
		there, err := p.locate(p.tx, item.ID)
		if err != nil {
			return nil, err
		}
		if there != nil {
			if there.IDPriority != item.ID.place.Priority {
				return nil, ErrOccupied
			}
			return there, nil
		}
	}
	var keys [][]byte
	if at != item.ID.place {
		keys = p.rowsAt(at)
		keys = keys[:len(keys)-1]
	}
	if isApart(p.transaction, int64(len(item.Headers)+len(item.Payload))) {
		keys = append(keys, layout.AppendChunkKey(p.prefix(layout.SpaceChunk), at, 0))
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

// importTimes sets the end of the item's TTL and returns the end of its delay, 0 without a delay.
func (p *importer) importTimes(item *Import, e *layout.Envelope) (due int64, err error) {
	if item.NotBefore.IsZero() && item.Expires.IsZero() {
		return 0, nil
	}
	now, err := p.now()
	if err != nil {
		return 0, err
	}
	wall := p.store.inside.Clock.Wall()
	if !item.Expires.IsZero() {
		e.Expires = now + int64(max(0, item.Expires.Sub(wall)))
	}
	if !item.NotBefore.IsZero() && item.NotBefore.After(wall) {
		due = now + int64(item.NotBefore.Sub(wall))
	}
	return due, nil
}

// unclaimed returns ErrOccupied if a living item has a unique value.
func (p *importer) unclaimed(value string) error {
	living, err := p.claimant(value, nil)
	if err == nil && living != nil {
		err = fmt.Errorf("%w: %s has the unique value %q", ErrOccupied, idOf(living), value)
	}
	return err
}

// died is how an imported dead letter died, the zero death for other items.
func (item *Import) died() (d layout.Death) {
	if item.Dead != nil {
		d = layout.Death(*item.Dead)
	}
	return d
}
