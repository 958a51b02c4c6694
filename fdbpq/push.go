package fdbpq

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/tuple"
)

// NewItem is an item to be pushed.
type NewItem struct {
	Payload []byte
	Headers []byte // travel with the item; their form is the caller's business

	Priority    int64
	HasPriority bool // otherwise the queue's default

	Delay     time.Duration // not takeable before that
	NotBefore time.Time     // the same, by this process's wall clock; zero: no such bound
	TTL       time.Duration // how long it may wait to be taken; 0: the queue's default
	MsgID     string        // pushed once within the queue's window, however often it is sent
}

// Pushed tells what became of an item.
type Pushed struct {
	ID        ID
	Seq       int64 // place in push order
	Priority  int64
	Duplicate bool  // ID and Seq are those of the first push with this message id
	Evicted   bool  // the queue was full and this was its least urgent item
	Err       error // this item was refused, without effect on the others

	Events []Event // items that this one drove out of a full queue, itself perhaps
}

// ErrTime: a delay or a TTL is out of bounds.
var ErrTime = errors.New("time out of bounds")

// Push adds items to the queue, in their order, and makes the queue if need
// be. Pushes do not conflict with each other nor with pops.
func (q Queue) Push(tx kv.Tx, items ...NewItem) ([]Pushed, error) {
	tx.Prefetch(queueRow(spaceState, q.name), queueRow(spaceHigh, q.name))
	for i := range items {
		if items[i].MsgID != "" {
			tx.Prefetch(dedupRow(q.name, items[i].MsgID))
		}
	}
	p, err := q.admit(tx)
	if err != nil {
		return nil, err
	}
	results := make([]Pushed, len(items))
	if err := p.limits(items); err != nil {
		return nil, err
	}
	for i := range items {
		if results[i], err = p.push(&items[i]); err != nil {
			return nil, err
		}
		if err := p.evict(results[:i+1]); err != nil {
			return nil, err
		}
	}
	p.finish()
	return results, nil
}

// admit begins to put something into the queue, which need not be there unless
// the store refuses unknown ones.
func (q Queue) admit(tx kv.Tx) (*pusher, error) {
	s, exists, err := q.open(tx)
	if err == nil && !exists && q.store.refuseUnknown {
		err = ErrNoQueue
	}
	if err != nil {
		return nil, err
	}
	p, err := q.change(tx, s).newPusher()
	if err != nil {
		return nil, err
	}
	p.missing = !exists
	return p, nil
}

// accept makes the queue if it is missing: an item is taken in.
func (p *pusher) accept() error {
	if !p.missing {
		return nil
	}
	p.missing = false
	return p.found(p.tx, p.state)
}

// pusher assigns places within one transaction.
type pusher struct {
	*change
	missing bool   // the queue is made with the first item that is taken in
	count   int64  // last one assigned
	pushed  int64  // wall clock of this transaction
	before  Counts // of the queue, where a limit asks for it
	fences  int64  // highest that an import promised to exceed; 0: not read yet
}

// newPusher reads the highest count by snapshot: it rises with every push, and
// a dependency on it would make all pushes conflict.
func (c *change) newPusher() (*pusher, error) {
	high, err := c.past.Get(queueRow(spaceHigh, c.name))
	if err != nil {
		return nil, err
	}
	return &pusher{
		change: c,
		count:  int64(kv.DecodeInteger(high)),
		pushed: c.store.clock.wall().UnixNano(),
	}, nil
}

// limits reads what the limits of the queue are compared with. The counters
// are read by snapshot: limits may be exceeded by what is under way elsewhere.
func (p *pusher) limits(items []NewItem) (err error) {
	withID := slices.ContainsFunc(items, func(item NewItem) bool { return item.MsgID != "" })
	if p.state.config.MaxLength > 0 || withID {
		p.before, err = p.counts(p.past, p.state.generation)
	}
	return err
}

