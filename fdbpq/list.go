package fdbpq

import (
	"bytes"
	"errors"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Listing selects a page of a queue's items.
type Listing struct {
	State  State  // of the items; "": ready items
	Key    string // of the items, which are ready ones then; "": all items
	Holder string // of the items, which are leased ones then; "": all items. A page looks at up to MaxBatch leases
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

// previewsApart is how many payloads of a page that have rows of their own are begun: each
// takes a read of up to chunkSize.
const previewsApart = 16

// ErrListKey refuses a list of one key whose items are not ready ones.
var ErrListKey = errors.New("items of one key are listed that are ready")

// ErrListHolder refuses a list of one holder whose items are not leased ones.
var ErrListHolder = errors.New("items of one holder are listed that are leased")

var errState = errors.New(`unknown state: expected "ready", "leased" or "delayed"`)

// List returns a page of the queue's items and removes nothing.
func (q Queue) List(r kv.Reader, listing Listing) (Page, error) {
	if listing.Limit < 1 || listing.Limit > MaxBatch {
		return Page{}, errLimit
	}
	space, ok := map[State]string{"": spaceReady, StateReady: spaceReady, StateLeased: spaceLeased, StateDelayed: spaceDelayed}[listing.State]
	if !ok {
		return Page{}, errState
	}
	if listing.Key != "" {
		if err := CheckKey(listing.Key); err != nil {
			return Page{}, err
		}
		if space != spaceReady {
			return Page{}, ErrListKey
		}
	}
	if listing.Holder != "" && space != spaceLeased {
		return Page{}, ErrListHolder
	}
	qtx, err := q.view(r)
	if err != nil {
		return Page{}, err
	}
	if qtx == nil {
		return Page{}, ErrNoQueue
	}
	s := qtx.state
	band := AllPriorities
	if listing.Band != nil {
		band = *listing.Band
	}
	var behind *place
	if listing.After != nil {
		at := listing.After.place
		l, err := qtx.locate(r, *listing.After)
		if err != nil {
			return Page{}, err
		}
		if l != nil {
			at = l.place
		}
		behind = &at
	}
	in := func(space string) *scan { return scanOf(q.name, r, s, space, Min, band, "").behind(behind) }
	next := nextEntries(in(space).next)
	switch {
	case listing.Key != "":
		next = keyIndex{qtx}.itemsAt(scanIn(r, keyIndex{qtx}.row(spaceKeyReady, listing.Key), Min, band, "").behind(behind))
	case space == spaceReady && s.keyed:
		next = merged(func(a, b place) bool { return a.compare(b) < 0 }, next, in(spaceKeyed).next)
	}
	return qtx.page(space, next, listing)
}

// itemsAt returns the ready items with keys whose places a scan finds.
func (x keyIndex) itemsAt(places *scan) nextEntries {
	return func(limit, _ int) ([]entry, error) {
		entries, err := places.next(min(limit, listOfKey), 0)
		if err != nil {
			return nil, err
		}
		keys := make([][]byte, len(entries))
		for i, e := range entries {
			keys[i] = bytes.Clone(x.key(spaceKeyed, e.place))
		}
		rows, err := x.snapshot.GetAll(keys)
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

// behind goes on behind a place, if there is one.
func (rest *scan) behind(behind *place) *scan {
	if behind == nil {
		return rest
	}
	if from := append(behind.append(bytes.Clone(rest.begin[:rest.prefix])), 0); bytes.Compare(from, rest.begin) > 0 {
		rest.begin = from
	}
	if bytes.Compare(rest.begin, rest.end) > 0 {
		rest.begin = rest.end
	}
	return rest
}

// page reads one page of a space. It ends early when its content reaches
// MaxBatchBytes.
func (qtx *queueTx) page(space string, next nextEntries, listing Listing) (Page, error) {
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
		l, err := parseItemRow(space, entry.value, entry.place)
		if err != nil {
			return Page{}, err
		}
		if i == most {
			page.More = true
			break
		}
		if listing.Holder != "" && l.holder != listing.Holder {
			page.Last = l.id(l.place)
			continue
		}
		size += l.headerSize
		payload := listing.Preview
		switch {
		case listing.Bodies:
			payload = whole
			size += l.size - l.headerSize
		case payload > 0 && l.chunks > 0:
			if apart++; apart > previewsApart {
				payload = 0
			}
		}
		if n := len(page.Items); n == listing.Limit || n > 0 && size > MaxBatchBytes {
			page.More = true
			break
		}
		stored, err := contents{qtx}.stored(qtx.snapshot, l, payload)
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

// Peek returns the items that Pop would return for the selection, and removes none.
func (q Queue) Peek(r kv.Reader, sel Selection) (Popped, error) {
	if err := sel.check(); err != nil {
		return Popped{}, err
	}
	qtx, err := q.view(r)
	if err != nil || qtx == nil {
		return Popped{Reason: ReasonUnknown}, err
	}
	s := qtx.state
	if err := s.refusesEnd(&sel); err != nil {
		return Popped{}, err
	}
	if s.paused {
		return Popped{Reason: ReasonPaused}, nil
	}
	found := collector{queueTx: qtx, sel: sel}
	var popped Popped
	retry, err := found.bound()
	if err != nil {
		return Popped{}, err
	}
	if found.sel.Limit == 0 {
		return popped, found.completeLater(&popped, retry)
	}
	if err := found.run(); err != nil {
		return Popped{}, err
	}
	for _, f := range found.items {
		if err := (contents{found.queueTx}).load(&f.envelope, f.place); err != nil {
			return Popped{}, err
		}
		item, err := f.item()
		if err != nil {
			return Popped{}, err
		}
		popped.Items = append(popped.Items, item)
	}
	if len(popped.Items) == 0 && s.takesTurns() {
		if popped.Retry, err = found.nextToken(); err != nil {
			return Popped{}, err
		}
	}
	return popped, qtx.complete(&popped)
}
