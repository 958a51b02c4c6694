package fdbpq

import (
	"cmp"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Popped is the result of a pop or a peek.
type Popped struct {
	Items []Item

	// Leased is for how long the items were leased, 0 if they were popped for good.
	Leased time.Duration

	// Ready is the queue's counter of ready items after a pop that found some, or of ReasonBand.
	Ready int64

	// Reason says why there are no items. It compares the queue's counters of all
	// priorities as they were when the transaction began; ReasonBand looks into the band.
	Reason Reason

	// Repeated: an earlier pop with this id has popped the items.
	Repeated bool

	// Retry is the time until a pop may find an item although none arrives meanwhile,
	// because a rate allows it then. 0: it cannot.
	Retry time.Duration

	// Final: the pop's id is remembered to have popped nothing, so it never will.
	Final bool

	// Events report items past their TTL that the pop removed.
	Events []Event

	// More: the transaction removed as many items past their TTL as it may, and found
	// no others so far. Commit and pop again.
	More bool
}

// Pop removes items from one end of the queue; no other transaction gets them.
//
// It reads the head by snapshot, and the commit depends only on the popped items:
// pops conflict when they choose the same item, and never with pushes. An item
// whose push committed before the transaction began is not passed over for a less
// urgent one. In a strict queue no item is passed over that is there when the pop
// commits: the pop runs again after a push in front of the items that it takes.
func (q Queue) Pop(tx kv.Tx, sel Selection) (Popped, error) {
	return q.pop(tx, sel, 0)
}

// prefetchRows says which rows the transaction is about to read.
func (q Queue) prefetchRows(tx kv.Tx, lease time.Duration) {
	tx.Prefetch(queueRow(spaceState, q.name), counterKey(q.name, q.store.queueStates.guess(q.name).generation, counterReady))
	if lease > 0 {
		tx.Prefetch(row(spaceTime))
	}
}

// PrefetchPop says that the transaction is about to pop, or to lease if lease is more than
// 0, so that an engine over a network reads rows and items at the same time, for this queue
// and for others.
func (q Queue) PrefetchPop(tx kv.Tx, sel Selection, lease time.Duration) {
	if sel.check() != nil {
		return
	}
	q.prefetchRows(tx, lease)
	guess := q.store.queueStates.guess(q.name)
	if sel.PopID != "" {
		tx.Prefetch(popIDRow(q.name, sel.PopID), row(spaceTime))
		tx.Prefetch(counterKeys(q.name, guess.generation)...)
	}
	if !guess.likelyRead(&sel) {
		return
	}
	spaces := []string{spaceReady, spaceKeyed}
	if !guess.keyed {
		spaces = spaces[:1]
	}
	for _, space := range spaces {
		scanOf(q.name, tx, guess, space, sel.End, *sel.Band, guess.config.Ties).prefetch(tx, sel.Limit, sel.MaxBytes)
	}
}

// pop pops items for good when lease is 0, and otherwise for the time of the lease.
func (q Queue) pop(tx kv.Tx, sel Selection, lease time.Duration) (Popped, error) {
	if err := sel.check(); err != nil {
		return Popped{}, err
	}
	q.prefetchRows(tx, lease)
	if q.work == nil {
		q.work = q.store.work(tx)
	}
	ahead, err := q.work.startReadAhead(q.name, &sel)
	if err != nil {
		return Popped{}, err
	}
	qtx, err := q.open(tx)
	if err != nil {
		return Popped{}, err
	}
	if !qtx.there() {
		return popIDs{qtx}.popUnknown(&sel, lease)
	}
	if sel.PopID != "" {
		again, err := popIDs{qtx}.repeat(&sel, lease)
		if err != nil || again != nil {
			return deref(again), cmp.Or(err, qtx.done())
		}
	}
	if err := qtx.state.refuses(&sel, lease); err != nil {
		return Popped{}, err
	}
	if qtx.state.paused {
		return popIDs{qtx}.popNothing(&sel, lease, ReasonPaused)
	}
	if sel.PopID != "" {
		if err := (popIDs{qtx}).room(); err != nil {
			return Popped{}, err
		}
	}
	return pops{qtx}.pop(&sel, lease, ahead)
}

// pops is what a queue does about pops.
type pops struct{ *queueTx }

// pop selects new items. It first writes the pending changes of the key index, which the
// selection reads, and last those that the pop made itself.
func (p pops) pop(sel *Selection, lease time.Duration, ahead *readAhead) (Popped, error) {
	if err := (keyIndex{p.queueTx}).flush(); err != nil {
		return Popped{}, err
	}
	head := collector{queueTx: p.queueTx, sel: *sel, remove: true, copies: sel.PopID != "" && lease == 0, txSize: p.txSize}
	if ahead != nil && ahead.guess == p.state {
		head.ahead = ahead
	}
	retry, err := head.bound()
	if err != nil {
		return Popped{}, err
	}
	if head.sel.Limit == 0 {
		popped, err := popIDs{p.queueTx}.popNothing(sel, lease, ReasonEmpty)
		if err != nil {
			return Popped{}, err
		}
		return popped, p.completeLater(&popped, *sel.Band, retry)
	}
	if err := head.run(); err != nil {
		return Popped{}, err
	}
	if err := head.spendTokens(); err != nil {
		return Popped{}, err
	}
	p.txSize = head.txSize
	popped := Popped{More: head.more, Items: make([]Item, len(head.items)), Leased: lease}
	for i := range head.items {
		l := &head.items[i]
		if err := (contents{p.queueTx}).load(&l.envelope, l.place); err != nil {
			return Popped{}, err
		}
		var own *Lease
		if lease == 0 {
			p.change(l, nil)
		} else {
			now, err := p.now()
			if err != nil {
				return Popped{}, err
			}
			before := *l
			l.state, l.due, l.since = StateLeased, now+int64(lease), now
			if lease == noEnd {
				l.due, l.since = int64(noEnd), int64(noEnd)
			}
			l.tries++
			l.fence, l.minFence = max(l.fence+1, l.minFence), 0
			l.holder = sel.holder(i)
			l.endClaim()
			p.change(&before, l)
			own = leases{p.queueTx}.of(l)
		}
		item, err := l.item()
		if err != nil {
			return Popped{}, err
		}
		item.Lease = own
		popped.Items[i] = item
	}
	if sel.PopID != "" && len(popped.Items) > 0 {
		if err := (popIDs{p.queueTx}).remember(sel, lease, &popped, head.items); err != nil {
			return Popped{}, err
		}
	}
	if popped.Final = sel.Repeated && len(popped.Items) == 0 && !popped.More; popped.Final {
		if err := (popIDs{p.queueTx}).rememberNothing(sel, lease); err != nil {
			return Popped{}, err
		}
	}
	if len(popped.Items) == 0 && !popped.More && p.state.takesTurns() {
		if popped.Retry, err = head.nextToken(); err != nil {
			return Popped{}, err
		}
	}
	if err := (keyIndex{p.queueTx}).flush(); err != nil {
		return Popped{}, err
	}
	if err := p.done(); err != nil {
		return Popped{}, err
	}
	popped.Events = p.happened()
	return popped, p.complete(&popped, *sel.Band)
}

func deref(t *Popped) Popped {
	if t == nil {
		return Popped{}
	}
	return *t
}

// readAhead is the head of a queue, read before the queue's state is known, so that
// an engine over a network serves it at the same time as prefetched rows.
type readAhead struct {
	guess   *queueState // assumed state
	rest    nextEntries
	entries []entry // the first ones
	given   bool
}

// startReadAhead reads the head of the queue if the queue's state can be guessed and
// the transaction has not read it yet.
func (w *Work) startReadAhead(queue string, sel *Selection) (*readAhead, error) {
	if w.knows(queue) {
		return nil, nil
	}
	guess := w.store.queueStates.last(queue)
	if guess == nil || sel.PopID != "" || !guess.likelyRead(sel) {
		return nil, nil
	}
	next := readyItems(queue, w.front(guess), guess, sel.End, *sel.Band, guess.config.Ties)
	entries, err := next(sel.Limit, sel.MaxBytes)
	return &readAhead{guess: guess, rest: next, entries: entries}, err
}

// likelyRead reports whether a pop is likely to read the head of the queue's ready items.
func (s *queueState) likelyRead(sel *Selection) bool {
	return !(sel.PopID != "" && sel.Repeated) && s.exists && !s.paused && !s.takesTurns() && s.config.Rate == (Rate{}) && !(sel.End == Max && s.config.Ties == TiesOldest)
}

// next returns the entries that were read ahead, and then those that follow.
func (a *readAhead) next(limit, maxBytes int) ([]entry, error) {
	if a.given {
		return a.rest(limit, maxBytes)
	}
	a.given = true
	return a.entries, nil
}

// Reason says why a pop or a peek found no items.
type Reason string

const (
	ReasonUnknown Reason = "unknown" // no such queue
	ReasonPaused  Reason = "paused"
	ReasonRate    Reason = "rate"    // the queue's rate allows no delivery now
	ReasonBlocked Reason = "blocked" // ready items wait for others of their key, or for its rate, or it is paused
	ReasonBand    Reason = "band"    // items are ready, and all of them outside the band
	ReasonLeased  Reason = "leased"  // there are only leased items, and perhaps delayed ones
	ReasonDelayed Reason = "delayed" // there are only delayed items
	ReasonEmpty   Reason = "empty"   // none of these
)

// complete sets Ready or Reason, of a pop or a peek from a band, from the queue's counters.
func (p pops) complete(popped *Popped, band Band) error {
	r, s := p.snapshot, p.state
	if len(popped.Items) > 0 {
		ready, err := r.Get(counterKey(p.name, s.generation, counterReady))
		popped.Ready = max(0, int64(kv.DecodeInteger(ready))+p.tally.ready)
		return err
	}
	n, err := countsOf(p.name, r, s.generation)
	n = n.with(&p.tally)
	switch {
	case err != nil:
	case n.Ready > 0:
		return p.someReady(popped, n.Ready, band)
	case n.Leased > 0:
		popped.Reason = ReasonLeased
	case n.Delayed > 0:
		popped.Reason = ReasonDelayed
	default:
		popped.Reason = ReasonEmpty
	}
	return err
}

// someReady says why a pop or a peek from a band gets none of the queue's n ready items.
func (p pops) someReady(popped *Popped, n int64, band Band) error {
	spent, err := rates{p.queueTx}.spent(bucketRow(p.name), p.state.config.Rate)
	if err != nil || spent {
		popped.Reason = ReasonRate
		return err
	}
	if p.state.takesTurns() {
		popped.Reason = ReasonBlocked
		return nil
	}
	popped.Reason = ReasonEmpty // they are past their TTL
	if band == AllPriorities {
		return nil
	}
	inside, err := readyItems(p.name, p.snapshot, p.state, Min, band, p.state.config.Ties)(1, 1)
	if err == nil && len(inside) == 0 {
		popped.Reason, popped.Ready = ReasonBand, n
	}
	return err
}

// completeLater is complete for a pop that a rate allows no item before a time.
func (p pops) completeLater(popped *Popped, band Band, retry time.Duration) error {
	err := p.complete(popped, band)
	if popped.Reason == ReasonRate {
		popped.Retry = retry
	}
	return err
}

// Lease pops items like Pop, but only for the time d: an item that is not settled
// within it returns to its place. That is an interruption of its work, so that
// max_interruptions ends the life of an item that crashes its workers.
func (q Queue) Lease(tx kv.Tx, sel Selection, d time.Duration) (Popped, error) {
	if d <= 0 || d > MaxLease {
		return Popped{}, fmt.Errorf("lease of %s: allowed are more than 0s, up to %s", d, MaxLease)
	}
	return q.pop(tx, sel, d)
}
