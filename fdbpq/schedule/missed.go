package schedule

import "time"

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
