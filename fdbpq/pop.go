package fdbpq

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

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

// Lease pops items like Pop, but only for the time d: an item that is not settled
// within it returns to its place. That is an interruption of its work, so that
// max_interruptions ends the life of an item that crashes its workers.
func (q Queue) Lease(tx kv.Tx, sel Selection, d time.Duration) (Popped, error) {
	if d <= 0 || d > MaxLease {
		return Popped{}, fmt.Errorf("lease of %s: allowed are more than 0s, up to %s", d, MaxLease)
	}
	return q.pop(tx, sel, d)
}

// prefetchRows says which rows the transaction is about to read.
func (q Queue) prefetchRows(tx kv.Tx, lease time.Duration) {
	tx.Prefetch(layout.QueueRow(layout.SpaceState, q.name), layout.CounterKey(q.name, q.store.queueStates.guess(q.name).generation, layout.CounterReady))
	if lease > 0 {
		tx.Prefetch(layout.Row(layout.SpaceTime))
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
		tx.Prefetch(popIDRow(q.name, sel.PopID), layout.Row(layout.SpaceTime))
		tx.Prefetch(layout.CounterKeys(q.name, guess.generation, layout.Content)...)
	}
	if !guess.likelyRead(&sel) {
		return
	}
	spaces := []string{layout.SpaceReady, layout.SpaceKeyed}
	if !guess.keyed {
		spaces = spaces[:1]
	}
	for _, space := range spaces {
		scanOf(q.name, tx, guess, space, sel.End, *sel.Band, guess.config.Ties).prefetch(tx, sel.Limit, sel.MaxBytes)
	}
}

// Peek returns the items that Pop would return for the selection, and leaves them in the queue.
func (q Queue) Peek(r kv.Reader, sel Selection) (Popped, error) {
	if err := sel.check(); err != nil {
		return Popped{}, err
	}
	qtx, err := q.view(r)
	if err != nil || qtx == nil {
		return Popped{Reason: ReasonUnknown}, err
	}
	s := qtx.state
	if err := s.refusesEnd(&sel); err != nil {
		return Popped{}, err
	}
	if s.paused {
		return Popped{Reason: ReasonPaused}, nil
	}
	found := collector{queueRows: &qtx.queueRows, sel: sel}
	var popped Popped
	retry, err := found.bound()
	if err != nil {
		return Popped{}, err
	}
	if found.sel.Limit == 0 {
		return popped, qtx.reasons.completeLater(&popped, *sel.Band, retry)
	}
	if err := found.run(); err != nil {
		return Popped{}, err
	}
	if err := found.contents.loadAll(found.items); err != nil {
		return Popped{}, err
	}
	for i := range found.items {
		item, err := itemOf(&found.items[i])
		if err != nil {
			return Popped{}, err
		}
		popped.Items = append(popped.Items, item)
	}
	if len(popped.Items) == 0 && s.takesTurns() {
		if popped.Retry, err = qtx.keyWaits.nextToken(found.token); err != nil {
			return Popped{}, err
		}
	}
	return popped, qtx.reasons.complete(&popped, *sel.Band)
}

// MayPop returns why the queue refuses a pop, one without a lease if that is 0.
func (q Queue) MayPop(r kv.Reader, sel *Selection, lease time.Duration) error {
	s, err := q.readState(r)
	if err != nil || s == nil {
		return err
	}
	return s.refuses(sel, lease)
}

// MayPeek returns why the queue refuses a peek.
func (q Queue) MayPeek(r kv.Reader, sel *Selection) error {
	s, err := q.readState(r)
	if err != nil || s == nil {
		return err
	}
	return s.refusesEnd(sel)
}

// pop pops items for good when lease is 0, and otherwise for the time of the lease.
func (q Queue) pop(tx kv.Tx, sel Selection, lease time.Duration) (Popped, error) {
	if err := sel.check(); err != nil {
		return Popped{}, err
	}
	q.prefetchRows(tx, lease)
	if q.work == nil {
		q.work = newWork(q.store, tx)
	}
	ahead, err := startReadAhead(q.work, q.name, &sel)
	if err != nil {
		return Popped{}, err
	}
	qtx, err := q.open(tx)
	if err != nil {
		return Popped{}, err
	}
	if !qtx.there() {
		return qtx.popIDs.popUnknown(&sel, lease)
	}
	if sel.PopID != "" {
		again, err := qtx.popIDs.repeat(&sel, lease)
		if err != nil || again != nil {
			return deref(again), cmp.Or(err, qtx.done())
		}
	}
	if err := qtx.state.refuses(&sel, lease); err != nil {
		return Popped{}, err
	}
	if qtx.state.paused {
		return qtx.popIDs.popNothing(&sel, lease, ReasonPaused)
	}
	if sel.PopID != "" {
		if err := qtx.popIDs.room(sel.PopID); err != nil {
			return Popped{}, err
		}
	}
	return qtx.pops.pop(&sel, lease, ahead)
}

