package fdbpq

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/jsonfields"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/internal/named"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// A link gives the items of a queue to a queue of another store, the taker, in batches. One batch is out at a time. Its items
// are held until the taker asks for the next one, and by that says that it has committed them. Both sides keep the number and
// the random id of the last batch in the transaction that moves the items. So a batch whose answer was lost is answered again, and
// each store notices when the other one has lost its end.
//
// A held item is leased without an end: no timer ends it, and nobody but the link. It neither began nor ends at a time, so what
// asks for old leases, or for leases that have run out, does not find it.

// LinkConfig is what an administrator sets of a link.
type LinkConfig struct {
	To     string `json:"to"` // the store id of the taker
	Paused bool   `json:"paused"`
}

// Link is a link as it stands.
type Link struct {
	Queue, Name string
	Born        int64 // of the queue that it empties: a later queue of the same name has another one
	Config      LinkConfig
	Batch       int64 // number of the last batch, 0: there was none
	Held        int   // items of it that the taker has not confirmed
	Given       int64 // items that the taker has
	Since       int64 // wall clock at which the batch was made
}

// The bounds of links.
const (
	MaxLinks      = 100 // of a queue
	MaxStoreLinks = 1000
	MaxLinksPage  = 100
)

var linkBounds = named.Bounds{Space: layout.SpaceLink, Queue: MaxLinks, Store: MaxStoreLinks, TooMany: ErrLinks}

var (
	// ErrNoLink: the queue has no link of this name.
	ErrNoLink = errors.New("no such link")
	// ErrLinks: there are as many links as there may be.
	ErrLinks = errors.New("too many links")
)

// LinkError says what is wrong with a link, or with what its taker asks for.
type LinkError struct {
	Refusal LinkRefusal
	Text    string
}

func (e *LinkError) Error() string { return "link: " + e.Text }

// LinkRefusal is why a taker gets nothing.
type LinkRefusal string

const (
	LinkMalformed   LinkRefusal = ""
	LinkForbidden   LinkRefusal = "forbidden"    // it is for another taker
	LinkGiverBehind LinkRefusal = "giver_behind" // this store has lost its end
	LinkTakerBehind LinkRefusal = "taker_behind" // the other one has
)

var linkFields = []string{"to", "paused"}

func linkError(format string, args ...any) error {
	return &LinkError{Text: fmt.Sprintf(format, args...)}
}

// Merge returns the definition with the fields of the JSON object replaced.
func (c LinkConfig) Merge(object []byte) (LinkConfig, error) {
	err := jsonfields.Check(object, linkFields, false)
	if err == nil {
		err = jsonfields.Decode(object, &c)
	}
	switch {
	case err != nil:
		return c, linkError("%s", err.Error())
	case c.To == "":
		return c, linkError("to is missing: expected the id of the store that takes the items")
	case !isLinkWord(c.To):
		return c, linkError("to is %.100q: expected the id of a store", c.To)
	}
	return c, nil
}

// isLinkWord reports whether a text is empty, or may be a name: ids may.
func isLinkWord(s string) bool { return s == "" || named.CheckName(s) == nil }

// CheckLinkName returns an error when a link may not have the name.
func CheckLinkName(name string) error {
	if err := named.CheckName(name); err != nil {
		return linkError("%s", err.Error())
	}
	return nil
}

// links gives the items of a queue.
type links struct {
	*queueTx
	born int64
}

// out is the last batch of a link.
type out struct {
	number     int64
	id, before string // of the batch, and of the one before it; of none what the taker has said
	since      int64  // wall clock at which it was made
	given      int64  // items that the taker has
	generation int64  // of those that are held
	held       []layout.Place
}

// holds is how many items are held: a purge of the queue has ended those of an earlier generation.
func (o *out) holds(s *queueState) int {
	if o.generation != s.generation {
		return 0
	}
	return len(o.held)
}

func (l links) row(space, name string) []byte {
	return tuple.AppendString(layout.GenerationPrefix(space, l.name, l.born), name)
}

