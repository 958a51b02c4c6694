package fdbpq

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// NewItem is an item to be pushed.
type NewItem struct {
	Payload []byte
	Headers []byte // opaque to this package

	Priority    int64
	HasPriority bool // otherwise the queue's default

	Delay     time.Duration // until the item is ready
	NotBefore time.Time     // the same as a time of day, by this process's wall clock; zero: none
	TTL       time.Duration // until the item expires, unless it is popped; 0: the queue's default
	MsgID     string        // pushes with the same id within the queue's dedup window add one item
	Key       string        // whose item it is; "": nobody's
	Weight    int64         // of its key where keys take turns, from this push on; 0: as it is

	// HandOver is a lease that the push acknowledges in its transaction, nil for none.
	// The push is refused if the lease is lost (*LostError), or if the configuration of
	// the lease's queue does not name this queue (ErrHandOver).
	HandOver *Lease

	// Unique is a value that one item of the queue has at a time, from its push until it
	// is gone or dead, "" for none. OnConflict says what a push does when another item has
	// it. With UniqueUntilLeased the item's first lease ends the claim to it.
	Unique            string
	OnConflict        OnConflict
	UniqueUntilLeased bool

	reserved bool // its unique value may be one that no push may have
}

// size is what the item counts in the queue's bytes.
func (item *NewItem) size() int64 { return int64(len(item.Headers) + len(item.Payload)) }

// Pushed is the result of the push of one item.
type Pushed struct {
	ID        ID
	Seq       int64 // number in push order
	Priority  int64
	Duplicate bool  // no item was added: ID and Seq are those of the item with this message id or unique value
	Evicted   bool  // the queue was full, and this item was its least urgent one
	Err       error // this item was refused, without effect on the others

	Events []Event // of items that this push evicted from a full queue, perhaps this one, or found past their TTL
}

// ErrTime: a delay or a TTL is out of bounds.
var ErrTime = errors.New("time out of bounds")

// Push adds items to the queue in their order, and makes the queue if need be.
// Pushes conflict neither with each other nor with pops.
func (q Queue) Push(tx kv.Tx, items ...NewItem) ([]Pushed, error) {
	q.PrefetchPush(tx, items...)
	p, err := q.openForPush(tx)
	if err != nil {
		return nil, err
	}
	results := make([]Pushed, len(items))
	if err := p.readCounts(items); err != nil {
		return nil, err
	}
	for i := range items {
		if results[i], err = p.push(&items[i]); err != nil {
			return nil, err
		}
		if results[i].Err == nil && !results[i].Duplicate {
			p.evict(results[:i+1])
		}
		results[i].Events = p.happened()
	}
	return results, p.done()
}

// PrefetchPush says which items the transaction is about to push, so that an engine over a
// network reads what the push depends on at the same time.
func (q Queue) PrefetchPush(tx kv.Tx, items ...NewItem) {
	tx.Prefetch(queueRow(spaceState, q.name), queueRow(spaceHigh, q.name))
	guess := q.store.queueStates.guess(q.name)
	counts, time := q.store.limited(&guess.config), guess.config.TTL > 0
	for i := range items {
		item := &items[i]
		if item.MsgID != "" {
			tx.Prefetch(msgIDRow(q.name, item.MsgID))
			counts, time = true, true
		}
		if item.Unique != "" {
			tx.Prefetch(uniqueRow(q.name, guess.generation, item.Unique))
		}
		if item.Delay > 0 || item.TTL > 0 || !item.NotBefore.IsZero() {
			time = true
		}
		if lease := item.HandOver; lease != nil {
			q.store.Queue(lease.Queue).PrefetchLeases(tx, *lease)
		}
	}
	if counts {
		tx.Prefetch(counterKeys(q.name, guess.generation)...)
	}
	if time {
		tx.Prefetch(row(spaceTime))
	}
}

// openForPush begins to add items to the queue. ErrNoQueue: there is no such queue,
// and the store's options forbid to make it.
func (q Queue) openForPush(tx kv.Tx) (*pusher, error) {
	qtx, err := q.open(tx)
	if err != nil {
		return nil, err
	}
	p, err := qtx.pusher(q.name)
	if err != nil {
		return nil, err
	}
	p.full = q.full
	return p, nil
}

// pusher is what adds items to a queue of the Work.
func (w *Work) pusher(queue string) (*pusher, error) {
	qtx, err := w.queue(queue)
	if err != nil {
		return nil, err
	}
	if !qtx.there() && w.store.refuseUnknown {
		return nil, ErrNoQueue
	}
	if err := qtx.orNew(); err != nil {
		return nil, err
	}
	if _, err := qtx.highest(); err != nil {
		return nil, err
	}
	return &pusher{queueTx: qtx, pushed: w.store.clock.Wall().UnixNano()}, nil
}

// prepare makes the queue with its first item, and has it keep items with keys, or with
// unique values, from the first one on.
func (p *pusher) prepare(e *envelope) error {
	first := e.key != "" && !p.state.keyed || e.unique != "" && !p.state.unique
	if first {
		changed := *p.state
		changed.keyed, changed.unique = changed.keyed || e.key != "", changed.unique || e.unique != ""
		p.state = &changed
	}
	if p.missing {
		return p.create(p.state)
	}
	if first {
		return p.writeState(p.state)
	}
	return nil
}

// pusher assigns places within one transaction.
type pusher struct {
	*queueTx
	full        error   // why no new items are added
	pushed      int64   // wall clock of this transaction
	counted     Counts  // of the queue, without what the Work has not written yet; read when a limit depends on it
	added       located // the last item that was added
	victims     []located
	dropsItself bool // the item that is about to be added is a victim, too
	itself      int  // its number among them
}

