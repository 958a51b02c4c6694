package fdbpq

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// rates reads and writes the token buckets of a queue and of its keys.
type rates struct{ *queueRows }

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

// spent reports whether a rate allows no delivery now.
func (rs rates) spent(row []byte, rate Rate) (bool, error) {
	if rate == (Rate{}) {
		return false, nil
	}
	b, err := rs.read(rs.snapshot, row, rate)
	if err != nil {
		return false, err
	}
	now, err := rs.now()
	return b.tokens(now) == 0, err
}

// changeRow has tokens come at another rate from now on. It returns the bucket of before,
// and the bucket of after if it owes tokens.
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

// giveBack puts back the tokens of a delivery that reached no consumer. The item remembers which tokens
// came back.
func (rs rates) giveBack(l *layout.Item) error {
	if l.Since == 0 {
		return nil
	}
	back, err := rs.giveBackOne(bucketRow(rs.name), l.Since)
	if back {
		l.TokensBack |= layout.TokenOfQueue
	}
	if err != nil || l.Key == "" {
		return err
	}
	if back, err = rs.giveBackOne(keyBucketRow(rs.name, l.Key), l.Since); back {
		l.TokensBack |= layout.TokenOfKey
	}
	return err
}

// giveBackOne puts the token of a delivery that reached no consumer back into a row, and reports whether
// it did.
func (rs rates) giveBackOne(row []byte, taken int64) (bool, error) {
	v, err := rs.tx.Get(row)
	if err != nil {
		return false, err
	}
	b, err := parseBucket(v)
	if err != nil || !b.giveBack(taken) {
		return false, err
	}
	rs.tx.Set(row, b.pack())
	return true, nil
}

// takeAgain takes the tokens again that came back from the last lease of an item, which is settled
// after all, even out of empty buckets: the work is done, and the next deliveries wait.
func (rs rates) takeAgain(key string, back int64) error {
	if back&layout.TokenOfQueue != 0 {
		if err := rs.takeOne(bucketRow(rs.name), rs.state.config.Rate, func(b *bucket) error {
			rs.tx.Set(bucketRow(rs.name), b.pack())
			return nil
		}); err != nil {
			return err
		}
	}
	if back&layout.TokenOfKey == 0 {
		return nil
	}
	settings, err := rs.settings.of(rs.tx, key)
	if err != nil {
		return err
	}
	return rs.takeOne(keyBucketRow(rs.name, key), settings.rate(&rs.state.config), func(b *bucket) error { return rs.keep(key, b) })
}

// takeOne takes a token out of a row under the rate of the present, if there is one.
func (rs rates) takeOne(row []byte, rate Rate, write func(*bucket) error) error {
	if rate == (Rate{}) {
		return nil
	}
	b, err := rs.read(rs.tx, row, rate)
	if err != nil {
		return err
	}
	now, err := rs.now()
	if err != nil {
		return err
	}
	b.take(1, now)
	return write(&b)
}

// bucketRow is the row of the queue's own tokens. It belongs to no generation: a purge
// does not allow more deliveries.
func bucketRow(queue string) []byte { return layout.QueueRow(layout.SpaceTokens, queue) }

// keyBucketRow is the row of a key's tokens.
func keyBucketRow(queue, key string) []byte {
	return tuple.AppendBytes(layout.QueueRow(layout.SpaceTokensOf, queue), []byte(key))
}

// keep writes the tokens of a key.
func (rs rates) keep(key string, b *bucket) error {
	if !b.stored {
		b.stored = true
		rs.tally.Owing++
	}
	rs.tx.Set(keyBucketRow(rs.name, key), b.pack())
	return rs.timers.forgetLater(layout.TimerTokens)
}

// forget clears the tokens of a key.
func (rs rates) forget(key string, b *bucket) {
	if b.stored {
		rs.tally.Owing--
	}
	rs.tx.Clear(keyBucketRow(rs.name, key))
}

// keysOwing is how many keys have a row of tokens.
func keysOwing(queue string, r kv.Reader) (int64, error) {
	n, err := r.Get(layout.CounterKey(queue, 0, layout.CounterOwing))
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

// due clears buckets that are full.
func (rs rates) due() error {
	now, err := rs.now()
	if err != nil {
		return err
	}
	later, err := rs.timers.forget(layout.SpaceTokensOf, layout.TimerTokens, func(key string, value []byte) (bool, error) {
		b, err := parseBucket(value)
		if err != nil {
			return false, err
		}
		settings, err := rs.settings.of(rs.tx, key)
		if err != nil {
			return false, err
		}
		if rate := settings.rate(&rs.state.config); rate != (Rate{}) {
			b = b.refilled(rate, rs.state.keyRateSince, now)
		}
		if b.full > now {
			return false, nil
		}
		rs.tally.Owing--
		return true, nil
	})
	if err != nil {
		return err
	}
	if !later {
		now = math.MaxInt64 - 1 // no key owes tokens, so no key waits
	}
	return rs.keyWaits.end(now)
}

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
// for the zero Rate.
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

// PerSecond is how many deliveries a second it allows in the long run, 0 for the zero Rate.
func (r Rate) PerSecond() float64 {
	if r == (Rate{}) {
		return 0
	}
	return float64(r.N) / time.Duration(r.Period).Seconds()
}

// interval is the time in which one token comes, rounded up.
func (r Rate) interval() int64 { return (int64(r.Period) + r.N - 1) / r.N }

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