func (p *pusher) push(item *NewItem) (Pushed, error) {
	priority := item.Priority
	if !item.HasPriority {
		priority = p.state.config.Priority
	}
	if err := checkMsgID(item.MsgID); err != nil {
		return Pushed{Err: err}, nil
	}
	if item.MsgID != "" {
		first, err := p.recall(item.MsgID)
		if err != nil {
			return Pushed{}, err
		}
		if first != nil {
			seq, err := first.id.place.count()
			return Pushed{ID: first.id, Seq: seq, Priority: first.id.place.priority, Duplicate: true}, err
		}
	}
	if err := p.refuse(item); err != nil {
		return Pushed{Err: err}, nil
	}
	at := place{priority: priority, tail: newTail(p.count + 1)}
	e := envelope{pushed: p.pushed, home: priority}
	if err := p.storeContent(&e, at, item.Headers, item.Payload); err != nil {
		return Pushed{Err: err}, nil
	}
	if err := p.accept(); err != nil {
		return Pushed{}, err
	}
	p.count++
	due, err := p.schedule(item, &e)
	if err != nil {
		return Pushed{}, err
	}
	p.tally.bytes += e.size
	if due != 0 {
		p.addDelayed(at, due, &e)
	} else {
		p.addReady(at, &e)
	}
	pushed := Pushed{ID: ID{at}, Seq: p.count, Priority: priority}
	if item.MsgID != "" {
		err = p.remember(item.MsgID, pushed.ID)
	}
	return pushed, err
}

// refuse says why an item may not be taken in.
func (p *pusher) refuse(item *NewItem) error {
	if delay := p.delay(item); delay > MaxDelay {
		return fmt.Errorf("%w: delay of %s, allowed are up to %s", ErrTime, delay, MaxDelay)
	}
	if item.TTL > MaxDelay {
		return fmt.Errorf("%w: TTL of %s, allowed are up to %s", ErrTime, item.TTL, MaxDelay)
	}
	config := &p.state.config
	if config.MaxLength > 0 && config.Overflow == OverflowRefuse && p.length() >= config.MaxLength {
		return fmt.Errorf("%w: its max_length is %d", ErrFull, config.MaxLength)
	}
	if item.MsgID != "" && p.before.Remembered+p.tally.remembered >= config.DedupLimit {
		return fmt.Errorf("%w: the queue's dedup_limit is %d", ErrRemembered, config.DedupLimit)
	}
	return nil
}

// length is the number of items in the queue as this transaction knows it.
func (p *pusher) length() int64 {
	return p.before.Length() + p.tally.ready + p.tally.leased + p.tally.delayed
}

// maxEvicted bounds how many items one push drives out. It is more than one so
// that a queue whose limit was lowered shrinks, and few so that the transaction
// stays small.
const maxEvicted = 8

// evict removes the least urgent ready items when the queue exceeds its length
// after the last of these pushes, and tells which of them went.
func (p *pusher) evict(results []Pushed) error {
	config := &p.state.config
	if config.MaxLength == 0 || config.Overflow != OverflowEvict {
		return nil
	}
	for n := 0; n < maxEvicted && p.length() > config.MaxLength; n++ {
		last := p.scan(p.past, p.state, Max, AllPriorities)
		last.oldest = false // what goes is the newest, whatever pop.max takes
		entries, err := last.next(1, 0)
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			break // all of it is leased or delayed
		}
		at := entries[0].place
		e, err := parseEnvelope(entries[0].value, at)
		if err != nil {
			return err
		}
		p.removeReady(at, &e)
		p.drop(at, &e)
		p.note(Event{Type: EventEvicted, ID: e.id(at), Priority: at.priority})
		for i := range results {
			if results[i].ID == e.id(at) && results[i].Err == nil && !results[i].Duplicate {
				results[i].Evicted = true
			}
		}
	}
	results[len(results)-1].Events, p.events = p.events, nil
	return nil
}

// delay is how long an item stays out of the way, by this process's clock.
func (p *pusher) delay(item *NewItem) time.Duration {
	if !item.NotBefore.IsZero() {
		return item.NotBefore.Sub(p.store.clock.wall())
	}
	return item.Delay
}

// schedule sets when the item expires and returns when it becomes ready, 0 for
// at once.
func (p *pusher) schedule(item *NewItem, e *envelope) (due int64, err error) {
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

// finish raises the queue's highest count and completes the change.
func (p *pusher) finish() {
	if p.missing {
		return // nothing was taken in
	}
	p.tx.Max(queueRow(spaceHigh, p.name), uint64(p.count))
	p.change.finish()
}

// addDelayed puts an item where it is out of the way until it is due.
func (c *change) addDelayed(at place, due int64, e *envelope) {
	c.set(spaceDelayed, at, e.append(tuple.AppendInt(c.buffers.value[:0], due)))
	c.setTimer(due, timerDelay, at)
	c.setExpiry(at, e)
	c.tally.delayed++
}
