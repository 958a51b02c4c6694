package link

import (
	"errors"
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

// link is the record as it is shown, of a queue in a generation.
func (row *record) link(h named.Home, name string, generation int64) Link {
	b := &row.batch
	return Link{
		Queue: h.Queue, Name: name, Born: h.Born, Config: row.config,
		Batch: b.number, Held: len(b.living(generation)), Given: b.given, Since: b.since,
	}
}

// Set changes the fields of a link that the JSON object names. It makes the link and the queue if need be.
func (l *Links) Set(tx kv.Tx, q fdbpq.Queue, name string, object []byte) (Link, error) {
	if err := CheckName(name); err != nil {
		return Link{}, err
	}
	born, err := q.Make(tx)
	if err != nil {
		return Link{}, err
	}
	h := named.Home{Queue: q.Name(), Born: born}
	row, err := read(tx, h, name)
	if err == ErrNone {
		err = bounds.Room(tx.Snapshot(), h)
	}
	if err != nil {
		return Link{}, err
	}
	after, err := row.config.merge(object)
	switch {
	case err != nil:
		return Link{}, err
	case row.config.To != "" && row.config.To != after.To:
		return Link{}, wrong("to cannot be changed: delete the link, and make another one")
	case after.To == l.store.ID():
		return Link{}, wrong("to is the id of this store: expected that of another one")
	}
	return configure(tx, q, h, name, &row, after)
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

// Pause has a link give no further batches, or give them again. A batch that is out stays out. The methods of one link return
// ErrNone if there is none, and fdbpq.ErrNoQueue if there is no such queue.
func (l *Links) Pause(tx kv.Tx, q fdbpq.Queue, name string, paused bool) (Link, error) {
	h, err := home(tx, q)
	if err != nil {
		return Link{}, err
	}
	row, err := read(tx, h, name)
	if err != nil {
		return Link{}, err
	}
	after := row.config
	after.Paused = paused
	return configure(tx, q, h, name, &row, after)
}

// Delete removes a link. fdbpq.ErrHeld: it holds items, and force was not said. With force they return to their places,
// or expire, although the taker may have them, and returned says how many they were.
func (l *Links) Delete(tx kv.Tx, q fdbpq.Queue, name string, force bool) (returned int, events []fdbpq.Event, err error) {
	h, err := home(tx, q)
	if err != nil {
		return 0, nil, err
	}
	row, err := read(tx, h, name)
	if err != nil {
		return 0, nil, err
	}
	now, err := shown(tx, q, h, name, &row)
	if err != nil {
		return 0, nil, err
	}
	if now.Held > 0 && !force {
		return 0, nil, fmt.Errorf("%w: link %q holds %d items, which the other store may have already; force puts them back", fdbpq.ErrHeld, name, now.Held)
	}
	if events, err = q.Release(tx, row.batch.holding(name, row.batch.held), ""); err != nil {
		return 0, nil, err
	}
	for _, space := range []string{layout.SpaceLink, layout.SpaceOut} {
		tx.Clear(h.Key(space, name))
	}
	return now.Held, events, nil
}

// Get returns a link.
func (l *Links) Get(r kv.Reader, q fdbpq.Queue, name string) (Link, error) {
	if err := CheckName(name); err != nil {
		return Link{}, err
	}
	h, err := home(r, q)
	if err != nil {
		return Link{}, err
	}
	row, err := read(r, h, name)
	if err != nil {
		return Link{}, err
	}
	return shown(r, q, h, name, &row)
}

// List returns a page of links behind a name.
func (l *Links) List(r kv.Reader, q fdbpq.Queue, after string, limit int) ([]Link, error) {
	h, err := home(r, q)
	if err != nil {
		return nil, err
	}
	ids, err := h.Page(r, layout.SpaceLink, after, limit)
	if err != nil {
		return nil, err
	}
	return l.found(r, ids)
}

// All returns the links of all queues.
func (l *Links) All(r kv.Reader) ([]Link, error) {
	ids, err := named.All(r, layout.SpaceLink, MaxStoreCount)
	if err != nil {
		return nil, err
	}
	return l.found(r, ids)
}

// found reads links, and leaves out those that have no queue any more.
func (l *Links) found(r kv.Reader, ids []named.ID) ([]Link, error) {
	var all []Link
	for _, id := range ids {
		one, err := l.Get(r, l.store.Queue(id.Queue), id.Name)
		if errors.Is(err, ErrNone) || errors.Is(err, fdbpq.ErrNoQueue) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if one.Born != id.Born { // a row of an earlier queue
			continue
		}
		all = append(all, one)
	}
	return all, nil
}
