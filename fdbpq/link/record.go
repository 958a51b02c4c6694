package link

import (
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/internal/named"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// record is a link as its rows have it.
type record struct {
	config Config
	batch  batch
}

const (
	noun = named.Noun("link")

	version = 1 // of both rows
)

// home is where the links of a queue are. fdbpq.ErrNoQueue: there is no such queue.
func home(r kv.Reader, q fdbpq.Queue) (named.Home, error) {
	born, err := q.Born(r)
	return named.Home{Queue: q.Name(), Born: born}, err
}

// read returns a link. ErrNone: there is none.
func read(r kv.Reader, h named.Home, name string) (row record, err error) {
	rows, err := r.GetAll([][]byte{h.Key(layout.SpaceLink, name), h.Key(layout.SpaceOut, name)})
	if err != nil {
		return row, err
	}
	if rows[0] == nil {
		return row, ErrNone
	}
	if row.config, err = parseConfig(rows[0]); err == nil && rows[1] != nil {
		err = row.batch.parse(rows[1])
	}
	if err != nil {
		err = damaged(name, err)
	}
	return row, err
}

func damaged(name string, err error) error { return fmt.Errorf("damaged link %q: %w", name, err) }

func parseConfig(b []byte) (c Config, err error) {
	_, err = noun.Parse(b, version, &c)
	return c, err
}
