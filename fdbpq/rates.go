package fdbpq

import (
	"math"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// rates reads and writes the token buckets of a queue and of its keys.
type rates struct{ *queueRows }

// bucketOf says whose bucket it is, and by which rate tokens come.
type bucketOf struct {
	key  string // "": the queue's own
	cost bool   // it bounds the cost of deliveries, and not their number
	rate Rate
}

// row is the row of a bucket. It belongs to no generation: a purge
// does not allow more deliveries.
func (rs rates) row(of bucketOf) []byte {
	switch {
	case of.key == "" && of.cost:
		return layout.QueueRow(layout.SpaceCost, rs.name)
	case of.key == "":
		return layout.QueueRow(layout.SpaceTokens, rs.name)
	}
	return tuple.AppendBytes(layout.QueueRow(spaceOfKeys(of.cost), rs.name), []byte(of.key))
}

// spaceOfKeys is where the buckets of keys are.
func spaceOfKeys(cost bool) string {
	if cost {
		return layout.SpaceCostOf
	}
	return layout.SpaceTokensOf
}

// since is the store time at which the rate of a key's bucket was last changed for all keys.
func (rs rates) since(of bucketOf) int64 {
	if of.cost {
		return rs.state.keyCostSince
	}
	return rs.state.keyRateSince
}

// read returns the tokens of a bucket as they are now, under the rate of the present.
func (rs rates) read(r kv.Reader, of bucketOf) (bucket, error) {
	v, err := r.Get(rs.row(of))
	if err != nil {
		return bucket{}, err
	}
	b, err := parseBucket(v, of.cost)
	if err != nil {
		return bucket{}, err
	}
	now, err := rs.now()
	return b.refilled(of.rate, rs.since(of), now), err
}

// readBoth reads the buckets that have a rate.
func (rs rates) readBoth(r kv.Reader, of [2]bucketOf) (bs buckets, err error) {
	for i := range of {
		if of[i].rate == (Rate{}) {
			continue
		}
		if bs[i], err = rs.read(r, of[i]); err != nil {
			return bs, err
		}
	}
	return bs, nil
}

// spent is the store time until which the rates allow no delivery, 0 if they allow one now.
func (rs rates) spent(of [2]bucketOf) (until int64, err error) {
	bs, err := rs.readBoth(rs.snapshot, of)
	if err != nil || !bs.bound() {
		return 0, err
	}
	now, err := rs.now()
	if err != nil || bs.allow(now) > 0 {
		return 0, err
	}
	return bs.next(), nil
}

// costTokens is how many tokens of cost the queue has, negative if it owes some; 0 without a rate.
func (rs rates) costTokens() (int64, error) {
	of := rs.state.config.buckets()[ofCost]
	if of.rate == (Rate{}) {
		return 0, nil
	}
	b, err := rs.read(rs.snapshot, of)
	if err != nil {
		return 0, err
	}
	now, err := rs.now()
	return b.level(now), err
}

// write writes the tokens of a bucket.
func (rs rates) write(of bucketOf, b *bucket) error {
	if of.key != "" && !b.stored {
		b.stored = true
		rs.tally.Owing++
	}
	rs.tx.Set(rs.row(of), b.pack())
	if of.key == "" {
		return nil
	}
	return rs.timers.forgetLater(layout.TimerTokens)
}

// writeUsed writes the buckets whose tokens the transaction has taken.
func (rs rates) writeUsed(of [2]bucketOf, bs *buckets) error {
	for i := range bs {
		if !bs[i].used {
			continue
		}
		if err := rs.write(of[i], &bs[i]); err != nil {
			return err
		}
	}
	return nil
}

// forget clears a bucket, which is full.
func (rs rates) forget(of bucketOf, b *bucket) {
	if of.key != "" && b.stored {
		rs.tally.Owing--
	}
	rs.tx.Clear(rs.row(of))
}

// change has tokens come at another rate from now on. The row stays if the bucket owes tokens.
func (rs rates) change(before, after [2]bucketOf) error {
	for i := range before {
		of, next := before[i], after[i].rate
		if of.rate == next || of.rate == (Rate{}) {
			continue
		}
		b, err := rs.read(rs.tx, of)
		if err != nil {
			return err
		}
		now, err := rs.now()
		if err != nil {
			return err
		}
		if next != (Rate{}) {
			if changed := b.refilled(next, now, now); changed.owes(now) {
				if err := rs.write(of, &changed); err != nil {
					return err
				}
				continue
			}
		}
		rs.forget(of, &b)
	}
	return nil
}

// giveBack puts back the tokens of a delivery that reached no consumer. The item remembers which tokens
// came back.
func (rs rates) giveBack(l *layout.Item) error {
	if l.Since == 0 {
		return nil
	}
	for _, of := range [...]struct {
		bucketOf
		token int64
	}{{token: layout.TokenOfQueue}, {bucketOf{key: l.Key}, layout.TokenOfKey}} {
		if of.token == layout.TokenOfKey && l.Key == "" {
			continue
		}
		back, err := rs.giveBackOne(of.bucketOf, l.Since)
		if err != nil {
			return err
		}
		if back {
			l.TokensBack |= of.token
		}
	}
	if l.Charged == 0 {
		return nil
	}
	charged := l.Charged
	l.Charged, l.TokensBack = 0, l.TokensBack|layout.TokensOfCost
	return rs.correct(l.Key, charged, 0)
}

// giveBackOne puts the token of a delivery that reached no consumer back, and reports whether it did. After another delivery
// the token is lost: without this delivery, the other might have found a full bucket.
func (rs rates) giveBackOne(of bucketOf, taken int64) (bool, error) {
	v, err := rs.tx.Get(rs.row(of))
	if err != nil {
		return false, err
	}
	b, err := parseBucket(v, of.cost)
	if err != nil || b.taken != taken || b.rate == (Rate{}) {
		return false, err
	}
	b.sooner(1)
	rs.tx.Set(rs.row(of), b.pack())
	return true, nil
}

// payment is what a settlement says of the tokens of its delivery.
type payment struct {
	key           string
	cost, charged int64
	back          int64  // which tokens had come back
	spent         *int64 // nil: the holder does not say
}

// paysFor is the payment of a settlement, before it changes the item, which remembers what a later settlement corrects.
func (rs rates) paysFor(l *layout.Item, spent *int64) payment {
	p := payment{l.Key, l.Costs(), l.Charged, l.TokensBack, spent}
	if spent != nil && rs.state.ratesCost() {
		l.Charged = *spent
	}
	return p
}

// reserved is the cost that the delivery had reserved.
func (p *payment) reserved() int64 {
	if p.back&layout.TokensOfCost != 0 {
		return p.cost
	}
	return p.charged
}

// settle corrects what a delivery has reserved of the cost to what it has cost by the word of its holder. It takes the tokens again
// that came back from the last lease of the item, which is settled after all, even out of empty buckets: the work is done, and the next
// deliveries wait.
func (rs rates) settle(p *payment) error {
	key, charged, back, spent := p.key, p.charged, p.back, p.spent
	of := rs.state.config.buckets()
	if back&layout.TokenOfQueue != 0 {
		if err := rs.takeOne(of[ofDeliveries]); err != nil {
			return err
		}
	}
	if back&layout.TokenOfKey != 0 {
		settings, err := rs.settings.of(rs.tx, key)
		if err != nil {
			return err
		}
		if err := rs.takeOne(settings.buckets(key, &rs.state.config)[ofDeliveries]); err != nil {
			return err
		}
	}
	switch {
	case spent != nil && charged == 0 && back&layout.TokensOfCost == 0 && !rs.state.ratesCost():
		return rs.fairIndex.owe(key, *spent-p.cost)
	case spent != nil:
		return rs.correct(key, charged, *spent)
	case back&layout.TokensOfCost != 0:
		return rs.correct(key, charged, p.cost)
	}
	return nil
}

// takeOne takes a token under the rate of the present, if there is one.
func (rs rates) takeOne(of bucketOf) error {
	if of.rate == (Rate{}) {
		return nil
	}
	b, err := rs.read(rs.tx, of)
	if err != nil {
		return err
	}
	now, err := rs.now()
	if err != nil {
		return err
	}
	b.take(1, now)
	return rs.write(of, &b)
}

// correct changes what a delivery has taken of the cost of its queue and of its key, and of the key's turns, from so much to so much. Pops that wait for
// a token look again if it comes sooner: they, and the row of a key that waits, have the time at which it would have come.
func (rs rates) correct(key string, from, to int64) error {
	if from == to {
		return nil
	}
	if err := rs.fairIndex.owe(key, to-from); err != nil || !rs.state.ratesCost() {
		return err
	}
	found, err := rs.correctOne(rs.state.config.buckets()[ofCost], from, to)
	if err != nil {
		return err
	}
	if found {
		rs.arrive()
	}
	if key == "" {
		return nil
	}
	settings, err := rs.settings.of(rs.tx, key)
	if err != nil {
		return err
	}
	if found, err = rs.correctOne(settings.buckets(key, &rs.state.config)[ofCost], from, to); err != nil || !found {
		return err
	}
	return rs.keyIndex.lookAgain(rs.snapshot, key)
}

// correctOne corrects one bucket, and reports whether it was empty and has a token sooner now.
func (rs rates) correctOne(of bucketOf, from, to int64) (found bool, err error) {
	if of.rate == (Rate{}) {
		return false, nil
	}
	b, err := rs.read(rs.tx, of)
	if err != nil {
		return false, err
	}
	now, err := rs.now()
	if err != nil {
		return false, err
	}
	empty := b.tokens(now) == 0
	if to > from {
		b.later(to-from, now)
	} else {
		b.sooner(from - to)
	}
	if !b.stored && !b.owes(now) {
		return false, nil
	}
	return empty && to < from, rs.write(of, &b)
}

// keysOwing is how many rows of tokens the keys have.
func keysOwing(queue string, r kv.Reader) (int64, error) {
	n, err := r.Get(layout.CounterKey(queue, 0, layout.CounterOwing))
	return int64(kv.DecodeInteger(n)), err
}

// noRoom reports whether a key has to wait because a bucket of it has no row, and no further
// one may get one.
func (rs rates) noRoom(bs *buckets) (bool, error) {
	needs := false
	for i := range bs {
		needs = needs || bs[i].rate != (Rate{}) && !bs[i].stored
	}
	if !needs {
		return false, nil
	}
	n, err := keysOwing(rs.name, rs.snapshot)
	return n >= rs.store.maxKeysOwing, err
}

// due clears buckets that are full.
func (rs rates) due() error {
	now, err := rs.now()
	if err != nil {
		return err
	}
	later := false
	for _, cost := range [...]bool{false, true} {
		more, err := rs.timers.forget(spaceOfKeys(cost), layout.TimerTokens, func(key string, value []byte) (bool, error) {
			full, err := rs.isFull(key, value, cost, now)
			if full {
				rs.tally.Owing--
			}
			return full, err
		})
		if err != nil {
			return err
		}
		later = later || more
	}
	if !later {
		now = math.MaxInt64 - 1 // no key owes tokens, so no key waits
	}
	return rs.keyWaits.end(now)
}

// isFull reports whether a key needs a row of tokens no more.
func (rs rates) isFull(key string, row []byte, cost bool, now int64) (bool, error) {
	b, err := parseBucket(row, cost)
	if err != nil {
		return false, err
	}
	settings, err := rs.settings.of(rs.tx, key)
	if err != nil {
		return false, err
	}
	of := settings.buckets(key, &rs.state.config)[ofDeliveries]
	if cost {
		of = settings.buckets(key, &rs.state.config)[ofCost]
	}
	if of.rate != (Rate{}) {
		b = b.refilled(of.rate, rs.since(of), now)
	}
	return !b.owes(now), nil
}

// MaxKeysOwing bounds how many rows of tokens the keys of a queue may have, because their buckets are
// not full. With so many, a key whose bucket is full waits until another bucket is full.
const MaxKeysOwing = 1_000_000
