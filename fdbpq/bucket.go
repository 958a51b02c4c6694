package fdbpq

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/pqbridge/pqbridge/internal/tuple"
)

// bucket holds the tokens of a rate: as many as the rate's number at first, and a new one
// each interval. A delivery takes one, or as many as it costs. A late settlement of a delivery whose token came back takes
// it again, from an empty bucket, too: then the bucket owes tokens, and deliveries wait for those
// that it owes and one more. A bucket that is full needs no row.
//
// A bucket of cost may owe tokens after any delivery: one token suffices for an item of any cost. Its tokens come faster than
// nanoseconds go by, so it counts parts of them, and what is put back is what was taken.
type bucket struct {
	rate  Rate
	full  int64 // store time at which it is full again
	part  int64 // of a bucket of cost: so many parts of a nanosecond later, of which one has as many as the rate's number
	taken int64 // store time of the last delivery that took a token
	cost  bool
	used  bool // this transaction has changed it

	stored bool // it has a row
}

// refilled returns the bucket as it is now, under a rate that may hold since a time: then
// it kept the tokens for which it had room.
func (b bucket) refilled(rate Rate, since, now int64) bucket {
	if rate != b.rate && b.rate != (Rate{}) {
		since = max(since, b.taken)
		missing := max(0, rate.N-b.level(since))
		b = bucket{rate: rate, full: since, cost: b.cost, stored: b.stored}
		b.later(missing, since)
	}
	if b.rate = rate; b.full < now {
		b.full, b.part = now, 0
	}
	return b
}

// later has the bucket be full later, by the time in which tokens come.
func (b *bucket) later(tokens, now int64) {
	if !b.cost {
		b.full = min(b.full+min(tokens, maxRefill/b.rate.interval())*b.rate.interval(), now+maxRefill)
		return
	}
	whole, part := mulDiv(tokens, int64(b.rate.Period), 0, b.rate.N)
	if b.part += part; b.part >= b.rate.N {
		b.part -= b.rate.N
		whole++
	}
	if most := now + int64(b.rate.Period) + maxDebt; whole >= most-b.full {
		b.full, b.part = most, 0
		return
	}
	b.full += whole
}

// sooner takes back what later did.
func (b *bucket) sooner(tokens int64) {
	if !b.cost {
		b.full -= tokens * b.rate.interval()
		return
	}
	whole, part := mulDiv(tokens, int64(b.rate.Period), 0, b.rate.N)
	if b.part -= part; b.part < 0 {
		b.part += b.rate.N
		whole++
	}
	b.full -= whole
}

// owes reports whether it is not full.
func (b *bucket) owes(now int64) bool { return b.full > now || b.full == now && b.part > 0 }

// level is how many tokens it has, negative if it owes tokens.
func (b *bucket) level(now int64) int64 {
	if !b.cost {
		missing := (max(0, b.full-now) + b.rate.interval() - 1) / b.rate.interval()
		return b.rate.N - missing
	}
	if b.full < now {
		return b.rate.N
	}
	missing, rest := mulDiv(b.full-now, b.rate.N, b.part, int64(b.rate.Period))
	if rest > 0 {
		missing++
	}
	return b.rate.N - missing
}

// tokens is how many deliveries it allows, or how many tokens of cost it has.
func (b *bucket) tokens(now int64) int64 { return max(0, b.level(now)) }

// next is the store time at which an empty bucket has a token.
func (b *bucket) next() int64 {
	if !b.cost {
		return b.full - (b.rate.N-1)*b.rate.interval()
	}
	room, _ := mulDiv(b.rate.N-1, int64(b.rate.Period), -b.part, b.rate.N)
	return b.full - room
}

// closed has the bucket be empty until a time.
func (b *bucket) closed(until int64) {
	b.full = until
	b.later(b.rate.N-1, until)
}

// maxRefill bounds the time in which a bucket fills up, whatever it owes, far from overflow.
const maxRefill = int64(MaxDelay)

// maxDebt bounds for how long a bucket of cost is empty after a delivery: what would take longer is not remembered.
const maxDebt = int64(24 * time.Hour)

func (b *bucket) take(n, now int64) {
	b.later(n, now)
	b.taken, b.used = now, true
}

// mulDiv returns (a·b+c)/n, rounded down, and the rest, without overflow in between. A result beyond int64 is the greatest one.
func mulDiv(a, b, c, n int64) (whole, rest int64) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	var carry uint64
	if c >= 0 {
		lo, carry = bits.Add64(lo, uint64(c), 0)
		hi += carry
	} else {
		lo, carry = bits.Sub64(lo, uint64(-c), 0)
		if carry > hi {
			return 0, 0
		}
		hi -= carry
	}
	if hi >= uint64(n) {
		return math.MaxInt64, 0
	}
	q, r := bits.Div64(hi, lo, uint64(n))
	if q > math.MaxInt64 {
		return math.MaxInt64, 0
	}
	return int64(q), int64(r)
}

func (b *bucket) pack() []byte {
	v := tuple.AppendInt(nil, b.rate.N)
	for _, field := range [...]int64{int64(b.rate.Period), b.full, b.taken} {
		v = tuple.AppendInt(v, field)
	}
	if b.cost {
		v = tuple.AppendInt(v, b.part)
	}
	return v
}

func parseBucket(v []byte, cost bool) (b bucket, err error) {
	if v == nil {
		return bucket{cost: cost}, nil
	}
	b.cost = cost
	r := tuple.Read(v)
	b.rate.N = r.Int()
	period := r.Int()
	r.Ints(&b.full, &b.taken)
	if cost {
		b.part = r.Int()
	}
	if r.Err() != nil {
		return bucket{}, fmt.Errorf("damaged tokens: %w", r.Err())
	}
	b.rate.Period, b.stored = Duration(period), true
	most := int64(MaxRate)
	if cost {
		most = MaxCostRate
	}
	if b.rate.N < 1 || b.rate.N > most || period < int64(MinRatePeriod) || period > int64(MaxRatePeriod) || b.part < 0 || b.part >= b.rate.N && cost {
		return bucket{}, fmt.Errorf("damaged tokens: rate %s", b.rate)
	}
	return b, nil
}

// buckets are those of a queue, or of a key: one bounds how many deliveries there are, one what they cost. One without a rate
// bounds nothing.
type buckets [2]bucket

const (
	ofDeliveries = iota
	ofCost
)

// bound reports whether one of them has a rate.
func (bs *buckets) bound() bool {
	return bs[ofDeliveries].rate != (Rate{}) || bs[ofCost].rate != (Rate{})
}

// allow is how many deliveries they allow at a time, where the first one may take all tokens of cost.
func (bs *buckets) allow(now int64) int {
	n := int64(math.MaxInt)
	for i := range bs {
		b := &bs[i]
		switch {
		case b.rate == (Rate{}):
		case b.tokens(now) == 0:
			return 0
		case !b.cost:
			n = b.tokens(now)
		}
	}
	return int(n)
}

// next is the store time at which each of them has a token.
func (bs *buckets) next() (at int64) {
	for i := range bs {
		if bs[i].rate != (Rate{}) {
			at = max(at, bs[i].next())
		}
	}
	return at
}

// close has them be empty until a time.
func (bs *buckets) close(until int64) {
	for i := range bs {
		if bs[i].rate != (Rate{}) {
			bs[i].closed(until)
		}
	}
}

// take takes the tokens of a delivery.
func (bs *buckets) take(cost, now int64) {
	for i, n := range [...]int64{ofDeliveries: 1, ofCost: cost} {
		if bs[i].rate != (Rate{}) {
			bs[i].take(n, now)
		}
	}
}