// readCounts reads the counters if a limit depends on them. It reads by snapshot, so
// concurrent transactions may exceed a limit.
func (p *pusher) readCounts(items []NewItem) (err error) {
	withID := slices.ContainsFunc(items, func(item NewItem) bool { return item.MsgID != "" })
	if p.store.limited(&p.state.config) || withID {
		p.counted, err = countsOf(p.name, p.snapshot, p.state.generation)
	}
	return err
}

func (p *pusher) push(item *NewItem) (Pushed, error) {
	priority := item.Priority
	if !item.HasPriority {
		priority = p.state.config.Priority
	}
	if err := cmp.Or(checkMsgID(item.MsgID), CheckKey(item.Key), item.checkWeight(), item.checkUnique()); err != nil {
		return Pushed{Err: err}, nil
	}
	if item.MsgID != "" {
		first, err := ids{p.queueTx}.first(item.MsgID)
		if err != nil {
			return Pushed{}, err
		}
		if first != nil {
			return p.pushAgain(item, first)
		}
	}
	handOver, refused, err := p.openHandOver(item.HandOver)
	if refused != nil || err != nil {
		return Pushed{Err: refused}, err
	}
	if item.Unique != "" {
		living, err := p.claimant(item.Unique, handOver)
		if err != nil {
			return Pushed{}, err
		}
		if living != nil {
			return p.resolve(item, priority, living, handOver)
		}
	}
	return p.add(item, envelope{unique: item.Unique, untilLeased: item.UniqueUntilLeased, key: item.Key}, priority, handOver)
}

// add adds an item to the queue unless its limits forbid that, in place of one that is handed
// over if there is one. e is what the item has besides its content and its times.
func (p *pusher) add(item *NewItem, e envelope, priority int64, handOver *handOver) (Pushed, error) {
	if refused, err := p.checkLimits(item, priority, handOver); refused != nil || err != nil {
		return Pushed{Err: refused}, err
	}
	l := located{envelope: e}
	l.pushed = p.pushed
	seq := p.assign(&l, priority)
	if err := (contents{p.queueTx}).write(&l.envelope, l.place, item.Headers, item.Payload); err != nil {
		return Pushed{Err: err}, nil
	}
	if err := p.prepare(&l.envelope); err != nil {
		return Pushed{}, err
	}
	handOver.acknowledge()
	p.issue(seq)
	due, err := p.timesOf(item, &l.envelope)
	if err != nil {
		return Pushed{}, err
	}
	if item.Weight != 0 && p.state.config.Fair != "" && due == 0 { // a pop forgets it with the last ready item
		p.tx.Set(fair{p.queueTx}.weightRow(item.Key), tuple.AppendInt(nil, item.Weight))
	}
	p.change(nil, l.from(due))
	p.added = l
	pushed := Pushed{ID: ID{l.place}, Seq: seq, Priority: priority}
	if item.MsgID != "" {
		err = ids{p.queueTx}.remember(item.MsgID, pushed.ID)
	}
	return pushed, err
}

// assign gives a new item, which is ready, the place behind all of its priority, and returns
// its number in push order.
func (p *pusher) assign(l *located, priority int64) (seq int64) {
	seq = p.issued.count + 1
	l.idPriority = priority
	l.place.tail = newTail(seq)
	l.at(priority).from(0)
	return seq
}

// pushAgain answers the push of an item that was pushed before. A lease that it hands
// over is acknowledged if it is still valid: the item has been delivered again since.
func (p *pusher) pushAgain(item *NewItem, first *rememberedPush) (Pushed, error) {
	handOver, refused, err := p.openHandOver(item.HandOver)
	if err != nil {
		return Pushed{}, err
	}
	if errors.Is(refused, ErrHandOver) {
		return Pushed{Err: refused}, nil
	}
	handOver.acknowledge()
	seq, err := first.id.place.count()
	return Pushed{ID: first.id, Seq: seq, Priority: first.id.place.priority, Duplicate: true}, err
}

// checkLimits returns why the item may not be pushed, nil if it may.
func (p *pusher) checkLimits(item *NewItem, priority int64, handOver *handOver) (refused, err error) {
	if p.full != nil && (handOver == nil || item.size() > handOver.item.size) {
		return p.full, nil
	}
	delay := p.delay(item)
	if delay > MaxDelay {
		return fmt.Errorf("%w: delay of %s, allowed are up to %s", ErrTime, delay, MaxDelay), nil
	}
	if item.TTL > MaxDelay {
		return fmt.Errorf("%w: TTL of %s, allowed are up to %s", ErrTime, item.TTL, MaxDelay), nil
	}
	if refused, err := p.makeRoom(item.size(), priority, delay > 0, handOver); refused != nil || err != nil {
		return refused, err
	}
	if item.MsgID != "" {
		return ids{p.queueTx}.room(p.counted.Remembered), nil
	}
	return nil, nil
}

// delay returns the item's delay; NotBefore is by this process's wall clock.
func (p *pusher) delay(item *NewItem) time.Duration {
	if !item.NotBefore.IsZero() {
		return item.NotBefore.Sub(p.store.clock.Wall())
	}
	return item.Delay
}

// timesOf sets the end of the item's TTL and returns the end of its delay, 0 for
// none.
func (p *pusher) timesOf(item *NewItem, e *envelope) (due int64, err error) {
	ttl := item.TTL
	if ttl == 0 {
		ttl = time.Duration(p.state.config.TTL)
	}
	delay := p.delay(item)
	if ttl <= 0 && delay <= 0 {
		return 0, nil
	}
	now, err := p.now()
	if err != nil {
		return 0, err
	}
	if ttl > 0 {
		e.expires = now + int64(ttl)
	}
	if delay > 0 {
		due = now + int64(delay)
	}
	return due, nil
}
