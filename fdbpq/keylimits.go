package fdbpq

import (
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// keyLimits counts the leased items of each key.
type keyLimits struct{ *queueRows }

// held counts the leased items of a key, and the items that wait between two leases in order, up
// to a number.
func (x keyLimits) held(r kv.Reader, key string, most int) (int, error) {
	begin, end := x.rows(key)
	held, err := r.Range(begin, end, kv.RangeOptions{Limit: most})
	return len(held), err
}

// rows is the range of the rows of a key's leases.
func (x keyLimits) rows(key string) (begin, end []byte) {
	return tuple.Range(x.rowsOfKey(layout.SpaceKeyHeld, key))
}

// changed writes or clears the row that counts an item as leased.
func (x keyLimits) changed(before, after *layout.Item) {
	if before.State == layout.StateDelayed && after.State == layout.StateDelayed {
		return // it holds its key if it did, whatever the configuration is by now
	}
	switch was, is := before.MayHoldKey(), x.holds(after); {
	case was && !is:
		x.tx.Clear(x.row(before))
		x.keys.of(before.Key).letGo++
	case is && !was:
		x.tx.Set(x.row(after), nil)
		x.keys.of(after.Key).letGo--
	}
}

func (x keyLimits) row(l *layout.Item) []byte {
	return append(x.rowsOfKey(layout.SpaceKeyHeld, l.Key), l.Place.Suffix...)
}

// holds reports whether an item counts as leased from now on. In order, an item that is delayed
// after a lease keeps the others of its key waiting: it is not done. An item that its push
// delays keeps no other item waiting.
func (x keyLimits) holds(l *layout.Item) bool {
	return l.State == layout.StateLeased && !l.Dying() || l.State == layout.StateDelayed && l.Begun() && x.state.config.KeyOrder
}

// keyChanges are the keys whose items a transaction has changed, in the order in which
// it did.
type keyChanges struct {
	all   []*keyChange
	byKey map[string]*keyChange
}

type keyChange struct {
	key     string
	added   []layout.Place // of items that became ready
	removed []layout.Place // of items that are not ready any more
	letGo   int            // leases that ended, less the leases that began
	full    bool           // it has all items that it may have now: no row has to lead pops to it
	placed  bool           // its row in the fair order is written
}

func (c *keyChanges) of(key string) *keyChange {
	change := c.byKey[key]
	if change == nil {
		if c.byKey == nil {
			c.byKey = make(map[string]*keyChange)
		}
		change = &keyChange{key: key}
		c.byKey[key] = change
		c.all = append(c.all, change)
	}
	return change
}

// keyWaitsRow is the row of a key that has a token from a time on.
func keyWaitsRow(queue string, due int64, key string) []byte {
	return tuple.AppendBytes(tuple.AppendInt(layout.QueueRow(layout.SpaceKeyWaits, queue), due), []byte(key))
}

// keyWaits has the rows of keys that wait for a token.
type keyWaits struct{ *queueRows }

// end writes the index rows of keys that have a token by a time, unless a pop has done so. After a
// purge these keys have no items, and a key that got a token back has it before its row says so.
func (x keyWaits) end(at int64) error {
	keys, more, err := x.over(at, true)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err := x.keyIndex.lookAgain(x.snapshot, key); err != nil {
			return err
		}
	}
	if more {
		return x.timers.atOnce(layout.TimerTokens, "")
	}
	return nil
}

// over returns a bounded number of keys whose wait for a token ends by a time, and whether
// there may be more. With remove it clears the rows of these waits.
func (x keyWaits) over(at int64, remove bool) (keys []string, more bool, err error) {
	prefix := layout.QueueRow(layout.SpaceKeyWaits, x.name)
	begin, _ := tuple.Range(prefix)
	rows, err := x.snapshot.Range(begin, keyWaitsRow(x.name, at+1, ""), kv.RangeOptions{Limit: maxKeyVisits})
	if err != nil {
		return nil, false, err
	}
	for _, row := range rows {
		_, key, err := parseKeyWait(row.Key[len(prefix):])
		if err != nil {
			return nil, false, err
		}
		keys = append(keys, key)
		if remove {
			x.tx.Conflict(row.Key) // a process whose time is behind may write it again
			x.tx.Clear(row.Key)
		}
	}
	return keys, len(rows) == maxKeyVisits, nil
}

