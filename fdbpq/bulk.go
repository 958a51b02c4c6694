package fdbpq

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// A bulk operation goes through the items of one state in their order, a page a transaction, and
// does to each that fits what the request for one item does. The store keeps nothing of it: the
// cursor says how far it is, and when it began.
//
// Later items and leases are passed over: items with higher counts, and younger leases.
// So a run ends, and does nothing twice to an item that comes back: a page that is repeated, late
// or by somebody who got no answer, does what the run would have done.
//
// Items are found by snapshot. The commit depends on those that it changes, so others go on, and
// what they bring into the state meanwhile may be passed over: a lease that a pop gives beside a
// revoke stays, even if the pop would rather have had an item that the revoke brings back.

// BulkVerb is what a bulk operation does to the items that fit.
type BulkVerb int

const (
	BulkRemove BulkVerb = iota
	BulkMove
	BulkRevoke
	BulkRequeue
)

// Bulk is one page of a bulk operation.
type Bulk struct {
	Verb   BulkVerb
	Where  Where
	DryRun bool        // count what would be done, and change nothing
	Limit  int         // changes at most, up to MaxBulk; 0: the operation begins, and changes nothing
	After  *BulkCursor // go on there; nil: begin

	Priority int64      // that BulkMove gives
	Revoke   Revocation // of BulkRevoke, without a fence

	To     string        // queue that BulkRequeue pushes to, by its own name
	Spread time.Duration // over which it delays the items
}

// Where says which items a bulk operation is about: all that is given has to fit.
type Where struct {
	State         State // "": ready items, or leased items for BulkRevoke
	Band          *Band // of their priorities
	Key, Holder   string
	Reason        *Text // of their death
	Cause         *Text // of their last attempt, or their death
	Origin        *Text // the queue in which they died
	PushedBefore  time.Time
	PushedAfter   time.Time // or at that time
	Deliveries    int64     // at least
	Interruptions int64     // at least
	Headers       func(headers []byte) bool
}

// Text is what a text has to be, or to begin with.
type Text struct {
	Text   string
	Prefix bool
}

// Fits reports whether a text is that.
func (t Text) Fits(s string) bool { return s == t.Text || t.Prefix && strings.HasPrefix(s, t.Text) }

// fitsSome reports whether there is a text, and it is that.
func (t Text) fitsSome(s string) bool { return s != "" && t.Fits(s) }

// BulkDone is what a page of a bulk operation did.
type BulkDone struct {
	Done, Looked int         // items that were changed; that it looked at
	Next         *BulkCursor // After of the next page; nil at the end
	Stopped      error       // the queue that the next item would go to is full
	Err          error       // the operation was refused, with ErrRequeue or ErrNoQueue, and did nothing
	Events       []Event
}

// The bounds of a page. One item always fits.
const (
	MaxBulk       = 500
	maxBulkLooked = 5000
	maxBulkRead   = 8 << 20
	maxBulkSize   = 2 << 20
	maxBulkTime   = time.Second

	bulkRows  = 500 // that are read at a time
	bulkBytes = 1 << 20
)

var (
	// ErrBulk: a bulk operation is not as it should be.
	ErrBulk = errors.New("bulk operation")

	// ErrBulkCursor: the text is not a cursor.
	ErrBulkCursor = errors.New("not a cursor: expected the one that the page before has answered")
)

// BulkCursor is how far a bulk operation is.
type BulkCursor struct {
	generation int64
	high       int64         // highest count when it began
	begun      int64         // store time then
	would      amount        // that a dry run would have pushed so far
	behind     *layout.Place // of the last item that it looked at; nil: before the first item
}

