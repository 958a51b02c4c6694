package link

import (
	"fmt"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Held returns what the links of a queue hold.
func (l *Links) Held(r kv.Reader, q fdbpq.Queue) (held fdbpq.Held, err error) {
	h, err := home(r, q)
	if err == fdbpq.ErrNoQueue || err == nil && h.Born == 0 {
		return held, nil
	}
	if err != nil {
		return held, err
	}
	prefix := h.Prefix(layout.SpaceOut)
	begin, end := tuple.Range(prefix)
	rows, err := r.Range(begin, end, kv.RangeOptions{Limit: MaxCount})
	if err != nil || len(rows) == 0 {
		return held, err
	}
	generation, err := q.Generation(r)
	if err != nil {
		return held, err
	}
	most := 0
	for _, pair := range rows {
		name, _, err := tuple.ConsumeString(pair.Key[len(prefix):])
		var b batch
		if err == nil {
			err = b.parse(pair.Value)
		}
		if err != nil {
			return held, fmt.Errorf("damaged link: %w", err)
		}
		n := len(b.living(generation))
		if held.Items += int64(n); n > most {
			held.Link, held.Since, most = name, time.Unix(0, b.since), n
		}
	}
	return held, nil
}

// HolderOf returns which link holds an item that Get has returned in this transaction, and by the wall clock since when; "": no
// link does.
func (l *Links) HolderOf(r kv.Reader, q fdbpq.Queue, item *fdbpq.StoredItem) (name string, since time.Time, err error) {
	name, ours := strings.CutPrefix(item.Holder, holderPrefix)
	if !item.Held || !ours {
		return "", since, nil
	}
	h, err := home(r, q)
	if err != nil {
		return "", since, err
	}
	row, err := read(r, h, name)
	if err == ErrNone {
		return "", since, nil
	}
	if err != nil {
		return "", since, err
	}
	return name, time.Unix(0, row.batch.since), nil
}
