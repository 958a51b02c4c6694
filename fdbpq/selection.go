package fdbpq

import (
	"cmp"
	"errors"
	"math"
	"strconv"

	"github.com/pqbridge/pqbridge/internal/tuple"
)

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