// pops pops items of a queue.
type pops struct{ *queueTx }

// pop selects new items. It first writes the pending changes of the key index, which the
// selection reads, and last the changes that the pop made itself.
func (p pops) pop(sel *Selection, lease time.Duration, ahead *readAhead) (Popped, error) {
	if err := p.keyIndex.flush(); err != nil {
		return Popped{}, err
	}
	head := collector{queueRows: &p.queueRows, sel: *sel, expirer: p.expiries, copies: sel.PopID != "" && lease == 0, txSize: p.txSize}
	if ahead != nil && ahead.guess == p.state {
		head.ahead = ahead
	}
	retry, err := head.bound()
	if err != nil {
		return Popped{}, err
	}
	if head.sel.Limit == 0 {
		popped, err := p.popIDs.popNothing(sel, lease, ReasonEmpty)
		if err != nil {
			return Popped{}, err
		}
		return popped, p.reasons.completeLater(&popped, *sel.Band, retry)
	}
	if err := head.run(); err != nil {
		return Popped{}, err
	}
	if err := head.spendTokens(); err != nil {
		return Popped{}, err
	}
	if err := p.contents.loadAll(head.items); err != nil {
		return Popped{}, err
	}
	p.txSize = head.txSize
	popped := Popped{More: head.more, Items: make([]Item, len(head.items)), Leased: lease}
	for i := range head.items {
		if popped.Items[i], err = p.take(&head.items[i], sel.holder(i), lease); err != nil {
			return Popped{}, err
		}
	}
	if sel.PopID != "" && len(popped.Items) > 0 {
		if err := p.popIDs.remember(sel, lease, &popped, head.items); err != nil {
			return Popped{}, err
		}
	}
	if popped.Final = sel.Repeated && len(popped.Items) == 0 && !popped.More; popped.Final {
		if err := p.popIDs.rememberNothing(sel, lease); err != nil {
			return Popped{}, err
		}
	}
	if len(popped.Items) == 0 && !popped.More && p.state.takesTurns() {
		if popped.Retry, err = p.keyWaits.nextToken(head.token); err != nil {
			return Popped{}, err
		}
	}
	if err := p.keyIndex.flush(); err != nil {
		return Popped{}, err
	}
	if err := p.done(); err != nil {
		return Popped{}, err
	}
	popped.Events = p.happened()
	return popped, p.reasons.complete(&popped, *sel.Band)
}

// take removes an item that a pop has selected, or leases it for a time that is not 0.
func (p pops) take(l *layout.Item, holder string, lease time.Duration) (Item, error) {
	if lease == 0 {
		if err := p.end(l, finish{how: FinishDone, popped: true}); err != nil {
			return Item{}, err
		}
		return itemOf(l)
	}
	now, err := p.now()
	if err != nil {
		return Item{}, err
	}
	before := *l
	l.State, l.Due, l.Since = layout.StateLeased, now+int64(lease), now
	if lease == layout.NoEnd {
		l.Due, l.Since = int64(layout.NoEnd), int64(layout.NoEnd)
	}
	l.Tries++
	l.Fence, l.MinFence = max(l.Fence+1, l.MinFence), 0
	l.TokensBack, l.Charged = 0, 0
	if p.state.ratesCost() {
		l.Charged = l.Costs()
	}
	l.Holder = holder
	endClaim(&l.Envelope)
	p.change(&before, l)
	own := p.leases.of(l)
	item, err := itemOf(l)
	item.Lease = own
	return item, err
}

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

	// Retry is the time until a rate allows a pop to find an item, even if no item arrives meanwhile. 0: it cannot.
	Retry time.Duration

	// Final: the store remembers that the pop with this id got no item, and so it never gets one.
	Final bool

	// Events report items past their TTL that the pop removed.
	Events []Event

	// More: the transaction removed as many items past their TTL as it may, and found
	// no others so far. Commit and pop again.
	More bool
}

