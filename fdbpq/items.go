package fdbpq

import (
	"bytes"
	"errors"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Get returns an item by its id, whatever its state, nil for an unknown id.
func (q Queue) Get(r kv.Reader, id ID) (*StoredItem, error) {
	qtx, err := q.view(r)
	if err != nil || qtx == nil {
		return nil, err
	}
	l, err := qtx.locate(r, id)
	if err != nil || l == nil {
		return nil, err
	}
	stored, err := qtx.contents.stored(r, l, whole)
	if err != nil {
		return nil, err
	}
	if stored.WaitsFor, err = qtx.keyInfos.waitsFor(l); err != nil {
		return nil, err
	}
	stored.KeyAhead, err = qtx.keyInfos.ahead(l)
	return stored, err
}

// Move changes the priority of an item and reports whether there was one. The item
// keeps its id, and its push order among items of the same priority. A leased item
// moves when its lease ends and it returns to the queue.
func (q Queue) Move(tx kv.Tx, id ID, priority int64) (bool, error) {
	qtx, l, err := q.beginWithItem(tx, id)
	if err != nil || l == nil {
		return false, err
	}
	qtx.move(l, priority)
	return true, qtx.done()
}

// Listing selects a page of a queue's items.
type Listing struct {
	State  State  // of the items; "": ready items
	Key    string // of the items, with State ready; "": all keys
	Holder string // of the items, with State leased; "": all holders. A page looks at up to MaxBatch leases
	Band   *Band  // of their priorities; nil: all
	After  *ID    // start after this item; nil: from the beginning
	Limit  int    // items at most; 1 to MaxBatch
	Bodies bool   // with payloads

	// Preview is how many bytes of each payload a page without bodies has, from its beginning.
	Preview int64
}

// Page is a page of items in their order.
type Page struct {
	Items []StoredItem
	More  bool // there are items after the last one
	Last  ID   // of the items that the page looked at
}

// listOfKey is how many items of one key are read at once: each may be maxInline bytes long.
const listOfKey = 100

// previewsApart is how many large payloads of a page are begun: each takes a read of up to layout.ChunkSize. The others are
// no longer than layout.MaxInline.
const previewsApart = 16

// ErrListKey refuses a list by key of leased or delayed items.
var ErrListKey = errors.New("a list by key has ready items alone")

// ErrListHolder refuses a list by holder of ready or delayed items.
var ErrListHolder = errors.New("a list by holder has leased items alone")

var errState = errors.New(`unknown state: expected "ready", "leased" or "delayed"`)

// List returns a page of the queue's items and removes nothing.
func (q Queue) List(r kv.Reader, listing Listing) (Page, error) {
	if listing.Limit < 1 || listing.Limit > MaxBatch {
		return Page{}, errLimit
	}
	space, ok := map[State]string{
		"": layout.SpaceReady, StateReady: layout.SpaceReady, StateLeased: layout.SpaceLeased, StateDelayed: layout.SpaceDelayed,
	}[listing.State]
	if !ok {
		return Page{}, errState
	}
	if listing.Key != "" {
		if err := CheckKey(listing.Key); err != nil {
			return Page{}, err
		}
		if space != layout.SpaceReady {
			return Page{}, ErrListKey
		}
	}
	if listing.Holder != "" && space != layout.SpaceLeased {
		return Page{}, ErrListHolder
	}
	qtx, err := q.view(r)
	if err != nil {
		return Page{}, err
	}
	if qtx == nil {
		return Page{}, ErrNoQueue
	}
	var behind *layout.Place
	if listing.After != nil {
		at := listing.After.place
		l, err := qtx.locate(r, *listing.After)
		if err != nil {
			return Page{}, err
		}
		if l != nil {
			at = l.Place
		}
		behind = &at
	}
	next := qtx.lists.items(r, space, listing.Key, listing.Band, behind)
	return qtx.lists.page(space, next, listing)
}

// lists is how a queue lists its items.
type lists struct{ *queueRows }

// items returns the items of one state in their order, behind a place if it is given: of one band or of all
// priorities, of one key or of all keys. A key has rows that lead to its ready items alone.
func (ls lists) items(r kv.Reader, space, key string, of *Band, behind *layout.Place) nextEntries {
	band := AllPriorities
	if of != nil {
		band = *of
	}
	in := func(space string) *scan { return scanOf(ls.name, r, ls.state, space, Min, band, "").behind(behind) }
	switch {
	case key != "" && space == layout.SpaceReady:
		return ls.itemsAt(scanIn(r, ls.rowsOfKey(layout.SpaceKeyReady, key), Min, band, "").behind(behind))
	case space == layout.SpaceReady && ls.state.keyed:
		return merged(func(a, b layout.Place) bool { return a.Compare(b) < 0 }, in(layout.SpaceReady).next, in(layout.SpaceKeyed).next)
	}
	return in(space).next
}

// itemsAt returns the ready items with keys whose places a scan finds.
func (ls lists) itemsAt(places *scan) nextEntries {
	return func(limit, _ int) ([]entry, error) {
		entries, err := places.next(min(limit, listOfKey), 0)
		if err != nil {
			return nil, err
		}
		keys := make([][]byte, len(entries))
		for i, e := range entries {
			keys[i] = bytes.Clone(ls.key(layout.SpaceKeyed, e.place))
		}
		rows, err := ls.snapshot.GetAll(keys)
		if err != nil {
			return nil, err
		}
		for i, row := range rows {
			if row == nil {
				return nil, errors.New("damaged key: a ready item is missing")
			}
			entries[i].value = row
		}
		return entries, nil
	}
}

// page reads one page of a space. It ends early when the content that it reads reaches
// MaxBatchBytes.
func (ls lists) page(space string, next nextEntries, listing Listing) (Page, error) {
	most := listing.Limit // rows
	if listing.Holder != "" {
		most = MaxBatch
	}
	entries, err := next(most+1, MaxBatchBytes)
	if err != nil {
		return Page{}, err
	}
	var page Page
	size, apart := int64(0), 0
	for i, entry := range entries {
		l, err := layout.ParseItem(space, entry.value, entry.place)
		if err != nil {
			return Page{}, err
		}
		if i == most {
			page.More = true
			break
		}
		if listing.Holder != "" && l.Holder != listing.Holder {
			page.Last = idOf(l)
			continue
		}
		payload, read := listing.Preview, l.HeaderSize
		switch {
		case listing.Bodies:
			payload, read = whole, l.Size
		case l.Size <= layout.MaxInline && l.Chunks > 0 && read+payload > 0:
			read = l.Size // in one row
		case payload > 0 && l.Size > layout.MaxInline:
			if apart++; apart > previewsApart {
				payload = 0
			}
		}
		size += read
		if n := len(page.Items); n == listing.Limit || n > 0 && size > MaxBatchBytes {
			page.More = true
			break
		}
		stored, err := ls.contents.stored(ls.snapshot, l, payload)
		if err != nil {
			return Page{}, err
		}
		page.Items = append(page.Items, *stored)
		page.Last = stored.ID
	}
	if !page.More && len(entries) > 0 {
		rest, err := next(1, 0)
		if err != nil {
			return Page{}, err
		}
		page.More = len(rest) > 0
	}
	return page, nil
}
