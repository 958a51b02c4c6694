package fdbpq

import (
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// locate finds an item by its id in any state, nil when there is none. The
// transaction depends on the rows that exist and on those that do not.
func (qtx *queueTx) locate(r kv.Reader, id ID) (*layout.Item, error) {
	at := id.place
	rows, err := r.GetAll(qtx.rowsAt(at))
	if err != nil {
		return nil, err
	}
	if forward := rows[len(rows)-1]; forward != nil {
		if at.Priority, _, err = tuple.ConsumeInt(forward); err != nil {
			return nil, fmt.Errorf("damaged forwarding row: %w", err)
		}
		if rows, err = r.GetAll(qtx.rowsAt(at)); err != nil {
			return nil, err
		}
	}
	for i, space := range qtx.state.itemSpaces() {
		if rows[i] != nil {
			return layout.ParseItem(space, rows[i], at)
		}
	}
	return nil, nil
}

// rowsAt are the keys of a place in all spaces of items, and of its forwarding row.
func (qtx *queueTx) rowsAt(p layout.Place) [][]byte {
	spaces := qtx.state.itemSpaces()
	keys := make([][]byte, 0, len(spaces)+1)
	for _, space := range spaces {
		keys = append(keys, p.Append(qtx.prefix(space)))
	}
	return append(keys, p.Append(qtx.prefix(layout.SpaceForward)))
}