// read returns a link. ErrNoLink: there is none.
func (l links) read(r kv.Reader, name string) (c LinkConfig, o out, err error) {
	rows, err := r.GetAll([][]byte{l.row(layout.SpaceLink, name), l.row(layout.SpaceOut, name)})
	if err != nil {
		return c, o, err
	}
	if rows[0] == nil {
		return c, o, ErrNoLink
	}
	if c, err = parseLink(rows[0]); err == nil && rows[1] != nil {
		err = o.parse(rows[1])
	}
	if err != nil {
		err = fmt.Errorf("damaged link %q: %w", name, err)
	}
	return c, o, err
}

func (l links) show(name string, c LinkConfig, o *out) Link {
	return Link{Queue: l.name, Name: name, Born: l.born, Config: c, Batch: o.number, Held: o.holds(l.state), Given: o.given, Since: o.since}
}

// linksOf begins an operation on the links of a queue.
func linksOf(q Queue, tx kv.Tx) (links, error) {
	qtx, err := q.administerIt(tx)
	if err != nil {
		return links{}, err
	}
	return links{qtx, qtx.state.born}, nil
}

// SetLink changes the fields of a link that the JSON object names. It makes the link and the queue if need be.
func (q Queue) SetLink(tx kv.Tx, name string, object []byte) (Link, error) {
	if err := CheckLinkName(name); err != nil {
		return Link{}, err
	}
	qtx, err := q.administer(tx)
	if err == nil {
		err = qtx.orCreate()
	}
	if err == nil {
		err = qtx.keepBirth()
	}
	if err != nil {
		return Link{}, err
	}
	l := links{qtx, qtx.state.born}
	before, o, err := l.read(tx, name)
	if err != nil && err != ErrNoLink {
		return Link{}, err
	}
	if err == ErrNoLink {
		if err := linkBounds.Room(tx.Snapshot(), named.Home{Queue: q.name, Born: l.born}); err != nil {
			return Link{}, err
		}
	}
	after, err := before.Merge(object)
	switch {
	case err != nil:
		return Link{}, err
	case before.To != "" && before.To != after.To:
		return Link{}, linkError("to cannot be changed: delete the link, and make another one")
	case after.To == q.store.id:
		return Link{}, linkError("to is the id of this store: expected that of another one")
	}
	return l.write(name, before, after, &o)
}

func (l links) write(name string, before, c LinkConfig, o *out) (Link, error) {
	definition, err := nounLink.Pack(linkVersion, c)
	if err != nil {
		return Link{}, err
	}
	if before.Paused && !c.Paused {
		l.tx.Add(layout.QueueRow(layout.SpaceArrivals, l.name), 1) // wakes a taker that waits
	}
	l.tx.Set(l.row(layout.SpaceLink, name), definition)
	return l.show(name, c, o), nil
}

// PauseLink has a link give no further batches, or give them again. What is out stays out. The methods of one link return ErrNoLink if
// there is none.
func (q Queue) PauseLink(tx kv.Tx, name string, paused bool) (Link, error) {
	l, err := linksOf(q, tx)
	if err != nil {
		return Link{}, err
	}
	c, o, err := l.read(tx, name)
	if err != nil {
		return Link{}, err
	}
	before := c
	c.Paused = paused
	return l.write(name, before, c, &o)
}

// DeleteLink removes a link. ErrHeld: it holds items, and force was not said. With force they return to their places, although the taker may have
// them, and returned says how many did.
func (q Queue) DeleteLink(tx kv.Tx, name string, force bool) (returned int, events []Event, err error) {
	l, err := linksOf(q, tx)
	if err != nil {
		return 0, nil, err
	}
	_, o, err := l.read(tx, name)
	if err != nil {
		return 0, nil, err
	}
	items, err := l.items(&o)
	if err != nil {
		return 0, nil, err
	}
	if len(items) > 0 && !force {
		return 0, nil, fmt.Errorf("%w: link %q holds %d items, which the other store may have already; force puts them back", ErrHeld, name, len(items))
	}
	for _, item := range items {
		item.Tries, item.Over = item.Tries-1, true
		if _, err := (leases{l.queueTx}).reinstate(item, 0); err != nil {
			return 0, nil, err
		}
	}
	for _, space := range []string{layout.SpaceLink, layout.SpaceOut} {
		tx.Clear(l.row(space, name))
	}
	return len(items), l.happened(), l.done()
}