// nextToken is the time until the first of the keys that wait for a token has it, 0 if no key waits. token is the
// store time at which a key without a row has it, 0 without such a key. Keys that have a token by now were looked
// at, or wait no more.
func (x keyWaits) nextToken(token int64) (time.Duration, error) {
	if !x.state.keysMayWait() {
		return 0, nil
	}
	now, err := x.now()
	if err != nil {
		return 0, err
	}
	prefix := layout.QueueRow(layout.SpaceKeyWaits, x.name)
	_, end := tuple.Range(prefix)
	rows, err := x.snapshot.Range(keyWaitsRow(x.name, now+1, ""), end, kv.RangeOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	due := token
	if len(rows) > 0 {
		first, _, err := parseKeyWait(rows[0].Key[len(prefix):])
		if err != nil {
			return 0, err
		}
		if due == 0 || first < due {
			due = first
		}
	}
	if due == 0 {
		return 0, nil
	}
	return time.Duration(due - now), nil
}

// parseKeyWait reads the end of a keyWaitsRow: when the key has a token, and the key.
func parseKeyWait(rest []byte) (due int64, key string, err error) {
	r := tuple.Read(rest)
	due, key = r.Int(), string(r.Bytes())
	if r.Err() != nil {
		return 0, "", fmt.Errorf("damaged row of a key that waits: %w", r.Err())
	}
	return due, key, nil
}

// maxKeyVisits bounds how many keys without an item to give one pop visits, and maxPeekVisits how
// many one peek visits. A pop clears their rows, so that another pop goes on; a peek finds no item.
const (
	maxKeyVisits  = 256
	maxPeekVisits = 1024
)

// The fence of a lease tells a late holder of an item from a later holder of the same
// item. Where one item of a key is leased at a time, a late holder may also meet a holder
// of another item of the key. So these leases have a second fence, which grows over all
// leases of the key.
//
// It is store time in microseconds, or the last fence and one if time is not ahead of
// it: processes estimate store time, one of them may be a little behind another, and a
// crash takes back what was not written yet. So a row keeps the last fence. No process is
// behind the row of store time, which never decreases. Once that row is ahead of the fence,
// the row of the fence is needed no more, and a timer clears it. Then a key without items
// has no row, and its fences grow nevertheless, whatever became of its items and its queue.

// keyFenceUnit is the time in which the fences of keys grow by one.
const keyFenceUnit = int64(time.Microsecond)

// fences reads and writes the last fence of each key.
type fences struct{ *queueRows }

// keyFenceRow is the row of a key's last fence. It belongs to no generation, and outlives
// the queue.
func keyFenceRow(queue, key string) []byte {
	return tuple.AppendBytes(layout.QueueRow(layout.SpaceKeyFence, queue), []byte(key))
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
	return f.timers.forgetLater(layout.TimerFences)
}

// imported has later leases of a key get higher fences than an imported one.
func (f fences) imported(key string, fence int64) error {
	next, err := f.next(key)
	if err != nil {
		return err
	}
	return f.keep(key, max(next-1, fence))
}

// check returns an error when an imported item may not have its fence: the row that
// keeps it lasts until store time has passed it.
func (f fences) check(key string, fence int64) error {
	switch {
	case fence == 0:
		return nil
	case key == "":
		return fmt.Errorf("%w fence %d: the item has no key", ErrKey, fence)
	}
	now, err := f.now()
	if most := (now + int64(MaxDelay)) / keyFenceUnit; err == nil && (fence < 0 || fence > most) {
		err = fmt.Errorf("%w fence %d: allowed are 0 to %d, a time in microseconds", ErrKey, fence, most)
	}
	return err
}

// due forgets fences that store time has passed.
func (f fences) due() error {
	written, err := f.snapshot.Get(layout.Row(layout.SpaceTime)) // not the estimate, which may be ahead
	if err != nil {
		return err
	}
	passed := int64(kv.DecodeInteger(written)) / keyFenceUnit
	_, err = f.timers.forget(layout.SpaceKeyFence, layout.TimerFences, func(key string, value []byte) (bool, error) {
		if len(value) != 8 {
			return false, fmt.Errorf("damaged fence of key %q: %d bytes", key, len(value))
		}
		return int64(kv.DecodeInteger(value)) < passed, nil
	})
	return err
}
