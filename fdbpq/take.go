package fdbpq

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// The bounds of one take. A bigger batch would not fit into a transaction.
const (
	MaxBatch      = 1000
	MaxBatchBytes = 8 << 20
)

// Selection says which items to look at, and how many.
type Selection struct {
	End      End
	Band     *Band // nil: all priorities
	Limit    int   // items at most; 1 to MaxBatch
	MaxBytes int   // stop before the item that exceeds it, but give at least one; 0: MaxBatchBytes

	// PopID makes a take repeatable: within the queue's dedup window, a take
	// with the same id gets the same items again. Peeks ignore it.
	PopID string
}

var errLimit = errors.New("limit out of bounds: expected 1 to 1000 items")

func (s *Selection) check() error {
	if s.Limit < 1 || s.Limit > MaxBatch {
		return errLimit
	}
	if s.Band == nil {
		s.Band = &AllPriorities
	}
	if err := checkMsgID(s.PopID); err != nil {
		return err
	}
	if s.MaxBytes <= 0 || s.MaxBytes > MaxBatchBytes {
		s.MaxBytes = MaxBatchBytes
	}
	return nil
}

// Item is an item as a pop or a peek answers it.
type Item struct {
	ID         ID
	Seq        int64 // place in push order
	Priority   int64
	Payload    []byte
	Headers    []byte
	Size       int64 // bytes of headers and payload
	Pushed     time.Time
	Deliveries int64 // leases given so far, this one included
	Dead       *DeadLetter
	Lease      *Lease // nil when the item was taken for good
}

// DeadLetter says where an item of a dead-letter queue came from and why.
type DeadLetter struct {
	Reason, Origin, OriginID string
}

// Why nothing was found.
type Reason string

const (
	ReasonUnknown Reason = "unknown" // no such queue
	ReasonPaused  Reason = "paused"
	ReasonLeased  Reason = "leased" // all that is left is leased
	ReasonDelayed Reason = "delayed"
	ReasonEmpty   Reason = "empty"
)

// Popped is what a pop or a peek found.
type Popped struct {
	Items []Item

	// Ready is what the queue's counter of ready items says after a take.
	Ready int64

	// Reason says why there are no items. Whether others are leased or delayed is
	// what the counters said when the transaction began.
	Reason Reason

	// Events: items past their TTL that were in the way.
	Events []Event

	// More: items past their TTL were in the way and the transaction removed as
	// many as it may. Commit and take again.
	More bool
}

// maxExpired bounds how many items past their TTL one take removes.
const maxExpired = 256

// Pop removes items from one end of the queue; no other transaction gets them.
//
// The head is read by snapshot, and the commit depends on the items taken
// alone: takes conflict when they meet on the same item, never with pushes. An
// item whose push was acknowledged before the transaction began is not passed
// over for a less urgent one.
func (q Queue) Pop(tx kv.Tx, sel Selection) (Popped, error) {
	return q.take(tx, sel, 0)
}

// PopRecipe is Pop as the recipe documents it: the head is read serializably,
// so it conflicts with every other take and every push at its end of the
// queue. It stands here to be compared with.
func (q Queue) PopRecipe(tx kv.Tx, sel Selection) (Popped, error) {
	if err := sel.check(); err != nil {
		return Popped{}, err
	}
	c, err := q.begin(tx)
	if err != nil || c == nil {
		return Popped{Reason: ReasonUnknown}, err
	}
	if c.state.paused {
		return Popped{Reason: ReasonPaused}, nil
	}
	c.past = tx
	sel.PopID = ""
	return c.takeNew(&sel, 0, nil)
}

