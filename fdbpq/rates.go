package fdbpq

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Rate bounds deliveries: within any time W there are at most N + N·W/Period. The zero
// Rate bounds nothing.
type Rate struct {
	N      int64
	Period Duration
}

// The bounds of a rate. An interval of less than a microsecond would be rounded by more
// than a thousandth.
const (
	MaxRate       = 1_000_000
	MinRatePeriod = time.Second
	MaxRatePeriod = 24 * time.Hour
)

// String returns the rate in the form that UnmarshalText reads, such as 100/1m0s, and ""
// when there is none.
func (r Rate) String() string {
	if r == (Rate{}) {
		return ""
	}
	return fmt.Sprintf("%d/%s", r.N, r.Period)
}

// MarshalText implements encoding.TextMarshaler.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. "" is no rate.
func (r *Rate) UnmarshalText(text []byte) error {
	if *r = (Rate{}); len(text) == 0 {
		return nil
	}
	n, period, ok := strings.Cut(string(text), "/")
	var parsed Rate
	var err error
	if parsed.N, err = strconv.ParseInt(n, 10, 64); err != nil || !ok || parsed.Period.UnmarshalText([]byte(period)) != nil {
		return fmt.Errorf("rate %q: expected a number and a duration, such as 100/1m", text)
	}
	if parsed.N < 1 || parsed.N > MaxRate {
		return fmt.Errorf("rate %q: the number is %d, allowed are 1 to %d", text, parsed.N, MaxRate)
	}
	if p := time.Duration(parsed.Period); p < MinRatePeriod || p > MaxRatePeriod {
		return fmt.Errorf("rate %q: the duration is %s, allowed are %s to %s", text, p, MinRatePeriod, MaxRatePeriod)
	}
	*r = parsed
	return nil
}

// PerSecond is how many deliveries a second it allows in the long run, 0 for no Rate.
func (r Rate) PerSecond() float64 {
	if r == (Rate{}) {
		return 0
	}
	return float64(r.N) / time.Duration(r.Period).Seconds()
}

// interval is the time in which one token comes, rounded up.
func (r Rate) interval() int64 { return (int64(r.Period) + r.N - 1) / r.N }

// bucket holds the tokens of a rate: as many as the rate's number at first, and a new one
// each interval. A delivery takes one. A bucket that is full needs no row.
type bucket struct {
	rate  Rate
	full  int64 // store time at which it is full again
	taken int64 // store time of the last delivery that took a token
	used  bool  // this transaction has changed it

	stored  bool // it has a row
	counted bool // the row is a key's, and counted among those of the queue. Earlier versions counted none
}

