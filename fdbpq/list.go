package fdbpq

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Listing selects a page of a queue's items.
type Listing struct {
	State  State // of the items; "": ready items
	Band   *Band // of their priorities; nil: all
	After  *ID   // start after this item; nil: from the beginning
	Limit  int   // items at most; 1 to MaxBatch
	Bodies bool  // with payloads
}

// Page is a page of items in their order.
type Page struct {
	Items []StoredItem
	More  bool // there are items after the last one
}

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
	s, err := q.readState(r)
	if err != nil {
		return Page{}, err
	}
	if s == nil {
		return Page{}, ErrNoQueue
	}
	prefix := generationPrefix(space, q.name, s.generation)
	band := AllPriorities
	if listing.Band != nil {
		band = *listing.Band
	}
	begin, end := band.in(bytes.Clone(prefix))
	if listing.After != nil {
		at := listing.After.place
		l, err := q.locate(r, s, *listing.After)
		if err != nil {
			return Page{}, err
		}
		if l != nil {
			at = l.place
		}
		if behind := append(at.append(bytes.Clone(prefix)), 0); bytes.Compare(behind, begin) > 0 {
			begin = behind
		}
		if bytes.Compare(begin, end) >= 0 {
			return Page{}, nil
		}
	}
	return q.page(r, s, space, begin, end, listing)
}

// page reads one page of a space. It ends early when its content reaches
// MaxBatchBytes.
func (q Queue) page(r kv.Reader, s *queueState, space string, begin, end []byte, listing Listing) (Page, error) {
	pairs, err := r.Range(begin, end, kv.RangeOptions{Limit: listing.Limit + 1, MaxBytes: MaxBatchBytes})
	if err != nil {
		return Page{}, err
	}
	prefix := len(generationPrefix(space, q.name, s.generation))
	var page Page
	size := int64(0)
	for i, pair := range pairs {
		p, err := parsePlace(pair.Key[prefix:])
		if err != nil {
			return Page{}, fmt.Errorf("damaged place: %w", err)
		}
		l, err := parseItemRow(space, pair.Value, p)
		if err != nil {
			return Page{}, err
		}
		size += l.headerSize
		if listing.Bodies {
			size += l.size - l.headerSize
		}
		if i == listing.Limit || (i > 0 && size > MaxBatchBytes) {
			page.More = true
			break
		}
		stored, err := q.storedItem(r, s, l, listing.Bodies)
		if err != nil {
			return Page{}, err
		}
		page.Items = append(page.Items, *stored)
	}
	if n := len(pairs); !page.More && n > 0 && n == len(page.Items) {
		rest, err := r.Range(append(pairs[n-1].Key, 0), end, kv.RangeOptions{Limit: 1})
		if err != nil {
			return Page{}, err
		}
		page.More = len(rest) > 0
	}
	return page, nil
}