// take removes items from the ready space, for good or for the time of a
// lease.
func (q Queue) take(tx kv.Tx, sel Selection, lease time.Duration) (Popped, error) {
	if err := sel.check(); err != nil {
		return Popped{}, err
	}
	tx.Prefetch(queueRow(spaceState, q.name), q.counterKey(q.store.states.generation(q.name), counterReady))
	if lease > 0 {
		tx.Prefetch(row(spaceTime))
	}
	ahead, err := q.lookAhead(tx, &sel)
	if err != nil {
		return Popped{}, err
	}
	c, err := q.begin(tx)
	if err != nil || c == nil {
		return Popped{Reason: ReasonUnknown}, err
	}
	if sel.PopID != "" {
		again, err := c.replay(&sel, lease)
		if err != nil || again != nil {
			c.finish()
			return deref(again), err
		}
	}
	if c.state.paused {
		c.finish()
		return Popped{Reason: ReasonPaused}, nil
	}
	if sel.PopID != "" {
		n, err := c.counts(c.past, c.state.generation)
		if err != nil {
			return Popped{}, err
		}
		if limit := c.state.config.DedupLimit; n.Remembered+c.tally.remembered >= limit {
			return Popped{}, fmt.Errorf("%w: the queue's dedup_limit is %d", ErrRemembered, limit)
		}
	}
	return c.takeNew(&sel, lease, ahead)
}

// ahead is what was read of a queue before its state was known: that read and
// those that take asks for beforehand are under way at the same time.
type ahead struct {
	guess   *state // what the state was taken for
	scan    *scan
	entries []entry // the first ones
	given   bool
}

// lookAhead reads the head of the queue if its state can be guessed, and is the
// first to look at it in the transaction. Otherwise there is nothing to gain.
func (q Queue) lookAhead(tx kv.Tx, sel *Selection) (*ahead, error) {
	if q.known != nil && q.known.read || sel.PopID != "" {
		return nil, nil
	}
	guess := q.store.states.last(q.name)
	if guess == nil || !guess.exists || guess.paused {
		return nil, nil
	}
	s := q.scan(tx.Snapshot(), guess, sel.End, *sel.Band)
	if s.oldest {
		return nil, nil
	}
	entries, err := s.next(sel.Limit, sel.MaxBytes)
	return &ahead{guess: guess, scan: s, entries: entries}, err
}

// next gives what was read ahead, and then what follows.
func (a *ahead) next(limit, maxBytes int) ([]entry, error) {
	if a.given {
		return a.scan.next(limit, maxBytes)
	}
	a.given = true
	return a.entries, nil
}

func (c *change) takeNew(sel *Selection, lease time.Duration, ahead *ahead) (Popped, error) {
	head := collector{change: c, sel: *sel, remove: true, copies: sel.PopID != "" && lease == 0, weight: c.spent}
	if ahead != nil && ahead.guess == c.state {
		head.ahead = ahead
	}
	if err := head.run(); err != nil {
		return Popped{}, err
	}
	c.spent = head.weight
	taken := Popped{More: head.more, Items: make([]Item, len(head.items))}
	for i := range head.items {
		p, e := head.items[i].place, &head.items[i].envelope
		if err := c.loadContent(e, p); err != nil {
			return Popped{}, err
		}
		c.removeReady(p, e)
		var held *Lease
		if lease == 0 {
			c.drop(p, e)
		} else {
			now, err := c.now()
			if err != nil {
				return Popped{}, err
			}
			e.deliveries++
			e.fence, e.floor = max(e.fence+1, e.floor), 0
			c.addLeased(p, &leased{due: now + int64(lease), target: p.priority, envelope: *e})
			held = c.lease(p, e, now+int64(lease))
		}
		item, err := head.items[i].item()
		if err != nil {
			return Popped{}, err
		}
		item.Lease = held
		taken.Items[i] = item
	}
	if sel.PopID != "" && len(taken.Items) > 0 {
		if err := c.rememberPop(sel, lease, &taken, head.items); err != nil {
			return Popped{}, err
		}
	}
	c.finish()
	taken.Events = c.events
	return taken, c.complete(c.past, c.state, &taken)
}

func deref(t *Popped) Popped {
	if t == nil {
		return Popped{}
	}
	return *t
}

