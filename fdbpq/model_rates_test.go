package fdbpq_test

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
)

// modelBucket is a bucket that time fills evenly, up to the rate's number of tokens. It
// counts in nanoseconds: a token is as many as one takes to come.
type modelBucket struct {
	rate  fdbpq.Rate
	level int64 // at the time at
	at    int64
	taken int64 // when a delivery last took a token
}

func tokenTime(r fdbpq.Rate) int64 { return (int64(r.Period) + r.N - 1) / r.N }

// seen is the bucket at a time, under a rate that was set at another one.
func (b modelBucket) seen(rate fdbpq.Rate, set, now int64) modelBucket {
	switch {
	case b.rate == (fdbpq.Rate{}):
		return modelBucket{rate: rate, level: rate.N * tokenTime(rate), at: now}
	case b.rate != rate:
		set = max(set, b.taken)
		old := b.seen(b.rate, 0, set)
		b = modelBucket{rate: rate, level: min(old.whole(), rate.N) * tokenTime(rate), at: set}
	}
	b.level, b.at = min(b.level+now-b.at, rate.N*tokenTime(rate)), now
	return b
}

func (b *modelBucket) tokens() int64 { return max(0, b.whole()) }

// whole is how many whole tokens it has: less than none if it owes some.
func (b *modelBucket) whole() int64 {
	n := b.level / tokenTime(b.rate)
	if b.level < 0 && b.level%tokenTime(b.rate) != 0 {
		n--
	}
	return n
}

// wait is the time until there is a token.
func (b *modelBucket) wait() time.Duration { return time.Duration(tokenTime(b.rate) - b.level) }

func (b *modelBucket) take(n int) {
	b.level -= int64(n) * tokenTime(b.rate)
	b.taken = b.at
}

func (b *modelBucket) full(now int64) bool {
	now = max(now, b.at)
	return b.level+now-b.at >= b.rate.N*tokenTime(b.rate)
}

// tokens is how many deliveries the queue's rate allows.
func (q *modelQueue) tokens(now int64) int64 {
	if q.config.Rate == (fdbpq.Rate{}) {
		return math.MaxInt64
	}
	b := q.bucket.seen(q.config.Rate, 0, now)
	return b.tokens()
}

// allows is how many deliveries the queue's rates allow, where the first one may take all tokens of cost.
func (q *modelQueue) allows(now int64) int64 {
	if q.costTokens(now) <= 0 {
		return 0
	}
	return q.tokens(now)
}

func (q *modelQueue) rateOf(key string) fdbpq.Rate {
	if r := q.settings[key].Rate; r != nil {
		return *r
	}
	return q.config.KeyRate
}

func (q *modelQueue) keyBucket(key string, now int64) modelBucket {
	return q.keyBuckets[key].seen(q.rateOf(key), q.keyRateSet, now)
}

// keyTokens is how many deliveries a key's rate allows.
func (q *modelQueue) keyTokens(key string, now int64) int64 {
	if key == "" || q.rateOf(key) == (fdbpq.Rate{}) {
		return math.MaxInt64
	}
	b := q.keyBucket(key, now)
	return b.tokens()
}

// spend takes the tokens of deliveries.
func (m *model) spend(q *modelQueue, items []modelItem, now int64) {
	if q.config.Rate != (fdbpq.Rate{}) && len(items) > 0 {
		q.bucket = q.bucket.seen(q.config.Rate, 0, now)
		q.bucket.take(len(items))
	}
	for i := range items {
		m.pay(q, &items[i], now)
		key := items[i].key
		if key == "" || q.rateOf(key) == (fdbpq.Rate{}) {
			continue
		}
		b := q.keyBucket(key, now)
		b.take(1)
		q.setKeyBucket(key, b)
		m.forgetFull(q.name, now)
	}
}

func (q *modelQueue) setKeyBucket(key string, b modelBucket) {
	if q.keyBuckets == nil {
		q.keyBuckets = make(map[string]modelBucket)
	}
	q.keyBuckets[key] = b
}

// giveBack puts back the tokens of a delivery that reached nobody, if no other followed.
func (m *model) giveBack(q *modelQueue, item *modelItem, now int64) {
	if item.spent == 0 {
		return
	}
	if q.bucket.rate != (fdbpq.Rate{}) && q.bucket.taken == item.spent {
		q.bucket.level += tokenTime(q.bucket.rate)
		item.tokenBack = true
	}
	if b := q.keyBuckets[item.key]; item.key != "" && b.rate != (fdbpq.Rate{}) && b.taken == item.spent {
		b.level += tokenTime(b.rate)
		q.keyBuckets[item.key] = b
		item.keyTokenBack = true
	}
	if charged := item.charged; charged > 0 {
		item.charged, item.costBack = 0, true
		m.correct(q, item.key, charged, 0, now)
	}
}

// done removes an item that its last holder settles. What came back when its lease ended is taken again.
func (m *model) done(q *modelQueue, item modelItem, spent spending, now int64) (reserved int64) {
	q.remove(item.number)
	if item.tokenBack && q.config.Rate != (fdbpq.Rate{}) {
		q.bucket = q.bucket.seen(q.config.Rate, 0, now)
		q.bucket.take(1)
	}
	if item.keyTokenBack && q.rateOf(item.key) != (fdbpq.Rate{}) {
		b := q.keyBucket(item.key, now)
		b.take(1)
		q.setKeyBucket(item.key, b)
		m.forgetFull(q.name, now)
	}
	return m.settled(q, item, spent, now)
}

