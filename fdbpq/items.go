package fdbpq

import (
	"math"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// StoredItem is an item of a queue, in whatever state.
type StoredItem struct {
	Item
	State   State
	Due     int64 // store time at which a lease or a delay ends; 0 when ready
	Expires int64 // store time at which its TTL ends; 0: never
	Fence   int64 // number of leases, returned ones included

	KeyFence int64 // of the last lease, 0 if it had none

	// WaitsFor says why Get's item is not handed out, "" if its turn comes when those in
	// front of it are gone, or if it is leased.
	WaitsFor WaitsFor

	// KeyAhead is how many ready items of the key are handed out before Get's item, which is
	// ready, up to MaxKeyCount.
	KeyAhead int

	Holder   string // of a leased item: what its holder calls itself; "": nothing
	Attempts Attempts

	Unique            string // no other item of the queue has this value; "": it has none, or none any more
	UniqueUntilLeased bool   // the first lease ends that
}

// Get returns an item by its id, whatever its state; nil when there is none.
func (q Queue) Get(r kv.Reader, id ID) (*StoredItem, error) {
	qtx, err := q.view(r)
	if err != nil || qtx == nil {
		return nil, err
	}
	l, err := qtx.locate(r, id)
	if err != nil || l == nil {
		return nil, err
	}
	stored, err := contents{qtx}.stored(r, l, whole)
	if err != nil {
		return nil, err
	}
	if stored.WaitsFor, err = (keyInfos{qtx}).waitsFor(l); err != nil {
		return nil, err
	}
	stored.KeyAhead, err = keyInfos{qtx}.ahead(l)
	return stored, err
}

// whole is more than the bytes of any payload.
const whole = math.MaxInt32

// stored returns an item with the first bytes of its payload.
func (c contents) stored(r kv.Reader, l *located, payload int64) (*StoredItem, error) {
	f := *l
	prefix := c.prefix(spaceChunk)
	var err error
	if payload < l.size-l.headerSize {
		err = loadBeginning(r, prefix, &f.envelope, f.place, payload)
	} else {
		err = loadContent(r, prefix, &f.envelope, f.place)
	}
	if err != nil {
		return nil, err
	}
	item, err := f.item()
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(l.unique, reservedUnique) {
		l = &f
		l.unique, l.untilLeased = "", false // nobody else can use it
	}
	return &StoredItem{
		Item: item, State: l.state, Due: l.due, Expires: l.expires, Fence: l.fence, KeyFence: l.keyFence, Unique: l.unique, UniqueUntilLeased: l.untilLeased,
		Holder: l.holder, Attempts: l.attempts,
	}, nil
}

// Remove removes an item, whatever its state, and reports whether there was one, and the
// last priority that it had, or was moved to. A lease of the item is lost.
func (q Queue) Remove(tx kv.Tx, id ID) (priority int64, found bool, err error) {
	qtx, l, err := q.beginWithItem(tx, id)
	if err != nil || l == nil {
		return 0, false, err
	}
	qtx.change(l, nil)
	return l.returnPriority, true, qtx.done()
}

// Move changes the priority of an item and reports whether there was one. The item
// keeps its id, and its push order among items of the same priority. A leased item
// moves when its lease ends and it returns to the queue.
func (q Queue) Move(tx kv.Tx, id ID, priority int64) (bool, error) {
	qtx, l, err := q.beginWithItem(tx, id)
	if err != nil || l == nil {
		return false, err
	}
	qtx.move(l, priority)
	return true, qtx.done()
}

func (qtx *queueTx) move(l *located, priority int64) {
	if priority == l.returnPriority {
		return
	}
	moved := *l
	if l.state == StateLeased {
		moved.returnPriority = priority
	} else {
		moved.at(priority)
	}
	qtx.change(l, &moved)
}

// beginWithItem starts a transaction on the queue and locates an item in it.
func (q Queue) beginWithItem(tx kv.Tx, id ID) (*queueTx, *located, error) {
	qtx, err := q.begin(tx)
	if err != nil || qtx == nil {
		return nil, nil, err
	}
	l, err := qtx.locate(tx, id)
	return qtx, l, err
}

// Item is an item that a pop or a peek returns.
type Item struct {
	ID         ID
	Seq        int64 // number in push order
	Priority   int64
	Key        string // "": none
	Payload    []byte
	Headers    []byte
	Size       int64 // bytes of headers and payload
	Pushed     time.Time
	Deliveries int64 // leases that counted as delivered, this one included
	Dead       *DeadLetter
	Lease      *Lease // nil when the item was popped for good
}

// DeadLetter says which queue a dead letter came from, why and when.
type DeadLetter struct {
	Reason, Origin, OriginID string

	At         time.Time // by the wall clock of the process that buried it; zero: not known
	Deliveries int64     // that it had in its queue
}

func (f *located) item() (Item, error) {
	seq, err := f.place.count()
	if err != nil {
		return Item{}, err
	}
	item := Item{
		ID:         f.envelope.id(f.place),
		Seq:        seq,
		Priority:   f.place.priority,
		Key:        f.envelope.key,
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