// Reason says why a pop or a peek found no items.
type Reason string

const (
	ReasonUnknown Reason = "unknown" // no such queue
	ReasonPaused  Reason = "paused"
	ReasonRate    Reason = "rate"    // the queue's rate allows no delivery now
	ReasonBlocked Reason = "blocked" // ready items wait for other items of their key, or for its rate, or it is paused
	ReasonBand    Reason = "band"    // items are ready, and all of them outside the band
	ReasonLeased  Reason = "leased"  // there are only leased items, and perhaps delayed ones
	ReasonDelayed Reason = "delayed" // there are only delayed items
	ReasonEmpty   Reason = "empty"   // there are no items
)

func deref(t *Popped) Popped {
	if t == nil {
		return Popped{}
	}
	return *t
}

// End is one of the two ends of a queue.
type End byte

const (
	Min End = iota // the lowest priority number, the oldest item first
	Max            // the highest priority number, by default the newest item first
)

// Band is a range of priorities, both ends included.
type Band struct {
	Low, High int64
}

// AllPriorities is the band of all priorities.
var AllPriorities = Band{Low: math.MinInt64, High: math.MaxInt64}

// String is the band as pops name it: low..high, without the ends of all priorities.
func (b Band) String() string {
	low, high := "", ""
	if b.Low != AllPriorities.Low {
		low = strconv.FormatInt(b.Low, 10)
	}
	if b.High != AllPriorities.High {
		high = strconv.FormatInt(b.High, 10)
	}
	return low + ".." + high
}

// in returns the band's range of keys in the space with this prefix. Items of other
// programs whose priorities are no integers of 64 bits are outside every band.
func (b Band) in(prefix []byte) (begin, end []byte) {
	n := len(prefix)
	return tuple.AppendInt(prefix[:n:n], b.Low), append(tuple.AppendInt(prefix[:n:n], b.High), 0xff)
}

// Selection says which items to pop or peek, and how many.
type Selection struct {
	End      End
	Band     *Band // nil: all priorities
	Limit    int   // items at most; 1 to MaxBatch
	MaxBytes int   // stop before the item that exceeds it, but give at least one; 0: MaxBatchBytes

	// Room bounds the bytes of the items with Frame more for each; one item always fits. 0:
	// no such bound.
	Room, Frame int

	// PopID makes a pop repeatable: within the queue's dedup window, pops with the
	// same id return the same items. Peeks ignore it.
	PopID string

	// Repeated says that another transaction may still be under way for the pop with
	// this PopID, in this process or in another one. If this pop gets no item, that is
	// final: no pop with the id gets an item from now on. Peeks ignore it.
	Repeated bool

	// Holders are the names that the holders of the items give themselves, in the order of the items. The last
	// name is that of all further items, too. Pop and peeks ignore it.
	Holders []string

	// AnyLease says that the caller of Pop or Lease has chosen no lease, so a default may
	// have changed since the first pop with this PopID: this one gets the same items under
	// the lease that they got. Otherwise a pop with another lease is a different one.
	AnyLease bool
}

var errLimit = errors.New("limit out of bounds: expected 1 to 1000 items")

func (s *Selection) check() error {
	if s.Limit < 1 || s.Limit > MaxBatch {
		return errLimit
	}
	if s.Band == nil {
		s.Band = &AllPriorities
	}
	if err := cmp.Or(checkMsgID(s.PopID), s.checkHolders()); err != nil {
		return err
	}
	if s.MaxBytes <= 0 || s.MaxBytes > MaxBatchBytes {
		s.MaxBytes = MaxBatchBytes
	}
	return nil
}

// fits reports whether so many items, with their bytes, keep to the bounds.
func (s *Selection) fits(items, bytes int) bool {
	return bytes <= s.MaxBytes && (s.Room == 0 || bytes+items*s.Frame <= s.Room)
}

func (s *Selection) checkHolders() error {
	for _, name := range s.Holders {
		if name == "" {
			continue
		}
		if err := CheckHolder(name); err != nil {
			return err
		}
	}
	return nil
}

// holder is the name of the n-th item's holder.
func (s *Selection) holder(n int) string {
	if len(s.Holders) == 0 {
		return ""
	}
	return s.Holders[min(n, len(s.Holders)-1)]
}

// The bounds of one pop. A bigger batch would not fit into a transaction.
const (
	MaxBatch      = 1000
	MaxBatchBytes = 8 << 20
)
