package link

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/internal/named"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Links are the links of a store. Its methods may be called from any number of goroutines. They work inside a transaction of
// the caller, as the methods of the queue do.
type Links struct{ store *fdbpq.Store }

// New returns the links of a store. They have no state but that of the store, so a process may have them several times.
func New(store *fdbpq.Store) *Links { return &Links{store} }

// The bounds of links.
const (
	MaxCount      = 100 // of a queue
	MaxStoreCount = 1000
	MaxPage       = 100
)

var bounds = named.Bounds{Space: layout.SpaceLink, Queue: MaxCount, Store: MaxStoreCount, TooMany: ErrTooMany}

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

// Give ends the batch that the taker has, and makes the next one; or it returns the batch that is out again. *Error: the taker is
// another one, or one of the stores has lost its end, and nothing was done.
func (l *Links) Give(tx kv.Tx, q fdbpq.Queue, name string, ask Ask) (given Given, err error) {
	if !isID(ask.Taker) || !isID(ask.Batch) {
		return given, wrong("taker %.100q, batch %.100q: expected ids", ask.Taker, ask.Batch)
	}
	now := l.store.Inside().Clock.Wall().UnixNano()
	err = q.In(tx, func(q fdbpq.Queue) error { return give(tx, q, name, &ask, &given, now) })
	return given, err
}

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

// Check reads all rows of links, and all leased items, and returns a sentence for each violation of an invariant, up to a hundred.
// Nothing may write to the store meanwhile: a concurrent write looks like damage. [fdbpq.Store.Check] checks all other rows.
//
// The invariants:
//   - every row can be parsed, and is of a queue that exists;
//   - a batch is that of a link;
//   - a link holds the items of its last batch, and no others are held by a link.
func (l *Links) Check(ctx context.Context) ([]string, error) {
	w := walk{
		store: l.store, links: make(map[named.ID]bool), held: make(map[holding]bool), generations: make(map[string]int64),
		births: named.BirthsOf(l.store),
	}
	return w.all(ctx, l.store.Inside().DB)
}