// forgetFull is work for a sweep: some time later, full buckets of keys are forgotten.
func (m *model) forgetFull(queue string, now int64) {
	d := due{at: (now/int64(time.Minute) + 2) * int64(time.Minute), kind: "btokens", queue: queue}
	m.plan(d)
}

// plan is work for a sweep that belongs to no item.
func (m *model) plan(d due) {
	if !slices.Contains(m.others, d) {
		m.others = append(m.others, d)
	}
}

// otherDue forgets full buckets, or has pops go by the order of turns.
func (m *model) otherDue(d due, at moment) {
	m.others = slices.DeleteFunc(m.others, func(other due) bool { return other == d })
	q := m.queues[d.queue]
	if q == nil || d.kind == "keys" {
		return
	}
	if d.kind == "ffair" {
		q.fairBuilt = q.fairBuilt || q.exists && q.config.Fair != "" && d.id == fmt.Sprint(q.fairOrder)
		return
	}
	left := q.forgetCosts(at.now)
	for key, b := range q.keyBuckets {
		if rate := q.rateOf(key); rate != (fdbpq.Rate{}) {
			b = b.seen(rate, q.keyRateSet, at.now)
		}
		if b.full(at.now) {
			delete(q.keyBuckets, key)
		} else {
			left = true
		}
	}
	if left {
		m.forgetFull(d.queue, at.now)
	}
}

// changeTurns begins another order of turns. Without keys there is nothing to do for it.
func (m *model) changeTurns(q *modelQueue, before fdbpq.Fair, now int64) {
	if q.config.Fair == before {
		return
	}
	q.fairOrder++
	q.fairBuilt = q.config.Fair != "" && !q.keyed
	if q.config.Fair != "" && q.keyed {
		m.plan(due{at: now, kind: "ffair", queue: q.name, id: fmt.Sprint(q.fairOrder)})
	}
}

// changeRates has tokens come by another configuration.
func (q *modelQueue) changeRates(before fdbpq.Config, now int64) {
	if before.Rate != q.config.Rate {
		b := q.bucket
		q.bucket = modelBucket{}
		if before.Rate != (fdbpq.Rate{}) && q.config.Rate != (fdbpq.Rate{}) {
			b = b.seen(before.Rate, 0, now) // also one that nothing was taken from has no more than its number
			if b = b.seen(q.config.Rate, now, now); !b.full(now) {
				q.bucket = b
			}
		}
	}
	if before.KeyRate != q.config.KeyRate {
		q.keyRateSet = now
	}
	q.changeCostRates(before, now)
}

// setKey changes the settings of a key.
func (m *model) setKey(queue, key string, at moment, change func(*fdbpq.KeySettings)) outcome {
	q := m.create(queue)
	before, costBefore := q.rateOf(key), q.costRateOf(key)
	was := q.settings[key]
	k := was
	change(&k)
	if q.settings == nil {
		q.settings = make(map[string]fdbpq.KeySettings)
	}
	q.settings[key] = k
	if k == (fdbpq.KeySettings{}) {
		delete(q.settings, key)
	}
	if after := q.rateOf(key); after != before && before != (fdbpq.Rate{}) {
		b := q.keyBuckets[key]
		delete(q.keyBuckets, key)
		if after != (fdbpq.Rate{}) {
			b = b.seen(before, q.keyRateSet, at.now)
			if b = b.seen(after, at.now, at.now); !b.full(at.now) {
				q.setKeyBucket(key, b)
				m.forgetFull(queue, at.now)
			}
		}
	}
	m.changeKeyCost(q, key, costBefore, at.now)
	return outcome{OK: true}
}

// retry is when a pop that found nothing may find something without an arrival: the store
// may say that it is sooner.
func (q *modelQueue) retry(out *outcome, now int64, got outcome) {
	var wait time.Duration
	switch out.Reason {
	case fdbpq.ReasonRate:
		out.Retry = q.rateWait(now)
		return
	case fdbpq.ReasonBlocked, fdbpq.ReasonLeased, fdbpq.ReasonDelayed, fdbpq.ReasonBand, fdbpq.ReasonEmpty:
		if q.blocks() {
			wait = q.firstToken(now)
		}
	}
	if out.Retry = wait; got.Retry > 0 && (wait == 0 || got.Retry < wait) {
		out.Retry = got.Retry
	}
}

// firstToken is the time until a key that waits for nothing but a token has one.
func (q *modelQueue) firstToken(now int64) (wait time.Duration) {
	t := q.turns(selection{end: fdbpq.Min, band: everyPriority}, now, outcome{})
	for _, item := range q.in(fdbpq.StateReady) {
		if item.key == "" || q.keyTokens(item.key, now) > 0 && q.keyCostTokens(item.key, now) > 0 {
			continue
		}
		next := q.keyWait(item.key, now)
		t.now = now + int64(next)
		if t.may(item) && (wait == 0 || next < wait) {
			wait = next
		}
	}
	return wait
}
