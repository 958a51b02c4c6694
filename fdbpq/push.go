package fdbpq

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Push adds items to the queue in their order, and makes the queue if need be.
// Pushes conflict neither with each other nor with pops.
func (q Queue) Push(tx kv.Tx, items ...NewItem) ([]Pushed, error) {
	q.PrefetchPush(tx, items...)
	var p pusher
	if err := q.openForPush(tx, &p); err != nil {
		return nil, err
	}
	results := make([]Pushed, len(items))
	if err := p.readCounts(items); err != nil {
		return nil, err
	}
	for i := range items {
		pushed, err := p.push(&items[i])
		if err != nil {
			return nil, err
		}
		if results[i] = pushed; pushed.Err == nil && !pushed.Duplicate {
			if err := p.eviction.run(&p, results[:i+1]); err != nil {
				return nil, err
			}
		}
		results[i].Events = p.happened()
	}
	return results, p.done()
}

// PrefetchPush says which items the transaction is about to push, so that an engine over a
// network reads what the push depends on at the same time.
func (q Queue) PrefetchPush(tx kv.Tx, items ...NewItem) {
	var known *queueTx
	if q.work != nil {
		known = q.work.known(q.name)
	}
	var guess *queueState
	if known == nil {
		tx.Prefetch(layout.QueueRow(layout.SpaceState, q.name), layout.QueueRow(layout.SpaceHigh, q.name))
		guess = q.store.queueStates.guess(q.name)
	} else {
		guess = known.state
	}
	counts, time := q.store.limited(&guess.config), guess.config.TTL > 0
	for i := range items {
		item := &items[i]
		if item.MsgID != "" {
			tx.Prefetch(msgIDRow(q.name, item.MsgID))
			counts, time = true, true
		}
		if item.Unique != "" {
			tx.Prefetch(uniqueRow(q.name, guess.generation, item.claims()))
		}
		if item.Delay > 0 || item.TTL > 0 || !item.NotBefore.IsZero() {
			time = true
		}
		if lease := item.HandOver; lease != nil {
			q.store.Queue(lease.Queue).PrefetchLeases(tx, *lease)
		}
	}
	if counts && (known == nil || known.stored == nil) {
		tx.Prefetch(layout.CounterKeys(q.name, guess.generation, q.store.countersOf(&guess.config))...)
	}
	if time && (known == nil || known.storeTime == 0) {
		tx.Prefetch(layout.Row(layout.SpaceTime))
	}
}

// openForPush begins to add items to the queue. The caller has the memory, as a Work may push often.
func (q Queue) openForPush(tx kv.Tx, p *pusher) error {
	qtx, err := q.open(tx)
	if err != nil {
		return err
	}
	p.full = q.full
	return p.open(qtx)
}

// Pushed is the result of the push of one item.
type Pushed struct {
	ID        ID
	Seq       int64 // number in push order
	Priority  int64
	Duplicate bool  // no item was added: ID and Seq are of the item that has this message id or unique value
	Evicted   bool  // the queue was full, and this item was the least urgent
	Err       error // this item was refused, without effect on the others

	Events []Event // of items that this push evicted from a full queue, perhaps this one, or found past their TTL
}

// pusher assigns places within one transaction.
type pusher struct {
	*queueTx
	full     error       // the reason to refuse new items
	pushed   int64       // wall clock of this transaction
	counted  Counts      // of the queue, without what the Work has not written yet, if a limit depends on it
	added    layout.Item // the last item that was added
	eviction eviction    // for the item that is about to be added
}

// newPusher returns what adds items to a queue of a Work.
func newPusher(w *Work, queue string) (*pusher, error) {
	qtx, err := w.queue(queue)
	if err != nil {
		return nil, err
	}
	p := new(pusher)
	return p, p.open(qtx)
}

// open begins to add items to a queue. ErrNoQueue: there is no such queue,
// and the store's options forbid to make it.
func (p *pusher) open(qtx *queueTx) error {
	if !qtx.there() && qtx.store.refuseUnknown {
		return ErrNoQueue
	}
	if err := qtx.stageNew(); err != nil {
		return err
	}
	if _, err := qtx.highest(); err != nil {
		return err
	}
	if qtx.wall == 0 {
		qtx.wall = qtx.store.inside.Clock.Wall().UnixNano()
	}
	p.queueTx, p.pushed = qtx, qtx.wall
	return nil
}

