package fdbpq

import (
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
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
