package fdbpq

import (
	"math"

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
