package link

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"slices"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Ask is what a taker asks for: the batch behind the one that it has.
type Ask struct {
	Taker  string // its store id
	Done   int64  // the last batch that it has, 0: none
	Batch  string // id of batch Done; if Done is 0, a text that no other taker sends
	Accept bool   // it goes on with the number of this store, whatever it has

	Parts bool   // it understands a part of a batch
	Next  string // the id of the batch of which it has a part,
	Part  int    // of so many items

	Left []int64 // items of the batch Done that the taker could not take, by their numbers from 1

	Items fdbpq.Selection // which ones a new batch may have, or a part of the one that is out
}

// Given is the answer to a taker.
type Given struct {
	// The items of the batch. If Number is 0, there is no batch, and Reason says why. Repeated: the batch was made before;
	// after a purge it has no items.
	fdbpq.Popped

	Number        int64
	Batch, Before string // ids of it, and of the batch before it
	First, Total  int    // Items are those of the batch behind the first ones, of so many

	Ended  int  // items of the batch before that were still here
	Left   int  // of these, items that the taker could not take: they became dead letters, returned or expired
	Paused bool // why there is no batch: the link is paused, whatever the queue is
}

// give answers a taker at the time now of the wall clock.
func give(tx kv.Tx, q fdbpq.Queue, name string, ask *Ask, given *Given, now int64) error {
	h, err := home(tx, q)
	if err != nil {
		return err
	}
	row, err := read(tx, h, name)
	if err != nil {
		return err
	}
	current, err := q.Generation(tx)
	if err != nil {
		return err
	}
	g := giving{tx, q, name, current, &row.batch}
	again, err := g.compare(row.config, ask)
	if err != nil {
		return err
	}
	if again {
		return g.again(ask, given)
	}
	ends := len(g.held) > 0
	ended, err := g.end(ask.Left, given)
	if err != nil {
		return err
	}
	if row.config.Paused {
		given.Reason, given.Paused = fdbpq.ReasonPaused, true
	} else if err := g.next(ask, given, now); err != nil {
		return err
	}
	if ends || given.Number > 0 {
		tx.Set(h.Key(layout.SpaceOut, name), g.pack())
	}
	given.Events = append(ended, given.Events...)
	return nil
}

// giving is the answer to one taker.
type giving struct {
	tx      kv.Tx
	queue   fdbpq.Queue
	link    string
	current int64 // generation of the queue
	*batch
}

// compare reports whether the batch that is out is to be answered again. Otherwise the taker has it.
func (g *giving) compare(c Config, ask *Ask) (again bool, err error) {
	switch open := len(g.held) > 0; {
	case ask.Taker != c.To:
		return false, refuse(Forbidden, "its taker is another store than %q", ask.Taker)
	case g.number == ask.Done && (g.id == ask.Batch || g.number == 0):
		return false, nil
	case open && g.number-1 == ask.Done && g.before == ask.Batch:
		return true, nil
	case ask.Accept:
		return open, nil
	case g.number > 0 && ask.Done == 0:
		return false, refuse(TakerBehind, "the taker has no batch, and %d was given here: another source has taken it, or the taker has lost its end", g.number)
	case g.number > ask.Done && !(g.number-1 == ask.Done && g.before != ask.Batch):
		return false, refuse(TakerBehind, "the taker has batch %d, the one after %d was confirmed here: it has lost its end", ask.Done, ask.Done)
	case g.number == 0:
		return false, refuse(GiverBehind, "the taker has batch %d, and none was given here: this store has lost its end, or the link was made again", ask.Done)
	}
	return false, refuse(GiverBehind, "the taker has batch %d, the last one here is %d, or another %d: this store has lost its end", ask.Done, g.number, g.number)
}

