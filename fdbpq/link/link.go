package link

import (
	"errors"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/internal/jsonfields"
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

// Config is what an administrator sets of a link.
type Config struct {
	To     string `json:"to"` // the store id of the taker
	Paused bool   `json:"paused"`
}

var fieldNames = []string{"to", "paused"}

// merge returns the definition with the fields of the JSON object replaced.
func (c Config) merge(object []byte) (Config, error) {
	err := jsonfields.Check(object, fieldNames, false)
	if err == nil {
		err = jsonfields.Decode(object, &c)
	}
	switch {
	case err != nil:
		return c, wrong("%s", err.Error())
	case c.To == "":
		return c, wrong("to is missing: expected the id of the store that takes the items")
	case !isID(c.To):
		return c, wrong("to is %.100q: expected the id of a store", c.To)
	}
	return c, nil
}

// isID reports whether a text is empty, or may be a name: ids of stores and batches may.
func isID(s string) bool { return s == "" || named.CheckName(s) == nil }

// CheckName returns an error when a link may not have the name.
func CheckName(name string) error {
	if err := named.CheckName(name); err != nil {
		return wrong("%s", err.Error())
	}
	return nil
}

// Error says what is wrong with a link, or with what its taker asks for.
type Error struct {
	Refusal Refusal
	Text    string
}

func (e *Error) Error() string { return "link: " + e.Text }

// Refusal is why a taker gets nothing.
type Refusal string

const (
	Malformed   Refusal = ""
	Forbidden   Refusal = "forbidden"    // the link is for another taker
	GiverBehind Refusal = "giver_behind" // this store has lost its end
	TakerBehind Refusal = "taker_behind" // the other one has
)

func wrong(format string, args ...any) error { return refuse(Malformed, format, args...) }

func refuse(why Refusal, format string, args ...any) error {
	return &Error{why, fmt.Sprintf(format, args...)}
}

var (
	// ErrNone: the queue has no link of this name.
	ErrNone = errors.New("no such link")
	// ErrTooMany: there are as many links as there may be.
	ErrTooMany = errors.New("too many links")
)

const (
	noun = named.Noun("link")

	version = 1 // of both rows
)
