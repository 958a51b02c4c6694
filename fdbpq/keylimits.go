package fdbpq

import (
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

var (
	// ErrLeaseRequired: the leases of keys are counted, so a pop without one is refused.
	ErrLeaseRequired = errors.New("a lease is required where key_limit, key_order or the limit of a key is set")

	// ErrOnlyMin: pops look at keys, and know the next item of each, and no other.
	ErrOnlyMin = errors.New("only pop.min and peek.min of all priorities work where items wait for others of their key, or keys take turns")
)

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

func (s *queueState) refuses(sel *Selection, lease time.Duration) error {
	if lease == 0 && s.keyLimited() {
		return ErrLeaseRequired
	}
	return s.refusesEnd(sel)
}

// refusesEnd returns ErrOnlyMin for a selection that needs more than the next item of each
// key. What is configured decides it, and not whether there are keys.
func (s *queueState) refusesEnd(sel *Selection) error {
	c := &s.config
	looks := c.limitsKeys() || c.KeyRate != (Rate{}) || c.Fair != "" || s.keysSet > 0
	if looks && (sel.End != Min || *sel.Band != AllPriorities) {
		return ErrOnlyMin
	}
	return nil
}

// keyLimits is what a queue does about the leases of a key.
type keyLimits struct{ *queueTx }

// held counts the leased items of a key, and those that wait between two leases in
// order, up to a number.
func (x keyLimits) held(r kv.Reader, key string, most int) (int, error) {
	begin, end := x.rows(key)
	held, err := r.Range(begin, end, kv.RangeOptions{Limit: most})
	return len(held), err
}

// rows is the range of the rows of a key's leases.
func (x keyLimits) rows(key string) (begin, end []byte) {
	return tuple.Range(x.rowsOfKey(spaceKeyHeld, key))
}

// changed keeps the row of an item that counts as leased.
func (x keyLimits) changed(before, after *located) {
	if before.state == StateDelayed && after.state == StateDelayed {
		return // it holds its key if it did, whatever the configuration is by now
	}
	switch was, is := before.mayHoldKey(), x.holds(after); {
	case was && !is:
		x.tx.Clear(x.row(before))
		x.keys.of(before.key).letGo++
	case is && !was:
		x.tx.Set(x.row(after), nil)
		x.keys.of(after.key).letGo--
	}
}

func (x keyLimits) row(l *located) []byte {
	return append(x.rowsOfKey(spaceKeyHeld, l.key), l.place.tail...)
}

// holds reports whether an item counts as leased from now on. In order, one that is
// delayed after a lease keeps the others of its key waiting: it is not done. What a push
// delays keeps nobody waiting.
func (x keyLimits) holds(l *located) bool {
	return l.state == StateLeased || l.state == StateDelayed && l.begun() && x.state.config.KeyOrder
}

// mayHoldKey reports whether the item may count as leased: whether a delayed one does, the
// configuration decided when its lease ended.
func (l *located) mayHoldKey() bool {
	return l.state == StateLeased || l.state == StateDelayed && l.begun()
}

// The fence of a lease tells a late holder of an item from a later holder of the same
// item. Where one item of a key is leased at a time, a late holder may also meet a holder
// of another item of the key. So these leases have a second fence, which grows over all
// leases of the key.
//
// It is store time in microseconds, or one more than the last fence if time is not ahead of
// that: processes estimate store time, one of them may be a little behind another, and a
// crash takes back what was not written yet. So a row keeps the last fence. No process is
// behind the row of store time, which never decreases. Once that one is ahead of the fence,
// the row of the fence says nothing more, and a timer clears it. Then a key that has nothing
// has no row, and its fences grow nevertheless, whatever became of its items and its queue.

// keyFenceUnit is the time in which the fences of keys grow by one.
const keyFenceUnit = int64(time.Microsecond)

// fences reads and writes the last fence of each key.
type fences struct{ *queueTx }

// keyFenceRow is the row of a key's last fence. It belongs to no generation, and outlives
// the queue.
func keyFenceRow(queue, key string) []byte {
	return tuple.AppendBytes(queueRow(spaceKeyFence, queue), []byte(key))
}

// next is the fence of the next lease of a key.
func (f fences) next(key string) (int64, error) {
	last, err := f.tx.Get(keyFenceRow(f.name, key))
	if err != nil {
		return 0, err
	}
	now, err := f.now()
	return max(int64(kv.DecodeInteger(last))+1, now/keyFenceUnit), err
}

// keep stores the last fence of a key, so that its next lease gets a higher one.
func (f fences) keep(key string, fence int64) error {
	f.tx.Set(keyFenceRow(f.name, key), kv.EncodeInteger(uint64(fence)))
	return timers{f.queueTx}.forgetLater(timerFences)
}

// check returns an error when an imported item may not have its fence: the row that
// keeps it lasts until store time has passed it.
func (f fences) check(item *Import) error {
	switch {
	case item.KeyFence == 0:
		return nil
	case item.Key == "":
		return fmt.Errorf("%w fence %d: the item has no key", ErrKey, item.KeyFence)
	}
	now, err := f.now()
	if most := (now + int64(MaxDelay)) / keyFenceUnit; err == nil && (item.KeyFence < 0 || item.KeyFence > most) {
		err = fmt.Errorf("%w fence %d: allowed are 0 to %d, a time in microseconds", ErrKey, item.KeyFence, most)
	}
	return err
}

// imported has later leases of a key get higher fences than an imported one.
func (f fences) imported(key string, fence int64) error {
	next, err := f.next(key)
	if err != nil {
		return err
	}
	return f.keep(key, max(next-1, fence))
}

// due forgets fences that store time has passed.
func (f fences) due() error {
	written, err := f.snapshot.Get(row(spaceTime)) // not the estimate, which may be ahead
	if err != nil {
		return err
	}
	passed := int64(kv.DecodeInteger(written)) / keyFenceUnit
	_, err = timers{f.queueTx}.forget(spaceKeyFence, timerFences, func(key string, value []byte) (bool, error) {
		if len(value) != 8 {
			return false, fmt.Errorf("damaged fence of key %q: %d bytes", key, len(value))
		}
		return int64(kv.DecodeInteger(value)) < passed, nil
	})
	return err
}