// Link returns a link.
func (q Queue) Link(r kv.Reader, name string) (Link, error) {
	if err := CheckLinkName(name); err != nil {
		return Link{}, err
	}
	s, err := q.readState(r)
	if err != nil {
		return Link{}, err
	}
	if s == nil {
		return Link{}, ErrNoQueue
	}
	l := links{&queueTx{name: q.name, state: s}, s.born}
	c, o, err := l.read(r, name)
	return l.show(name, c, &o), err
}

// Links returns a page of links behind a name.
func (q Queue) Links(r kv.Reader, after string, limit int) ([]Link, error) {
	s, err := q.readState(r)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, ErrNoQueue
	}
	prefix := layout.GenerationPrefix(layout.SpaceLink, q.name, s.born)
	begin, end := tuple.Range(prefix)
	if after != "" {
		begin = append(tuple.AppendString(prefix, after), 0)
	}
	return q.store.linksBetween(r, begin, end, limit)
}

// Held is what the links of a queue hold.
type Held struct {
	Items int64
	Link  string    // that holds the most; "": none holds anything
	Since time.Time // by the wall clock: when its batch was made
	most  int
}

// Held returns what the links of the queue hold.
func (q Queue) Held(r kv.Reader) (h Held, err error) {
	s, err := q.readState(r)
	if err != nil || s == nil {
		return h, err
	}
	err = q.outs(r, s, func(name string, o *out) {
		n := o.holds(s)
		if h.Items += int64(n); n > h.most {
			h.Link, h.Since, h.most = name, time.Unix(0, o.since), n
		}
	})
	return h, err
}

// outs calls a function with the last batch of each link of the queue.
func (q Queue) outs(r kv.Reader, s *queueState, each func(link string, o *out)) error {
	if s.born == 0 {
		return nil
	}
	prefix := layout.GenerationPrefix(layout.SpaceOut, q.name, s.born)
	begin, end := tuple.Range(prefix)
	rows, err := r.Range(begin, end, kv.RangeOptions{Limit: MaxLinks})
	if err != nil {
		return err
	}
	for _, pair := range rows {
		name, _, err := tuple.ConsumeString(pair.Key[len(prefix):])
		var o out
		if err == nil {
			err = o.parse(pair.Value)
		}
		if err != nil {
			return fmt.Errorf("damaged link: %w", err)
		}
		each(name, &o)
	}
	return nil
}

// AllLinks returns the links of all queues.
func (s *Store) AllLinks(r kv.Reader) ([]Link, error) {
	begin, end := tuple.Range(layout.Row(layout.SpaceLink))
	return s.linksBetween(r, begin, end, MaxStoreLinks)
}

