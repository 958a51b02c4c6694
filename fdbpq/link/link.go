package link

import (
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/internal/named"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Link is a link as it stands.
type Link struct {
	Queue, Name string
	Born        int64 // of the queue that it empties: a later queue of the same name has another one
	Config      Config
	Batch       int64 // number of the last batch, 0: there was none
	Held        int   // items of it that the taker has not confirmed
	Given       int64 // items that the taker has
	Since       int64 // wall clock at which the batch was made
}

// record is a link as its rows have it.
type record struct {
	config Config
	batch  batch
}

// link is the record as it is shown, of a queue in a generation.
func (row *record) link(h named.Home, name string, generation int64) Link {
	b := &row.batch
	return Link{
		Queue: h.Queue, Name: name, Born: h.Born, Config: row.config,
		Batch: b.number, Held: len(b.living(generation)), Given: b.given, Since: b.since,
	}
}

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

// configure writes the definition of a link.
func configure(tx kv.Tx, q fdbpq.Queue, h named.Home, name string, row *record, after Config) (Link, error) {
	definition, err := noun.Pack(version, after)
	if err != nil {
		return Link{}, err
	}
	if row.config.Paused && !after.Paused {
		tx.Add(layout.QueueRow(layout.SpaceArrivals, q.Name()), 1) // wakes a taker that waits
	}
	tx.Set(h.Key(layout.SpaceLink, name), definition)
	row.config = after
	return shown(tx, q, h, name, row)
}

// shown reads in which generation the queue is.
func shown(r kv.Reader, q fdbpq.Queue, h named.Home, name string, row *record) (Link, error) {
	generation, err := q.Generation(r)
	return row.link(h, name, generation), err
}