// refilled returns the bucket as it is now, under a rate that may hold since a time: then
// it kept the tokens for which it had room.
func (b bucket) refilled(rate Rate, since, now int64) bucket {
	if rate != b.rate && b.rate != (Rate{}) {
		since = max(since, b.taken)
		missing := max(0, rate.N-b.tokens(since))
		b = bucket{full: since + missing*rate.interval(), stored: b.stored, counted: b.counted}
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
	if b.counted {
		v = tuple.AppendInt(v, 1)
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
	b.rate.Period, b.stored, b.counted = Duration(period), true, r.More()
	if b.rate.N < 1 || b.rate.N > MaxRate || period < int64(MinRatePeriod) || period > int64(MaxRatePeriod) {
		return bucket{}, fmt.Errorf("damaged tokens: rate %s", b.rate)
	}
	return b, nil
}

// rates is what a queue does about its tokens, and those of its keys.
type rates struct{ *queueTx }

// read returns the tokens in a row as they are now, under the rate of the present.
func (rs rates) read(r kv.Reader, row []byte, rate Rate) (bucket, error) {
	v, err := r.Get(row)
	if err != nil {
		return bucket{}, err
	}
	b, err := parseBucket(v)
	if err != nil {
		return bucket{}, err
	}
	now, err := rs.now()
	return b.refilled(rate, rs.state.keyRateSince, now), err
}

// changeRow has tokens come at another rate from now on. It returns the bucket of before,
// and that of after if some tokens are owed, and otherwise nil.
func (rs rates) changeRow(row []byte, rate, next Rate) (before, after *bucket, err error) {
	if rate == next || rate == (Rate{}) {
		return nil, nil, nil
	}
	b, err := rs.read(rs.tx, row, rate)
	if err != nil {
		return nil, nil, err
	}
	now, err := rs.now()
	if err != nil || next == (Rate{}) {
		return &b, nil, err
	}
	if changed := b.refilled(next, now, now); changed.full > now {
		return &b, &changed, nil
	}
	return &b, nil, nil
}

// prepareKeyRate notes since when keys have another rate.
func prepareKeyRate(qtx *queueTx, next *queueState) (err error) {
	if next.config.KeyRate != qtx.state.config.KeyRate {
		next.keyRateSince, err = qtx.now()
	}
	return err
}

// rateChanged has the queue's tokens come at another rate.
func rateChanged(qtx *queueTx, before *Config) error {
	rate := qtx.state.config.Rate
	if rate == before.Rate {
		return nil
	}
	qtx.arrive()
	was, now, err := rates{qtx}.changeRow(bucketRow(qtx.name), before.Rate, rate)
	switch {
	case now != nil:
		qtx.tx.Set(bucketRow(qtx.name), now.pack())
	case was != nil:
		qtx.tx.Clear(bucketRow(qtx.name))
	}
	return err
}

// changeKey has a key's tokens come at another rate.
func (rs rates) changeKey(key string, before, after Rate) error {
	was, now, err := rs.changeRow(keyBucketRow(rs.name, key), before, after)
	switch {
	case now != nil:
		return rs.keep(key, now)
	case was != nil:
		rs.forget(key, was)
	}
	return err
}

// bound bounds a selection by the queue's tokens. It returns when there is one again, if
// there is none.
func (c *collector) bound() (retry time.Duration, err error) {
	rate := c.state.config.Rate
	if rate == (Rate{}) {
		return 0, nil
	}
	if c.bucket, err = (rates{c.queueTx}).read(c.reader(), bucketRow(c.name), rate); err != nil {
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
	c.tx.Set(bucketRow(c.name), c.bucket.pack())
	return nil
}

// giveBack puts back the tokens of a delivery that reached nobody.
func (rs rates) giveBack(l *located) error {
	if l.since == 0 {
		return nil
	}
	err := rs.giveBackOne(bucketRow(rs.name), l.since)
	if err == nil && l.key != "" {
		err = rs.giveBackOne(keyBucketRow(rs.name, l.key), l.since)
	}
	return err
}

// giveBackOne puts the token of a delivery that reached nobody back into a row.
func (rs rates) giveBackOne(row []byte, taken int64) error {
	v, err := rs.tx.Get(row)
	if err != nil {
		return err
	}
	b, err := parseBucket(v)
	if err == nil && b.giveBack(taken) {
		rs.tx.Set(row, b.pack())
	}
	return err
}

// bucketRow is the row of the queue's own tokens. It belongs to no generation: a purge
// does not allow more deliveries.
func bucketRow(queue string) []byte { return queueRow(spaceTokens, queue) }

// keyBucketRow is the row of a key's tokens.
func keyBucketRow(queue, key string) []byte {
	return tuple.AppendBytes(queueRow(spaceTokensOf, queue), []byte(key))
}

// MaxKeysOwing bounds how many keys of a queue may have a row of tokens, because they owe
// some: 24 hours at most. With so many, a key that owes none waits until another one is done.
const MaxKeysOwing = 1_000_000

// keep writes the tokens of a key.
func (rs rates) keep(key string, b *bucket) error {
	if !b.counted {
		b.counted = true
		rs.tally.owing++
	}
	rs.tx.Set(keyBucketRow(rs.name, key), b.pack())
	return timers{rs.queueTx}.forgetLater(timerTokens)
}

// forget clears the tokens of a key.
func (rs rates) forget(key string, b *bucket) {
	if b.counted {
		rs.tally.owing--
	}
	rs.tx.Clear(keyBucketRow(rs.name, key))
}

// keysOwing is how many keys have a row of tokens.
func keysOwing(queue string, r kv.Reader) (int64, error) {
	n, err := r.Get(counterKey(queue, 0, counterOwing))
	return int64(kv.DecodeInteger(n)), err
}

// noRoom reports whether a key has to wait because it has no row of tokens, and no other
// key may get one.
func (rs rates) noRoom(b *bucket) (bool, error) {
	if b.stored {
		return false, nil
	}
	n, err := keysOwing(rs.name, rs.snapshot)
	return n >= rs.store.maxKeysOwing, err
}

// noRoomFor is noRoom for a key whose row was not read.
func (rs rates) noRoomFor(key string) (bool, error) {
	row, err := rs.snapshot.Get(keyBucketRow(rs.name, key))
	if err != nil {
		return false, err
	}
	return rs.noRoom(&bucket{stored: row != nil})
}

// foundTokens checks the tokens of a queue.
func foundTokens(w *walk, r *foundRow) error {
	_, err := parseBucket(r.Value)
	return cmp.Or(r.living(), err)
}

// foundTokensOf checks the tokens of a key.
func foundTokensOf(w *walk, r *foundRow) error {
	_, done, err := r.ofKey()
	if err = cmp.Or(r.living(), err); done || err != nil {
		return err
	}
	b, err := parseBucket(r.Value)
	if b.counted {
		w.of(lineage{queue: r.queue}).tally.owing++
	}
	return err
}

// due clears buckets that are full.
func (rs rates) due() error {
	now, err := rs.now()
	if err != nil {
		return err
	}
	later, err := timers{rs.queueTx}.forget(spaceTokensOf, timerTokens, func(key string, value []byte) (bool, error) {
		b, err := parseBucket(value)
		if err != nil {
			return false, err
		}
		settings, err := settings{rs.queueTx}.of(rs.tx, key)
		if err != nil {
			return false, err
		}
		if rate := settings.rate(&rs.state.config); rate != (Rate{}) {
			b = b.refilled(rate, rs.state.keyRateSince, now)
		}
		if b.full > now {
			return false, nil
		}
		if b.counted {
			rs.tally.owing--
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	if !later {
		now = math.MaxInt64 - 1 // no key owes anything: none waits
	}
	return keyIndex{rs.queueTx}.endWaits(now)
}
