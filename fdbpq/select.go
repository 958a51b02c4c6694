package fdbpq

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

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
	// this PopID, in this process or in another one. If this one pops nothing, that is
	// final: no pop with the id pops anything from now on. Peeks ignore it.
	Repeated bool

	// Holders are what the holders of the items call themselves, in the order of the items; those
	// behind them have the last one's. None: nothing. Pop and peeks ignore it.
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

// collector gathers the items of a selection.
type collector struct {
	*queueTx
	sel    Selection
	remove bool // remove items past their TTL, instead of skipping them
	copies bool // the selected items are copied to other rows
	ahead  *readAhead

	items   []located
	bytes   int
	txSize  int
	expired int
	more    bool
	bucket  bucket // of the queue's tokens, if it has a rate
	token   int64  // store time at which a key gets a token that waits for one and has no row saying so; 0: none
}

// reader reads what a pop depends on. A peek changes nothing, and depends on nothing.
func (c *collector) reader() kv.Reader {
	if c.remove {
		return c.tx
	}
	return c.snapshot
}

// front reads what stands in front of the items that a pop takes. A peek depends on nothing.
func (c *collector) front() kv.Reader {
	if c.tx == nil {
		return c.snapshot
	}
	return c.Work.front(c.state)
}

// front is the reader of what stands in front of the items that a pop takes, and of how many a purge removes: by snapshot, so
// that neither fails on a push, or, where the queue is strict, so that it depends on it.
func (w *Work) front(s *queueState) kv.Reader {
	if w.store.strict || s.config.Strict {
		return w.tx
	}
	return w.snapshot
}

// untilDone takes steps until one is the last, the selection is full, or another
// transaction has to go on.
func (c *collector) untilDone(step func() (done bool, err error)) error {
	for len(c.items) < c.sel.Limit && !c.more {
		done, err := step()
		if err != nil || done {
			return err
		}
	}
	return nil
}

func (c *collector) run() error {
	var next nextEntries
	switch {
	case c.ahead != nil:
		next = c.ahead.next
	case c.state.fairBuilt && c.state.keyed:
		return c.takeFairTurns()
	case c.state.takesTurns():
		return c.takeTurns()
	default:
		next = readyItems(c.name, c.front(), c.state, c.sel.End, *c.sel.Band, c.state.config.Ties)
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

// add adds one item and reports whether it was the last one.
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
			return c.skip(readyItem(at.place, e))
		}
	}
	if len(c.items) > 0 && !c.sel.fits(len(c.items)+1, c.bytes+int(e.size)) {
		return true, nil
	}
	if !c.carry(&e, c.copies) {
		return true, nil
	}
	e.keyFence = 0 // of its last lease
	c.bytes += int(e.size)
	c.items = append(c.items, readyItem(at.place, e))
	return len(c.items) == c.sel.Limit, nil
}

// skip skips or removes an item past its TTL.
func (c *collector) skip(l located) (done bool, err error) {
	if !c.remove {
		return false, nil
	}
	if c.expired == maxExpired {
		c.more = len(c.items) == 0
		return true, nil
	}
	if !c.carry(&l.envelope, c.state.config.DeadLetterExpired) {
		return true, nil
	}
	c.expired++
	return false, expiries{c.queueTx}.expire(&l)
}

// carry reports whether one more item fits into the transaction.
func (c *collector) carry(e *envelope, copied bool) bool {
	weight := itemTxSize(c.queueTx.name, e, copied) + itemKeys*len(c.sel.PopID)
	if c.txSize > 0 && c.txSize+weight > txSizeBudget {
		c.more = len(c.items) == 0
		return false
	}
	c.txSize += weight
	return true
}

// maxExpired bounds how many items past their TTL one pop removes.
const maxExpired = 256

// The bounds of one pop. A bigger batch would not fit into a transaction.
const (
	MaxBatch      = 1000
	MaxBatchBytes = 8 << 20
)

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

// holder is that of the n-th item.
func (s *Selection) holder(n int) string {
	if len(s.Holders) == 0 {
		return ""
	}
	return s.Holders[min(n, len(s.Holders)-1)]
}

// bound bounds a selection by the queue's tokens. It returns when there is one again, if
// there is none.
func (c *collector) bound() (retry time.Duration, err error) {
	rate := c.state.config.Rate
	if rate == (Rate{}) {
		return 0, nil
	}
	if c.bucket, err = (rates{c.queueTx}).read(c.reader(), bucketRow(c.name), rate); err != nil {
		return 0, err
	}
	now, err := c.now()
	if err != nil {
		return 0, err
	}
	if c.sel.Limit = int(min(int64(c.sel.Limit), c.bucket.tokens(now))); c.sel.Limit == 0 {
		retry = time.Duration(max(c.bucket.next()-now, 1))
	}
	return retry, nil
}

// spendTokens takes the queue's tokens for the selected items.
func (c *collector) spendTokens() error {
	if c.state.config.Rate == (Rate{}) || len(c.items) == 0 {
		return nil
	}
	now, err := c.now()
	if err != nil {
		return err
	}
	c.bucket.take(len(c.items), now)
	c.tx.Set(bucketRow(c.name), c.bucket.pack())
	return nil
}
