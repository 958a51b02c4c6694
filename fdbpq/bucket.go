package fdbpq

import (
	"fmt"

	"github.com/pqbridge/pqbridge/internal/tuple"
)

// bucket holds the tokens of a rate: as many as the rate's number at first, and a new one
// each interval. A delivery takes one. A late settlement of a delivery whose token came back takes
// it again, from an empty bucket, too: then the bucket owes tokens, and deliveries wait for those
// that it owes and one more. A bucket that is full needs no row.
type bucket struct {
	rate  Rate
	full  int64 // store time at which it is full again
	taken int64 // store time of the last delivery that took a token
	used  bool  // this transaction has changed it

	stored bool // it has a row
}

// refilled returns the bucket as it is now, under a rate that may hold since a time: then
// it kept the tokens for which it had room.
func (b bucket) refilled(rate Rate, since, now int64) bucket {
	if rate != b.rate && b.rate != (Rate{}) {
		since = max(since, b.taken)
		missing := min(max(0, rate.N-b.level(since)), maxRefill/rate.interval())
		b = bucket{full: since + missing*rate.interval(), stored: b.stored}
	}
	b.rate, b.full = rate, max(b.full, now)
	return b
}

// level is how many tokens it has, negative if it owes tokens.
func (b *bucket) level(now int64) int64 {
	missing := (max(0, b.full-now) + b.rate.interval() - 1) / b.rate.interval()
	return b.rate.N - missing
}

// tokens is how many deliveries it allows.
func (b *bucket) tokens(now int64) int64 { return max(0, b.level(now)) }

// next is the store time at which an empty bucket has a token.
func (b *bucket) next() int64 { return b.full - (b.rate.N-1)*b.rate.interval() }

// maxRefill bounds the time in which a bucket fills up, whatever it owes, far from overflow.
const maxRefill = int64(MaxDelay)

func (b *bucket) take(n int, now int64) {
	b.full = min(b.full+int64(n)*b.rate.interval(), now+maxRefill)
	b.taken, b.used = now, true
}

// giveBack puts back the token of a delivery that reached no consumer. After another delivery
// the token is lost: without this delivery, the other might have found a full bucket.
func (b *bucket) giveBack(taken int64) bool {
	if b.taken != taken || b.rate == (Rate{}) {
		return false
	}
	b.full -= b.rate.interval()
	return true
}

func (b *bucket) pack() []byte {
	v := tuple.AppendInt(nil, b.rate.N)
	for _, field := range [...]int64{int64(b.rate.Period), b.full, b.taken} {
		v = tuple.AppendInt(v, field)
	}
	return v
}

func parseBucket(v []byte) (b bucket, err error) {
	if v == nil {
		return bucket{}, nil
	}
	r := tuple.Read(v)
	b.rate.N = r.Int()
	period := r.Int()
	if r.Ints(&b.full, &b.taken); r.Err() != nil {
		return bucket{}, fmt.Errorf("damaged tokens: %w", r.Err())
	}
	b.rate.Period, b.stored = Duration(period), true
	if b.rate.N < 1 || b.rate.N > MaxRate || period < int64(MinRatePeriod) || period > int64(MaxRatePeriod) {
		return bucket{}, fmt.Errorf("damaged tokens: rate %s", b.rate)
	}
	return b, nil
}

// MaxKeysOwing bounds how many keys of a queue may have a row of tokens, because their bucket is
// not full. With so many, a key whose bucket is full waits until another bucket is full.
const MaxKeysOwing = 1_000_000