func (s *Store) linksBetween(r kv.Reader, begin, end []byte, limit int) ([]Link, error) {
	rows, err := r.Range(begin, end, kv.RangeOptions{Limit: limit})
	if err != nil {
		return nil, err
	}
	var found []Link
	for _, pair := range rows {
		k := tuple.Read(pair.Key[len(layout.Row(layout.SpaceLink)):])
		queue := k.Text()
		k.Int()
		name := k.Text()
		if k.Err() != nil {
			return nil, fmt.Errorf("damaged link: %w", k.Err())
		}
		one, err := s.Queue(queue).Link(r, name)
		if err == ErrNoLink || err == ErrNoQueue {
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, nil
}

// LinkAsk is what a taker asks for: the batch behind the one that it has.
type LinkAsk struct {
	Taker  string // its store id
	Done   int64  // the last batch that it has, 0: none
	Batch  string // the id of that; of none a text that no other taker has
	Accept bool   // it goes on with the number of this store, whatever it has

	Parts bool   // it understands a part of a batch
	Next  string // the id of the batch of which it has a part,
	Part  int    // of so many items

	Left []int64 // items of the batch Done that the taker could not take, by their numbers from 1

	Items Selection // which ones a new batch may have, or a part of the one that is out
}

// Given is the answer to a taker.
type Given struct {
	Popped // the items of the batch; with Number 0 why there is none. Repeated: it was made before. They may be gone, after a purge

	Number        int64
	Batch, Before string // ids of it, and of the batch before it
	First, Total  int    // Items are those of the batch behind the first ones, of so many

	Ended  int  // items of the batch before that were still here
	Left   int  // of these became dead letters, or returned, as the taker could not take them
	Paused bool // why there is no batch: the link is paused, whatever the queue is
}

// Expires is the store time at which the TTL of an item of the batch ends, which may be past; 0: it has none.
func (g *Given) Expires(i int) int64 { return g.Items[i].expires }

// Give ends the batch that the taker has, and makes the next one; or it returns the batch that is out again. *LinkError: the taker is
// another one, or one of the stores has lost its end, and nothing was done.
func (q Queue) Give(tx kv.Tx, name string, ask LinkAsk) (given Given, err error) {
	if !isLinkWord(ask.Taker) || !isLinkWord(ask.Batch) {
		return given, linkError("taker %.100q, batch %.100q: expected ids", ask.Taker, ask.Batch)
	}
	qtx, err := q.begin(tx)
	if err != nil {
		return given, err
	}
	if qtx == nil {
		return given, ErrNoQueue
	}
	l := links{qtx, qtx.state.born}
	c, o, err := l.read(tx, name)
	if err != nil {
		return given, err
	}
	again, err := o.compare(c, &ask)
	if err != nil {
		return given, err
	}
	if again {
		given.Number, given.Batch, given.Before = o.number, o.id, o.before
		err = l.again(&o, &ask, &given)
		return given, err
	}
	ends := len(o.held) > 0
	if err := l.end(name, &o, ask.Left, &given); err != nil {
		return given, err
	}
	told := l.happened()
	if err := l.hold(name, c, &o, &ask, &given); err != nil {
		return given, err
	}
	if ends || given.Number > 0 {
		tx.Set(l.row(layout.SpaceOut, name), o.pack())
	}
	given.Events = append(told, given.Events...)
	return given, l.done()
}

// compare reports whether the batch that is out is to be answered again. Otherwise the taker has it.
func (o *out) compare(c LinkConfig, ask *LinkAsk) (again bool, err error) {
	switch open := len(o.held) > 0; {
	case ask.Taker != c.To:
		return false, &LinkError{LinkForbidden, fmt.Sprintf("its taker is another store than %q", ask.Taker)}
	case o.number == ask.Done && (o.id == ask.Batch || o.number == 0):
		return false, nil
	case open && o.number-1 == ask.Done && o.before == ask.Batch:
		return true, nil
	case ask.Accept:
		return open, nil
	case o.number > 0 && ask.Done == 0:
		return false, &LinkError{LinkTakerBehind, fmt.Sprintf("the taker has no batch, and %d was given here: another source has taken it, or the taker has lost its end", o.number)}
	case o.number > ask.Done && !(o.number-1 == ask.Done && o.before != ask.Batch):
		return false, &LinkError{LinkTakerBehind, fmt.Sprintf("the taker has batch %d, the one after %d was confirmed here: it has lost its end", ask.Done, ask.Done)}
	case o.number == 0:
		return false, &LinkError{LinkGiverBehind, fmt.Sprintf("the taker has batch %d, and none was given here: this store has lost its end, or the link was made again", ask.Done)}
	}
	return false, &LinkError{LinkGiverBehind, fmt.Sprintf("the taker has batch %d, the last one here is %d, or another %d: this store has lost its end", ask.Done, o.number, o.number)}
}

// items are those that are held, as far as the queue has them: a purge has ended them.
func (l links) items(o *out) (items []*layout.Item, err error) {
	if o.holds(l.state) == 0 {
		return nil, nil
	}
	keys := make([][]byte, len(o.held))
	for i, p := range o.held {
		keys[i] = p.Append(l.prefix(layout.SpaceLeased))
	}
	rows, err := l.tx.GetAll(keys)
	if err != nil {
		return nil, err
	}
	for i, row := range rows {
		if row == nil {
			return nil, fmt.Errorf("damaged link: the item at %v is not held", o.held[i])
		}
		item, err := layout.ParseItem(layout.SpaceLeased, row, o.held[i])
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

// end removes the items of the batch, which the taker has. Those that it could not take become dead letters, or return to their places where the
// queue has no dead-letter queue.
func (l links) end(name string, o *out, left []int64, given *Given) error {
	items, err := l.items(o)
	if err != nil {
		return err
	}
	o.held = nil
	given.Ended = len(items)
	for i, item := range items {
		if !slices.Contains(left, int64(i+1)) {
			l.txSize += itemTxSize(l.name, &item.Envelope, false) - int(item.Size)
			l.change(item, nil)
			o.given++
			continue
		}
		given.Left++
		item.Tries, item.Over = item.Tries-1, true
		dead, err := deadLetters{l.queueTx}.take(item, fmt.Sprintf("link %s: the other store has no room for the item, neither as one nor as a dead letter", name))
		if err == nil && !dead {
			_, err = leases{l.queueTx}.reinstate(item, 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// hold makes the next batch.
func (l links) hold(name string, c LinkConfig, o *out, ask *LinkAsk, given *Given) (err error) {
	if c.Paused || l.state.paused {
		given.Reason, given.Paused = ReasonPaused, c.Paused
		return nil
	}
	sel := ask.Items
	sel.End, sel.Band, sel.PopID, sel.Repeated, sel.Holders = Min, nil, "", false, []string{linkHolder(name)}
	if err := sel.check(); err != nil {
		return err
	}
	if given.Popped, err = (pops{l.queueTx}).pop(&sel, layout.NoEnd, nil); err != nil || len(given.Items) == 0 {
		return err
	}
	o.before = o.id
	if o.number == 0 {
		o.before = ask.Batch
	}
	o.number, o.id = o.number+1, rand.Text()
	o.since, o.generation, o.held = l.store.inside.Clock.Wall().UnixNano(), l.state.generation, make([]layout.Place, len(given.Items))
	for i := range given.Items {
		o.held[i] = given.Items[i].Lease.place
		given.Items[i].Lease = nil
	}
	given.Number, given.Batch, given.Before, given.Total = o.number, o.id, o.before, len(given.Items)
	return nil
}

// again reads the batch that is out, or as much as the taker has room for of what it does not have.
func (l links) again(o *out, ask *LinkAsk, given *Given) error {
	popped := &given.Popped
	popped.Repeated = true
	items, err := l.items(o)
	if err != nil {
		return err
	}
	given.Total = len(items)
	if ask.Parts && ask.Next == o.id {
		given.First = max(0, min(ask.Part, len(items)))
	}
	sel, bytes := ask.Items, 0
	if err := sel.check(); err != nil {
		return err
	}
	for i, held := range items[given.First:] {
		if bytes += int(held.Size); ask.Parts && i > 0 && (i >= sel.Limit || !sel.fits(i+1, bytes)) {
			break
		}
		stored, err := contents{l.queueTx}.stored(l.tx, held, whole)
		if err != nil {
			return err
		}
		popped.Items = append(popped.Items, stored.Item)
	}
	if len(items) == 0 {
		return nil
	}
	return pops{l.queueTx}.complete(popped, *sel.Band)
}

const (
	linkVersion = 1

	// nounLink is how errors call a link.
	nounLink = named.Noun("link")
)

func parseLink(b []byte) (c LinkConfig, err error) {
	_, err = nounLink.Parse(b, linkVersion, &c)
	return c, err
}

func (o *out) pack() []byte {
	b := tuple.AppendInt(nil, linkVersion)
	for _, n := range []int64{o.number, o.since, o.given, o.generation, int64(len(o.held))} {
		b = tuple.AppendInt(b, n)
	}
	b = tuple.AppendString(tuple.AppendString(b, o.id), o.before)
	for _, p := range o.held {
		b = tuple.AppendBytes(b, p.Append(nil))
	}
	return b
}

func (o *out) parse(b []byte) error {
	r := tuple.Read(b)
	var version, n int64
	r.Ints(&version, &o.number, &o.since, &o.given, &o.generation, &n)
	o.id, o.before = r.Text(), r.Text()
	if err := cmp.Or(r.Err(), nounLink.CheckVersion(version, linkVersion)); err != nil {
		return err
	}
	if n < 0 || n > MaxBatch {
		return fmt.Errorf("a batch of %d items", n)
	}
	for range n {
		p, err := layout.ParsePlace(r.Bytes())
		if err := cmp.Or(r.Err(), err); err != nil {
			return err
		}
		o.held = append(o.held, p)
	}
	return r.Err()
}

// linkHolder is what a link calls itself as the holder of its items.
func linkHolder(name string) string { return "link:" + name }
