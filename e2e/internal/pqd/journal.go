package pqd

import (
	"math"
	"slices"
	"time"
)

// journal is what is known of the tokens of a rate, and of the calls for whose sake they are counted.
type journal struct {
	entries []entry
	calls   []call
}

// entry is tokens that were taken between two times, or put back if there are fewer than none.
type entry struct {
	tokens      int64
	from, until time.Time
	delivery    bool // it needed a token
}

// call is a call of a service.
type call struct {
	at   time.Time
	cost int64
}

func (j *journal) note(e entry) {
	if e.tokens != 0 {
		j.entries = append(j.entries, e)
	}
}

// room is how many tokens there were at least when a delivery went: within any time no more came than n in a period, at most n had been
// there, and some were put back. What may have been taken later, or put back earlier, counts for the deliveries.
func (j *journal) room(n int64, period time.Duration) int64 {
	if len(j.entries) == 0 {
		return n
	}
	zero := slices.MinFunc(j.entries, func(a, b entry) int { return a.from.Compare(b.from) }).from
	var begun, ended steps // of what windows that begin then do not have, and windows that end then have
	var deliveries []int64
	for _, e := range j.entries {
		from, until := int64(e.from.Sub(zero)), int64(e.until.Sub(zero))
		if e.tokens > 0 {
			begun, ended = append(begun, step{from, e.tokens}), append(ended, step{until, e.tokens})
		} else {
			begun, ended = append(begun, step{until, e.tokens}), append(ended, step{from, e.tokens})
		}
		if e.delivery {
			deliveries = append(deliveries, until)
		}
	}
	begun.add()
	ended.add()
	slices.Sort(deliveries)
	least, first := int64(math.MaxInt64), int64(math.MaxInt64) // of all windows that have begun
	next := 0
	for _, to := range deliveries {
		for ; next < len(begun) && begun[next].at <= to; next++ {
			from := begun[next]
			first = min(first, min(begun.upTo(from.at-1), from.tokens)*int64(period)-n*from.at)
		}
		least = min(least, (n*int64(period)+n*to+first-ended.upTo(to-1)*int64(period))/int64(period))
	}
	return least
}

// use is the part of a rate that was used from the first delivery to the last one.
func (j *journal) use(n int64, period time.Duration) float64 {
	var tokens int64
	var first, last time.Time
	for _, e := range j.entries {
		tokens += e.tokens
		if e.delivery && (first.IsZero() || e.from.Before(first)) {
			first = e.from
		}
		if e.delivery && e.from.After(last) {
			last = e.from
		}
	}
	return float64(tokens) / (float64(n) * (1 + last.Sub(first).Seconds()/period.Seconds()))
}

// busiest is the highest cost of the calls that began within a period.
func (j *journal) busiest(period time.Duration) (most int64) {
	slices.SortFunc(j.calls, func(a, b call) int { return a.at.Compare(b.at) })
	var cost int64
	oldest := 0
	for _, c := range j.calls {
		cost += c.cost
		for ; c.at.Sub(j.calls[oldest].at) >= period; oldest++ {
			cost -= j.calls[oldest].cost
		}
		most = max(most, cost)
	}
	return most
}

// steps are tokens, by time.
type steps []step

type step struct{ at, tokens int64 }

// add sorts the steps, and has each one have the sum up to it.
func (s steps) add() {
	slices.SortStableFunc(s, func(a, b step) int { return int(a.at - b.at) })
	for i := 1; i < len(s); i++ {
		s[i].tokens += s[i-1].tokens
	}
}

// upTo is the sum up to a time.
func (s steps) upTo(at int64) int64 {
	i, _ := slices.BinarySearchFunc(s, at, func(one step, at int64) int {
		if one.at <= at {
			return -1
		}
		return 1
	})
	if i == 0 {
		return 0
	}
	return s[i-1].tokens
}