// end ends the batch, which the taker has. Items that it could not take become dead letters, or return to their places where the
// queue has no dead-letter queue.
func (g *giving) end(numbers []int64, given *Given) ([]fdbpq.Event, error) {
	items := g.living(g.current)
	var taken, left [][]byte
	for i, item := range items {
		if slices.Contains(numbers, int64(i+1)) {
			left = append(left, item)
		} else {
			taken = append(taken, item)
		}
	}
	if err := g.queue.Drop(g.tx, g.holding(g.link, taken)); err != nil {
		return nil, err
	}
	why := fmt.Sprintf("link %s: the other store has no room for the item, neither as one nor as a dead letter", g.link)
	events, err := g.queue.Release(g.tx, g.holding(g.link, left), why)
	if err != nil {
		return nil, err
	}
	g.held, g.batch.given = nil, g.batch.given+int64(len(taken))
	given.Ended, given.Left = len(items), len(left)
	return events, nil
}

// next makes the next batch, if there are items.
func (g *giving) next(ask *Ask, given *Given, now int64) error {
	sel := ask.Items
	sel.End, sel.Band = fdbpq.Min, nil
	popped, held, err := g.queue.Hold(g.tx, sel, holder(g.link))
	given.Popped = popped
	if err != nil || len(popped.Items) == 0 {
		return err
	}
	g.before = g.id
	if g.number == 0 {
		g.before = ask.Batch
	}
	g.number, g.id = g.number+1, rand.Text()
	g.since, g.generation, g.held = now, held.Generation, held.Items
	g.answers(given)
	given.Total = len(held.Items)
	return nil
}

// again reads the batch that is out, or as much as the taker has room for of what it does not have.
func (g *giving) again(ask *Ask, given *Given) (err error) {
	g.answers(given)
	items, sel := g.living(g.current), fdbpq.Selection{Limit: fdbpq.MaxBatch}
	given.Total = len(items)
	if ask.Parts {
		sel = ask.Items
		if ask.Next == g.id {
			given.First = max(0, min(ask.Part, len(items)))
		}
	}
	if given.Popped, err = g.queue.Held(g.tx, g.holding(g.link, items[given.First:]), sel); err != nil {
		return err
	}
	given.Repeated = true
	return nil
}

// answers says which batch the answer is.
func (g *giving) answers(given *Given) {
	given.Number, given.Batch, given.Before = g.number, g.id, g.before
}

// batch is the last batch of a link.
type batch struct {
	number     int64
	id, before string   // of this batch, and of the batch before; before the first batch it is the taker's Ask.Batch
	since      int64    // wall clock at which it was made
	given      int64    // items that the taker has
	generation int64    // of the queue, when its items were held
	held       [][]byte // these items, as a fdbpq.Holding names them; none: the taker has confirmed the batch
}

// living are the items that are still held: a purge of the queue has ended those of an earlier generation.
func (b *batch) living(generation int64) [][]byte {
	if b.generation != generation {
		return nil
	}
	return b.held
}

// holding names items of the batch.
func (b *batch) holding(link string, items [][]byte) fdbpq.Holding {
	return fdbpq.Holding{Holder: holder(link), Generation: b.generation, Items: items}
}

const holderPrefix = "link:"

// holder is what a link calls itself as the holder of its items.
func holder(link string) string { return holderPrefix + link }

func (b *batch) pack() []byte {
	row := tuple.AppendInt(nil, version)
	for _, n := range []int64{b.number, b.since, b.given, b.generation, int64(len(b.held))} {
		row = tuple.AppendInt(row, n)
	}
	row = tuple.AppendString(tuple.AppendString(row, b.id), b.before)
	for _, item := range b.held {
		row = tuple.AppendBytes(row, item)
	}
	return row
}

func (b *batch) parse(row []byte) error {
	r := tuple.Read(row)
	var read, n int64
	r.Ints(&read, &b.number, &b.since, &b.given, &b.generation, &n)
	b.id, b.before = r.Text(), r.Text()
	if err := cmp.Or(r.Err(), noun.CheckVersion(read, version)); err != nil {
		return err
	}
	if n < 0 || n > fdbpq.MaxBatch {
		return fmt.Errorf("a batch of %d items", n)
	}
	for range n {
		item := r.Bytes()
		if _, err := layout.ParsePlace(item); err != nil || r.Err() != nil {
			return cmp.Or(r.Err(), err)
		}
		b.held = append(b.held, item)
	}
	return r.Err()
}