// String returns the cursor in letters, digits, '-' and '_'.
func (c *BulkCursor) String() string {
	var b []byte
	for _, n := range [...]int64{c.generation, c.high, c.begun, c.would.items, c.would.bytes} {
		b = tuple.AppendInt(b, n)
	}
	if c.behind != nil {
		b = c.behind.Append(b)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParseBulkCursor reads what String wrote.
func ParseBulkCursor(s string) (*BulkCursor, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || strings.ContainsAny(s, "\r\n") { // the decoder skips these
		return nil, ErrBulkCursor
	}
	var c BulkCursor
	r := tuple.Read(b)
	if r.Ints(&c.generation, &c.high, &c.begun, &c.would.items, &c.would.bytes); r.Err() != nil {
		return nil, ErrBulkCursor
	}
	if r.More() {
		id, err := ParseID(base64.RawURLEncoding.EncodeToString(r.Rest()))
		if err != nil {
			return nil, ErrBulkCursor
		}
		c.behind = &id.place
	}
	return &c, nil
}

// check returns an error unless the operation is one.
func (b *Bulk) check() error {
	switch {
	case b.Verb < BulkRemove || b.Verb > BulkRequeue:
		return fmt.Errorf("%w: unknown", ErrBulk)
	case b.Limit < 0 || b.Limit > MaxBulk:
		return fmt.Errorf("%w of %d items: expected 0 to %d", ErrBulk, b.Limit, MaxBulk)
	case b.Where.space() == "":
		return errState
	case b.Verb == BulkRevoke && b.Where.State != StateLeased:
		return fmt.Errorf("%w: only leased items have leases to revoke", ErrBulk)
	case b.Where.Holder != "" && b.Where.State != StateLeased:
		return fmt.Errorf("%w: only leased items have holders", ErrBulk)
	case b.Spread < 0 || b.Spread > MaxDelay:
		return fmt.Errorf("%w: spread over %s, allowed are up to %s", ErrTime, b.Spread, MaxDelay)
	}
	return checkRetry(b.Revoke.Delay)
}

// Bulk does one page of a bulk operation. The queue has to exist: ErrNoQueue.
func (q Queue) Bulk(tx kv.Tx, b Bulk) (BulkDone, error) {
	if b.Where.State == "" {
		b.Where.State = StateReady
		if b.Verb == BulkRevoke {
			b.Where.State = StateLeased
		}
	}
	if err := b.check(); err != nil {
		return BulkDone{}, err
	}
	qtx, err := q.begin(tx)
	if err != nil {
		return BulkDone{}, err
	}
	if qtx == nil {
		return BulkDone{}, ErrNoQueue
	}
	page := bulkPage{queueTx: qtx, asked: b}
	if b.Verb == BulkRequeue {
		var refused error
		if page.to, refused, err = qtx.deadLetters.requeuer(b.To, q.full); err != nil || refused != nil {
			return BulkDone{Err: refused}, err
		}
	}
	if err := page.begin(); err != nil {
		return BulkDone{}, err
	}
	if page.at.generation != qtx.state.generation {
		return BulkDone{}, nil // its items are gone
	}
	if err := page.run(); err != nil {
		return BulkDone{}, err
	}
	for _, change := range qtx.keys.all {
		qtx.keyIndex.prefetch(change.key)
	}
	page.did.Events = qtx.happened()
	return page.did, qtx.done()
}

// bulkPage is a page under way.
type bulkPage struct {
	*queueTx
	asked Bulk
	did   BulkDone
	to    *pusher // of BulkRequeue
	at    BulkCursor
	bytes int // that it looked at
	size  int // of what it changed
	ended bool
}

// begin reads the cursor, or makes the first one.
func (p *bulkPage) begin() error {
	if p.asked.After != nil {
		if p.at = *p.asked.After; !p.asked.DryRun {
			p.at.would = amount{}
		}
		return nil
	}
	high, err := p.highest()
	if err != nil {
		return err
	}
	p.at = BulkCursor{generation: p.state.generation, high: high}
	p.at.begun, err = p.now()
	return err
}

// run goes through items until the page is full.
func (p *bulkPage) run() error {
	clock := p.store.inside.Clock
	begun := clock.Elapsed()
	next := p.lists.items(p.snapshot, p.asked.Where.space(), p.asked.Where.Key, p.asked.Where.Band, p.at.behind)
	for p.asked.Limit > 0 && !p.ended {
		entries, err := next(bulkRows, bulkBytes)
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			return nil
		}
		for i := range entries {
			if p.ended = p.did.Looked == maxBulkLooked || p.bytes > maxBulkRead || clock.Elapsed()-begun > maxBulkTime && p.did.Looked > 0; p.ended {
				break
			}
			if err := p.look(&entries[i]); err != nil || p.ended {
				return p.stop(err)
			}
		}
	}
	return p.stop(nil)
}

func (p *bulkPage) stop(err error) error {
	next := p.at
	p.did.Next = &next
	return err
}

// look looks at one item, and changes it if it fits and the page has room for it.
func (p *bulkPage) look(at *entry) error {
	l, err := layout.ParseItem(p.asked.Where.space(), at.value, at.place)
	if err != nil {
		return err
	}
	fits, err := p.fits(l)
	if err != nil {
		return err
	}
	if fits {
		size := itemTxSize(p.name, &l.Envelope, p.asked.Verb == BulkRequeue || p.asked.Verb == BulkRevoke)
		if p.ended = p.did.Done == p.asked.Limit || p.did.Done > 0 && p.size+size > maxBulkSize; p.ended {
			return nil
		}
		if p.asked.Verb == BulkRequeue {
			if over := p.to.capacity.excess(p.to.counted.with(&p.to.tally)).plus(p.at.would).plus(amountOf(l.Size)); over.tooMuch() {
				p.did.Looked++
				p.ended, p.did.Stopped = true, p.to.capacity.tooFull(over)
				return nil
			}
		}
		p.size += size
		if err := p.do(l); err != nil {
			return err
		}
		p.did.Done++
	}
	p.did.Looked++
	p.bytes += len(at.value)
	p.at.behind = &l.Place
	return nil
}

// fits reports whether the operation is about an item.
func (p *bulkPage) fits(l *layout.Item) (bool, error) {
	w := &p.asked.Where
	count, err := l.Place.Count()
	switch {
	case err != nil:
		return false, err
	case count > p.at.high && !l.Foreign, l.State == layout.StateLeased && l.Since > p.at.begun:
		return false, nil // later
	case l.Dying() && p.asked.Verb != BulkRemove:
		return false, nil
	case l.Held(): // whatever a client's cursor says of the time at which the run began
		return false, nil
	case p.asked.Verb == BulkMove && l.ReturnPriority == p.asked.Priority:
		return false, nil
	case p.asked.Verb == BulkRequeue && comesFrom(l, p.asked.To) != nil:
		return false, nil
	case w.Key != "" && l.Key != w.Key, w.Holder != "" && l.Holder != w.Holder, l.Deliveries() < w.Deliveries, l.Interruptions < w.Interruptions,
		w.Reason != nil && !(l.IsDead() && w.Reason.Fits(l.Dead.Reason)),
		w.Cause != nil && !w.Cause.fitsSome(DeadLetter(l.Dead).cause(Attempts(l.Attempts))),
		w.Origin != nil && !(l.IsDead() && w.Origin.Fits(l.Dead.Origin)),
		!w.PushedBefore.IsZero() && !time.Unix(0, l.PushedAt).Before(w.PushedBefore),
		time.Unix(0, l.PushedAt).Before(w.PushedAfter):
		return false, nil
	case w.Headers == nil:
		return true, nil
	}
	beginning := l.Envelope
	if l.Chunks > 0 && l.HeaderSize > 0 {
		p.bytes += int(min((l.HeaderSize+layout.ChunkSize-1)/layout.ChunkSize*layout.ChunkSize, l.Size))
	}
	if err := loadBeginning(p.snapshot, p.prefix(layout.SpaceChunk), &beginning, l.Place, 0); err != nil {
		return false, err
	}
	return w.Headers(beginning.Headers), nil
}

// do changes an item, on which the commit depends from here on.
func (p *bulkPage) do(l *layout.Item) error {
	if p.asked.DryRun {
		if p.asked.Verb == BulkRequeue {
			p.at.would = p.at.would.plus(amountOf(l.Size))
		}
		return nil
	}
	p.tx.Conflict(p.key(l.Space(), l.Place))
	switch p.asked.Verb {
	case BulkRemove:
		return p.withdrawals.end(l, finish{how: FinishRemoved})
	case BulkMove:
		p.move(l, p.asked.Priority)
	case BulkRevoke:
		_, err := p.retries.revoke(l, p.asked.Revoke.Reason, p.asked.Revoke.Delay)
		return err
	case BulkRequeue:
		pushed, err := p.deadLetters.requeue(p.to, l, time.Duration(chance(idOf(l), 0)*float64(p.asked.Spread)))
		if err == nil {
			err = pushed.Err // the item had room before
		}
		return err
	}
	return nil
}

// space is the space of the items, "" for an unknown state.
func (w *Where) space() string {
	switch w.State {
	case StateReady:
		return layout.SpaceReady
	case StateDelayed:
		return layout.SpaceDelayed
	case StateLeased:
		return layout.SpaceLeased
	}
	return ""
}
