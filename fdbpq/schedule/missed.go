package schedule

import "time"

// MissedTimes are times of a schedule that passed without an item. A firing reports misses at once, unless it has reported
// others of the schedule within the same minute: these follow, together, in the next minute.
type MissedTimes struct {
	Queue    string
	Schedule string    // its name
	Reason   string    // why there was no item: down, full or overlap
	From, To time.Time // the first and the last time
	Count    int64     // the number of times
	AtLeast  bool      // there may be more times than Count
}

var missReasonNames = [missReasons]string{missedDown: "down", missedFull: "full", missedOverlap: "overlap"}

// miss counts times that pass without an item.
func (row *record) miss(p *plan, reason int, from, to time.Time) int64 {
	n := int64(p.times.Count(from, to, maxMissedCount))
	if n == 0 {
		return 0
	}
	first, _ := p.times.Next(from.Add(-1))
	last, _ := p.times.Last(to.Add(1))
	atLeast := int64(0)
	if n == maxMissedCount {
		atLeast = 1
	}
	row.unreportedMisses[reason].add(first.UnixNano(), last.UnixNano(), n, atLeast)
	row.missed += n
	return n
}

// maxMissedCount bounds how many misses are counted at a time.
const maxMissedCount = 10_000