// prepare makes the queue with its first item, and has it keep items with keys, with costs, or that ask for results, from the first one on.
func (p *pusher) prepare(e *layout.Envelope) error {
	if err := p.disuse.use(); err != nil {
		return err
	}
	costs := p.state.config.Fair != "" && e.Costs() != 1
	first := e.Key != "" && !p.state.keyed || e.Asks != 0 && !p.state.results || costs && !p.state.fairTags
	if first {
		changed := *p.state
		changed.keyed, changed.results = changed.keyed || e.Key != "", changed.results || e.Asks != 0
		changed.fairTags = changed.fairTags || costs
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

// readCounts reads the counters if a limit depends on them.
func (p *pusher) readCounts(items []NewItem) error {
	depends := p.store.limited(&p.state.config)
	for i := range items {
		depends = depends || items[i].MsgID != ""
	}
	if !depends {
		return nil
	}
	_, err := p.capacity.countsSoFar()
	if err == nil {
		p.counted = Counts{}.with(p.stored)
	}
	return err
}

func (p *pusher) push(item *NewItem) (Pushed, error) {
	priority := item.Priority
	if !item.HasPriority {
		priority = p.state.config.Priority
	}
	err := cmp.Or(checkMsgID(item.MsgID), CheckKey(item.Key), CheckWeight(item.Key, item.Weight),
		item.checkUnique(), checkResultTTL(item.ResultTTL), item.checkCosts())
	if err != nil {
		return Pushed{Err: err}, nil
	}
	if item.MsgID != "" {
		first, err := p.ids.first(item.MsgID)
		if err != nil {
			return Pushed{}, err
		}
		if first != nil {
			return p.pushAgain(item, first)
		}
	}
	handOver, refused, err := openHandOver(p.queueTx, item.HandOver)
	if refused != nil || err != nil {
		return Pushed{Err: refused}, err
	}
	unique := item.claims()
	if unique != "" {
		living, err := p.claimant(unique, handOver)
		if err != nil {
			return Pushed{}, err
		}
		if living != nil {
			return p.resolve(item, priority, living, handOver)
		}
	}
	e := layout.Envelope{Unique: unique, UntilLeased: item.UniqueUntilLeased, Key: item.Key, Asks: asksFor(item.ResultTTL), Cost: storedCost(item.Cost)}
	return p.add(item, e, priority, handOver)
}

// pushAgain answers the push of an item that was pushed before. A lease that it hands
// over is acknowledged if it is still valid: the item has been delivered again since.
func (p *pusher) pushAgain(item *NewItem, first *rememberedPush) (Pushed, error) {
	handOver, refused, err := openHandOver(p.queueTx, item.HandOver)
	if err != nil {
		return Pushed{}, err
	}
	if errors.Is(refused, ErrHandOver) {
		return Pushed{Err: refused}, nil
	}
	if err := handOver.acknowledge(p.name, first.id); err != nil {
		return Pushed{}, err
	}
	seq, err := first.id.place.Count()
	return Pushed{ID: first.id, Seq: seq, Priority: first.id.place.Priority, Duplicate: true}, err
}

// claimant returns the living item with a unique value, nil for a free value. An item
// past its TTL ends here if it has not ended yet. The commit depends on the answer, so
// two pushes cannot both be the first. An item that is handed over leaves its value.
func (p *pusher) claimant(value string, h *handOver) (*layout.Item, error) {
	row, err := p.tx.Get(p.unique.row(value))
	if err != nil || row == nil {
		return nil, err
	}
	home, err := layout.ParsePlace(row)
	if err != nil {
		return nil, fmt.Errorf("damaged row of a unique value: %w", err)
	}
	item, err := p.locate(p.tx, ID{home})
	if err != nil || item == nil || item.Unique != value || h.hands(item, p.queueTx) {
		return nil, err
	}
	if item.Expires == 0 {
		return item, nil
	}
	now, err := p.now()
	if err != nil || item.Expires > now || item.State == layout.StateLeased && item.Due > now {
		return item, err
	}
	if item.State == layout.StateLeased {
		return nil, p.retries.runOut(item)
	}
	return nil, p.expiries.expire(item)
}

// resolve is a push whose unique value a living item has.
func (p *pusher) resolve(item *NewItem, priority int64, living *layout.Item, handOver *handOver) (Pushed, error) {
	if item.MsgID != "" {
		if err := p.ids.room(item.MsgID, p.counted.Remembered); err != nil {
			return Pushed{Err: err}, nil
		}
	}
	seq, err := living.Place.Count()
	if err != nil {
		return Pushed{}, err
	}
	pushed := Pushed{ID: idOf(living), Seq: seq, Priority: living.ReturnPriority, Duplicate: true}
	switch {
	case item.OnConflict == ConflictReplace && living.State == layout.StateLeased:
		return Pushed{Err: ErrLeased}, nil
	case item.OnConflict == ConflictReplace && item.Key != living.Key:
		return Pushed{Err: fmt.Errorf("%w: %q", ErrAnotherKey, living.Key)}, nil
	case item.OnConflict == ConflictReplace && p.full != nil && item.size() > living.Size:
		return Pushed{Err: p.full}, nil
	case item.OnConflict == ConflictReplace && item.size() > living.Size && p.capacity.excess(p.counted.with(&p.tally)).bytes+item.size()-living.Size > 0:
		return Pushed{Err: p.capacity.tooFull(amount{bytes: 1})}, nil
	case item.OnConflict == ConflictReplace:
		if err := checkContent(item.Headers, item.Payload); err != nil {
			return Pushed{Err: err}, nil
		}
		if err := p.replaceContent(living, item); err != nil {
			return Pushed{}, err
		}
	case item.OnConflict == ConflictRaise && priority < living.ReturnPriority:
		p.move(living, priority)
		pushed.Priority = priority
	}
	if err := handOver.acknowledge(p.name, pushed.ID); err != nil {
		return Pushed{}, err
	}
	if item.MsgID != "" {
		err = p.ids.remember(item.MsgID, pushed.ID)
	}
	return pushed, err
}

// replaceContent gives an item that is not leased the content of a push.
func (p *pusher) replaceContent(living *layout.Item, item *NewItem) error {
	fresh := *living
	fresh.Chunks, fresh.Cost = 0, storedCost(item.Cost)
	if err := p.contents.write(&fresh.Envelope, fresh.Place, item.Headers, item.Payload); err != nil {
		return err
	}
	p.change(living, &fresh)
	return nil
}

// add adds an item to the queue unless its limits forbid that, in place of one that is handed
// over if there is one. e is what the item has besides its content and its times.
func (p *pusher) add(item *NewItem, e layout.Envelope, priority int64, handOver *handOver) (Pushed, error) {
	if refused, err := p.checkLimits(item, &e, priority, handOver); refused != nil || err != nil {
		return Pushed{Err: refused}, err
	}
	l := layout.Item{Envelope: e}
	l.PushedAt = p.pushed
	seq := p.assign(&l, priority)
	if err := p.contents.write(&l.Envelope, l.Place, item.Headers, item.Payload); err != nil {
		return Pushed{Err: err}, nil
	}
	if err := p.prepare(&l.Envelope); err != nil {
		return Pushed{}, err
	}
	if err := handOver.acknowledge(p.name, ID{l.Place}); err != nil {
		return Pushed{}, err
	}
	p.issue(seq)
	due, err := p.timesOf(item, &l.Envelope)
	if err != nil {
		return Pushed{}, err
	}
	if item.Weight != 0 && p.state.config.Fair != "" && due == 0 { // a pop forgets it with the last ready item
		p.tx.Set(p.fairIndex.weightRow(item.Key), tuple.AppendInt(nil, item.Weight))
		if item.Weight != 1 {
			if err := p.fairIndex.keepTags(); err != nil {
				return Pushed{}, err
			}
		}
	}
	p.enter(l.From(due))
	p.added = l
	pushed := Pushed{ID: ID{l.Place}, Seq: seq, Priority: priority}
	if item.MsgID != "" {
		err = p.ids.remember(item.MsgID, pushed.ID)
	}
	return pushed, err
}

// checkLimits returns the reason to refuse a push, nil within all limits.
func (p *pusher) checkLimits(item *NewItem, e *layout.Envelope, priority int64, handOver *handOver) (refused, err error) {
	if p.full != nil && (handOver == nil || item.size() > handOver.item.Size) {
		return p.full, nil
	}
	if full := p.store.room.full(); full != nil && !handOver.replacedBy(item) {
		return full, nil
	}
	if refused, err := p.results.full(e.Asks); refused != nil || err != nil {
		return refused, err
	}
	delay := p.delay(item)
	if delay > MaxDelay {
		return fmt.Errorf("%w: delay of %s, allowed are up to %s", ErrTime, delay, MaxDelay), nil
	}
	if item.TTL > MaxDelay {
		return fmt.Errorf("%w: TTL of %s, allowed are up to %s", ErrTime, item.TTL, MaxDelay), nil
	}
	if refused, err := p.eviction.choose(p, amountOf(item.size()+e.WithOverhead()), priority, delay > 0, handOver); refused != nil || err != nil {
		return refused, err
	}
	if item.MsgID != "" {
		return p.ids.room(item.MsgID, p.counted.Remembered), nil
	}
	return nil, nil
}

// lay adds a dead letter, which has its place, to a dead-letter queue.
func (p *pusher) lay(buried *layout.Item, seq int64, headers, payload []byte) error {
	if err := p.contents.write(&buried.Envelope, buried.Place, headers, payload); err != nil {
		return err
	}
	if _, err := p.timesOf(&NewItem{}, &buried.Envelope); err != nil {
		return err
	}
	if err := p.prepare(&buried.Envelope); err != nil {
		return err
	}
	p.issue(seq)
	p.enter(buried)
	return nil
}

// assign gives a new item, which is ready, the place behind all of its priority, and returns
// its number in push order.
func (p *pusher) assign(l *layout.Item, priority int64) (seq int64) {
	seq = p.assigned.count + 1
	l.IDPriority = priority
	l.Place.Suffix = layout.NewSuffix(seq)
	l.At(priority).From(0)
	return seq
}

// delay returns the item's delay; NotBefore is by this process's wall clock.
func (p *pusher) delay(item *NewItem) time.Duration {
	if !item.NotBefore.IsZero() {
		return item.NotBefore.Sub(p.store.inside.Clock.Wall())
	}
	return item.Delay
}

// timesOf sets the end of the item's TTL and returns the end of its delay, 0
// without a delay.
func (p *pusher) timesOf(item *NewItem, e *layout.Envelope) (due int64, err error) {
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
		e.Expires = now + int64(ttl)
	}
	if delay > 0 {
		due = now + int64(delay)
	}
	return due, nil
}

// A unique value has one row, which names the item by its id. A push depends on that row and on
// the rows of the item. The transaction that ends the item clears the row blindly, so pops and
// settlements read nothing more. The item repeats its value: a row whose item does not have the
// value does not count.

// unique keeps the row of each unique value.
type unique struct{ *queueRows }

// reservedUnique begins the unique values that no push may have: the store gives them itself.
const reservedUnique = "\x00"

// changed gives a unique value to an item, or ends the claim of an item to its value.
func (u unique) changed(before, after *layout.Item) {
	if before.Unique == after.Unique {
		return
	}
	if before.Unique != "" {
		u.tx.Clear(u.row(before.Unique))
	}
	if after.Unique != "" {
		u.tx.Set(u.row(after.Unique), after.Home().Append(nil))
	}
}

func (u unique) row(value string) []byte {
	return uniqueRow(u.name, u.state.generation, value)
}

// uniqueRow returns the key of a unique value in one generation of a queue.
func uniqueRow(queue string, generation int64, value string) []byte {
	return tuple.AppendBytes(layout.GenerationPrefix(layout.SpaceUnique, queue, generation), []byte(value))
}

// endClaim ends the claim of an item that is leased, if its push said so.
func endClaim(e *layout.Envelope) {
	if e.UntilLeased {
		e.Unique, e.UntilLeased = "", false
	}
}

// claimOf is the claim of an item as it is shown. Claims to reserved values are not shown.
func claimOf(e *layout.Envelope) (value string, untilLeased bool) {
	if strings.HasPrefix(e.Unique, reservedUnique) {
		return "", false
	}
	return e.Unique, e.UntilLeased
}