// Peek returns what a take with the same selection would, and removes nothing.
func (q Queue) Peek(r kv.Reader, sel Selection) (Popped, error) {
	if err := sel.check(); err != nil {
		return Popped{}, err
	}
	s, err := q.read(r)
	if err != nil || s == nil {
		return Popped{Reason: ReasonUnknown}, err
	}
	if s.paused {
		return Popped{Reason: ReasonPaused}, nil
	}
	found := collector{change: q.look(r, s), sel: sel}
	if err := found.run(); err != nil {
		return Popped{}, err
	}
	var taken Popped
	for _, f := range found.items {
		if err := found.loadContent(&f.envelope, f.place); err != nil {
			return Popped{}, err
		}
		item, err := f.item()
		if err != nil {
			return Popped{}, err
		}
		taken.Items = append(taken.Items, item)
	}
	return taken, q.complete(r, s, &taken)
}

// complete fills in what the counters tell.
func (q Queue) complete(r kv.Reader, s *state, taken *Popped) error {
	if len(taken.Items) > 0 {
		ready, err := r.Get(q.counterKey(s.generation, counterReady))
		taken.Ready = max(0, int64(kv.DecodeInteger(ready)))
		return err
	}
	n, err := q.counts(r, s.generation)
	switch {
	case n.Leased > 0:
		taken.Reason = ReasonLeased
	case n.Delayed > 0:
		taken.Reason = ReasonDelayed
	default:
		taken.Reason = ReasonEmpty
	}
	return err
}

// found is an item that a selection hit.
type found struct {
	place    place
	envelope envelope
}

func (f *found) item() (Item, error) {
	seq, err := f.place.count()
	if err != nil {
		return Item{}, err
	}
	item := Item{
		ID:         f.envelope.id(f.place),
		Seq:        seq,
		Priority:   f.place.priority,
		Payload:    f.envelope.payload,
		Headers:    f.envelope.headers,
		Size:       f.envelope.size,
		Pushed:     time.Unix(0, f.envelope.pushed),
		Deliveries: f.envelope.deliveries,
	}
	if f.envelope.dead != (DeadLetter{}) {
		item.Dead = &f.envelope.dead
	}
	return item, nil
}

// collector gathers the items of a selection.
type collector struct {
	*change
	sel    Selection
	remove bool // items past their TTL, instead of looking past them
	copies bool // what is taken is copied
	ahead  *ahead

	items   []found
	bytes   int
	weight  int
	expired int
	more    bool
}

func (c *collector) run() error {
	next := c.scan(c.past, c.state, c.sel.End, *c.sel.Band).next
	if c.ahead != nil {
		next = c.ahead.next
	}
	for len(c.items) < c.sel.Limit {
		entries, err := next(c.sel.Limit-len(c.items), c.sel.MaxBytes)
		if err != nil || len(entries) == 0 {
			return err
		}
		c.items = slices.Grow(c.items, len(entries))
		for _, entry := range entries {
			done, err := c.add(entry)
			if err != nil || done {
				return err
			}
		}
	}
	return nil
}

// add looks at one item and says whether it was the last one.
func (c *collector) add(at entry) (done bool, err error) {
	e, err := parseEnvelope(at.value, at.place)
	if err != nil {
		return false, err
	}
	if e.expires != 0 {
		now, err := c.now()
		if err != nil {
			return false, err
		}
		if e.expires <= now {
			return c.skip(at.place, &e)
		}
	}
	if len(c.items) > 0 && c.bytes+int(e.size) > c.sel.MaxBytes {
		return true, nil
	}
	if !c.carry(&e, c.copies) {
		return true, nil
	}
	c.bytes += int(e.size)
	c.items = append(c.items, found{place: at.place, envelope: e})
	return len(c.items) == c.sel.Limit, nil
}

// skip passes over an item whose time is up.
func (c *collector) skip(p place, e *envelope) (done bool, err error) {
	if !c.remove {
		return false, nil
	}
	if c.expired == maxExpired {
		c.more = len(c.items) == 0
		return true, nil
	}
	if !c.carry(e, c.state.config.DeadLetterExpired) {
		return true, nil
	}
	c.expired++
	c.removeReady(p, e)
	return false, c.expire(p, e)
}

// carry says whether the transaction can bear one more item.
func (c *collector) carry(e *envelope, copied bool) bool {
	weight := c.change.weight(e, copied) + itemKeys*len(c.sel.PopID)
	if c.weight > 0 && c.weight+weight > maxWeight {
		c.more = len(c.items) == 0
		return false
	}
	c.weight += weight
	return true
}
