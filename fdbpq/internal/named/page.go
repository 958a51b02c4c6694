package named

import (
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Page returns the definitions of a queue behind a name, "" for the first ones, by their rows in a space.
func (h Home) Page(r kv.Reader, space, after string, limit int) ([]ID, error) {
	begin, end := tuple.Range(h.Prefix(space))
	if after != "" {
		begin = append(h.Key(space, after), 0)
	}
	return between(r, space, begin, end, limit)
}

// All returns the definitions of all queues, by their rows in a space.
func All(r kv.Reader, space string, limit int) ([]ID, error) {
	begin, end := tuple.Range(layout.Row(space))
	return between(r, space, begin, end, limit)
}

func between(r kv.Reader, space string, begin, end []byte, limit int) ([]ID, error) {
	rows, err := r.Range(begin, end, kv.RangeOptions{Limit: limit})
	if err != nil {
		return nil, err
	}
	ids := make([]ID, len(rows))
	for i, row := range rows {
		if ids[i], err = ParseID(space, row.Key); err != nil {
			return nil, fmt.Errorf("damaged row %q: %w", row.Key, err)
		}
	}
	return ids, nil
}
