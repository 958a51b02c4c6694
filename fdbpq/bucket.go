package fdbpq

import (
	"fmt"
	"math"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/tuple"
)

// bucket holds the tokens of a rate: as many as the rate's number at first, and a new one
// each interval. A delivery takes one. A bucket that is full needs no row.
type bucket struct {
	rate  Rate
	full  int64 // store time at which it is full again
	taken int64 // store time of the last delivery that took a token
	used  bool  // this transaction has changed it
}

// refilled returns the bucket as it is now, under a rate that may hold since a time: then
// it kept the tokens for which it had room.
func (b bucket) refilled(rate Rate, since, now int64) bucket {
	if rate != b.rate && b.rate != (Rate{}) {
		since = max(since, b.taken)
		missing := max(0, rate.N-b.tokens(since))
		b = bucket{full: since + missing*rate.interval()}
	}
	b.rate, b.full = rate, max(b.full, now)
	return b
}

// tokens is how many deliveries it allows.
func (b *bucket) tokens(now int64) int64 {
	missing := (max(0, b.full-now) + b.rate.interval() - 1) / b.rate.interval()
	return max(0, b.rate.N-missing)
}

// next is the store time at which an empty bucket has a token.
func (b *bucket) next() int64 { return b.full - (b.rate.N-1)*b.rate.interval() }

func (b *bucket) take(n int, now int64) {
	b.full += int64(n) * b.rate.interval()
	b.taken, b.used = now, true
}

// giveBack puts back the token of a delivery that reached nobody. After another delivery
// it is lost: that one might have found the bucket full without this one.
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
	var period int64
	for _, field := range [...]*int64{&b.rate.N, &period, &b.full, &b.taken} {
		if *field, v, err = tuple.ConsumeInt(v); err != nil {
			return bucket{}, fmt.Errorf("damaged tokens: %w", err)
		}
	}
	b.rate.Period = Duration(period)
	if b.rate.N < 1 || b.rate.N > MaxRate || period < int64(MinRatePeriod) || period > int64(MaxRatePeriod) {
		return bucket{}, fmt.Errorf("damaged tokens: rate %s", b.rate)
	}
	return b, nil
}

// readBucket returns the tokens in a row as they are now, under the rate of the present.
func (qtx *queueTx) readBucket(r kv.Reader, row []byte, rate Rate) (bucket, error) {
	v, err := r.Get(row)
	if err != nil {
		return bucket{}, err
	}
	b, err := parseBucket(v)
	if err != nil {
		return bucket{}, err
	}
	now, err := qtx.now()
	return b.refilled(rate, qtx.state.keyRateSince, now), err
}

// changeRate has tokens come at another rate from now on, and reports whether some are owed.
func (qtx *queueTx) changeRate(row []byte, before, after Rate) (owes bool, err error) {
	if before == after || before == (Rate{}) {
		return false, nil
	}
	b, err := qtx.readBucket(qtx.tx, row, before)
	if err != nil {
		return false, err
	}
	now, err := qtx.now()
	if err != nil {
		return false, err
	}
	if after == (Rate{}) {
		qtx.tx.Clear(row)
		return false, nil
	}
	if b = b.refilled(after, now, now); b.full == now {
		qtx.tx.Clear(row)
		return false, nil
	}
	qtx.tx.Set(row, b.pack())
	return true, nil
}

// bound bounds a selection by the queue's tokens. It returns when there is one again, if
// there is none.
func (c *collector) bound() (retry time.Duration, err error) {
	rate := c.state.config.Rate
	if rate == (Rate{}) {
		return 0, nil
	}
	if c.bucket, err = c.readBucket(c.reader(), c.bucketRow(), rate); err != nil {
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
	c.tx.Set(c.bucketRow(), c.bucket.pack())
	return nil
}

// giveBackTokens puts back the tokens of a delivery that reached nobody.
func (qtx *queueTx) giveBackTokens(l *leasedItem) error {
	if l.since == 0 {
		return nil
	}
	err := qtx.giveBackToken(qtx.bucketRow(), l.since)
	if err == nil && l.key != "" {
		err = qtx.giveBackToken(qtx.keyBucketRow(l.key), l.since)
	}
	return err
}

// giveBackToken puts the token of a delivery that reached nobody back into a row.
func (qtx *queueTx) giveBackToken(row []byte, taken int64) error {
	v, err := qtx.tx.Get(row)
	if err != nil {
		return err
	}
	b, err := parseBucket(v)
	if err == nil && b.giveBack(taken) {
		qtx.tx.Set(row, b.pack())
	}
	return err
}

// bucketRow is the row of the queue's own tokens. It belongs to no generation: a purge
// does not allow more deliveries.
func (q Queue) bucketRow() []byte { return queueRow(spaceTokens, q.name) }

// keyBucketRow is the row of a key's tokens.
func (q Queue) keyBucketRow(key string) []byte {
	return tuple.AppendBytes(queueRow(spaceTokensOf, q.name), []byte(key))
}

// tokensDue clears buckets that are full.
func (qtx *queueTx) tokensDue() error {
	now, err := qtx.now()
	if err != nil {
		return err
	}
	later, err := qtx.forgetKnown(spaceTokensOf, timerTokens, func(key string, value []byte) (bool, error) {
		b, err := parseBucket(value)
		if err != nil {
			return false, err
		}
		settings, err := qtx.settingsOf(qtx.tx, qtx.state, key)
		if err != nil {
			return false, err
		}
		if rate := settings.rate(&qtx.state.config); rate != (Rate{}) {
			b = b.refilled(rate, qtx.state.keyRateSince, now)
		}
		return b.full <= now, nil
	})
	if err != nil {
		return err
	}
	if !later {
		now = math.MaxInt64 - 1 // no key owes anything: none waits
	}
	return qtx.endWaits(now)
}
