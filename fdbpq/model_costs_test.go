package fdbpq_test

import (
	"math"
	"math/big"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
)

// modelCosts is a bucket of cost: time fills it evenly, and any delivery may take more than it has. It counts in exact fractions of
// tokens, as texts, so that models can be compared.
type modelCosts struct {
	rate  fdbpq.CostRate
	level string // at the time at
	at    int64
	taken int64 // when a delivery last took from it
}

// spending is what a settlement says of the true cost.
type spending struct {
	said bool
	cost int64
}

func (s spending) of() *int64 {
	if !s.said {
		return nil
	}
	return &s.cost
}

// bad reports whether no delivery may have cost that.
func (s spending) bad() bool { return s.said && (s.cost < 0 || s.cost > 1_000_000) }

func badCost(cost int64) bool { return cost != 0 && (cost < 1 || cost > 1_000_000) }

func (i *modelItem) costs() int64 { return max(1, i.cost) }

// shownCost is the cost as items show it: one of 1 goes without saying.
func (i *modelItem) shownCost() int64 {
	if i.cost == 1 {
		return 0
	}
	return i.cost
}

// tokensIn is how many tokens come in a time.
func tokensIn(rate fdbpq.CostRate, d int64) *big.Rat {
	return new(big.Rat).Mul(big.NewRat(rate.N, int64(rate.Period)), new(big.Rat).SetInt64(d))
}

func (b *modelCosts) has() *big.Rat {
	r, ok := new(big.Rat).SetString(b.level)
	if !ok {
		panic("level " + b.level)
	}
	return r
}

func (b *modelCosts) set(level *big.Rat) { b.level = level.RatString() }

func lesser(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

// seen is the bucket at a time, under a rate that was set at another one.
func (b modelCosts) seen(rate fdbpq.CostRate, set, now int64) modelCosts {
	number := new(big.Rat).SetInt64(rate.N)
	if b.rate == (fdbpq.CostRate{}) {
		b = modelCosts{rate: rate, at: now}
		b.set(number)
		return b
	}
	if b.rate != rate { // whole tokens go on
		set = max(set, b.taken)
		old := b.seen(b.rate, 0, set)
		b = modelCosts{rate: rate, at: set}
		b.set(number)
		b.takes(max(0, rate.N-old.whole()))
	}
	level := b.has()
	level.Add(level, tokensIn(rate, now-b.at))
	b.set(lesser(level, number))
	b.at = now
	return b
}

// whole is how many whole tokens it has: less than none if it owes some.
func (b *modelCosts) whole() int64 {
	level := b.has()
	return new(big.Int).Div(level.Num(), level.Denom()).Int64() // which rounds down
}

// wait is the time until there is a token, not more than 0 if there is one.
func (b *modelCosts) wait() time.Duration {
	lacks := new(big.Rat).Sub(big.NewRat(1, 1), b.has())
	lacks.Mul(lacks, big.NewRat(int64(b.rate.Period), b.rate.N))
	up := new(big.Int).Add(lacks.Num(), lacks.Denom())
	up.Sub(up, big.NewInt(1))
	return time.Duration(up.Div(up, lacks.Denom()).Int64())
}

// takes has it owe more, as far as that comes within a day.
func (b *modelCosts) takes(n int64) {
	level := b.has()
	level.Sub(level, new(big.Rat).SetInt64(n))
	least := tokensIn(b.rate, int64(24*time.Hour))
	if least.Neg(least); level.Cmp(least) < 0 {
		level = least
	}
	b.set(level)
}

func (b *modelCosts) puts(n int64) { b.set(new(big.Rat).Add(b.has(), new(big.Rat).SetInt64(n))) }

func (b *modelCosts) full(now int64) bool {
	level := b.has()
	level.Add(level, tokensIn(b.rate, max(0, now-b.at)))
	return level.Cmp(new(big.Rat).SetInt64(b.rate.N)) >= 0
}

// ratesCost reports whether deliveries pay for their costs.
func (q *modelQueue) ratesCost() bool {
	return q.costed && (q.config.CostRate != (fdbpq.CostRate{}) || q.config.KeyCostRate != (fdbpq.CostRate{}) || len(q.settings) > 0)
}

func (q *modelQueue) costRateOf(key string) fdbpq.CostRate {
	if r := q.settings[key].CostRate; r != nil {
		return *r
	}
	return q.config.KeyCostRate
}

func (q *modelQueue) costsNow(now int64) modelCosts { return q.costs.seen(q.config.CostRate, 0, now) }

func (q *modelQueue) keyCostsNow(key string, now int64) modelCosts {
	return q.keyCosts[key].seen(q.costRateOf(key), q.keyCostSet, now)
}

// costTokens is how much cost the queue has left for its deliveries.
func (q *modelQueue) costTokens(now int64) int64 {
	if q.config.CostRate == (fdbpq.CostRate{}) {
		return math.MaxInt64
	}
	b := q.costsNow(now)
	return b.whole()
}

// keyCostTokens is how much cost a key has left for its deliveries.
func (q *modelQueue) keyCostTokens(key string, now int64) int64 {
	if key == "" || q.costRateOf(key) == (fdbpq.CostRate{}) {
		return math.MaxInt64
	}
	b := q.keyCostsNow(key, now)
	return b.whole()
}

func (q *modelQueue) setKeyCosts(key string, b modelCosts) {
	if q.keyCosts == nil {
		q.keyCosts = make(map[string]modelCosts)
	}
	q.keyCosts[key] = b
}

// pay takes the cost of a delivery.
func (m *model) pay(q *modelQueue, item *modelItem, now int64) {
	if q.config.CostRate != (fdbpq.CostRate{}) {
		q.costs = q.costsNow(now)
		q.costs.takes(item.costs())
		q.costs.taken = now
	}
	if item.key == "" || q.costRateOf(item.key) == (fdbpq.CostRate{}) {
		return
	}
	b := q.keyCostsNow(item.key, now)
	b.takes(item.costs())
	b.taken = now
	q.setKeyCosts(item.key, b)
	m.forgetFull(q.name, now)
}

// correct has a delivery have cost so much instead of so much.
func (m *model) correct(q *modelQueue, key string, from, to, now int64) {
	if from == to || !q.ratesCost() {
		return
	}
	change := func(b *modelCosts) {
		if to > from {
			b.takes(to - from)
		} else {
			b.puts(from - to)
		}
	}
	if q.config.CostRate != (fdbpq.CostRate{}) {
		q.costs = q.costsNow(now)
		change(&q.costs)
	}
	if key == "" || q.costRateOf(key) == (fdbpq.CostRate{}) {
		return
	}
	b := q.keyCostsNow(key, now)
	change(&b)
	if _, owed := q.keyCosts[key]; owed || !b.full(now) {
		q.setKeyCosts(key, b)
		m.forgetFull(q.name, now)
	}
}

// settled corrects what the last lease of an item has paid, as it was before its settlement, and says what it had reserved.
func (m *model) settled(q *modelQueue, was modelItem, spent spending, now int64) (reserved int64) {
	reserved = was.charged
	if was.costBack {
		reserved = was.costs()
	}
	switch {
	case spent.said:
		m.correct(q, was.key, was.charged, spent.cost, now)
	case was.costBack:
		m.correct(q, was.key, was.charged, reserved, now)
	}
	return reserved
}

// changeCostRates has tokens of cost come by another configuration.
func (q *modelQueue) changeCostRates(before fdbpq.Config, now int64) {
	q.costed = q.costed || q.config.CostRate != (fdbpq.CostRate{}) || q.config.KeyCostRate != (fdbpq.CostRate{})
	if before.CostRate != q.config.CostRate {
		b := q.costs
		q.costs = modelCosts{}
		if before.CostRate != (fdbpq.CostRate{}) && q.config.CostRate != (fdbpq.CostRate{}) {
			b = b.seen(before.CostRate, 0, now)
			if b = b.seen(q.config.CostRate, now, now); !b.full(now) {
				q.costs = b
			}
		}
	}
	if before.KeyCostRate != q.config.KeyCostRate {
		q.keyCostSet = now
	}
}

// changeKeyCost has tokens of a key's cost come by its present settings.
func (m *model) changeKeyCost(q *modelQueue, key string, before fdbpq.CostRate, now int64) {
	q.costed = q.costed || q.settings[key].CostRate != nil
	after := q.costRateOf(key)
	if after == before || before == (fdbpq.CostRate{}) {
		return
	}
	b := q.keyCosts[key]
	delete(q.keyCosts, key)
	if after == (fdbpq.CostRate{}) {
		return
	}
	b = b.seen(before, q.keyCostSet, now)
	if b = b.seen(after, now, now); !b.full(now) {
		q.setKeyCosts(key, b)
		m.forgetFull(q.name, now)
	}
}

// forgetCosts forgets full buckets of keys, and reports whether others are left.
func (q *modelQueue) forgetCosts(now int64) (left bool) {
	for key, b := range q.keyCosts {
		if rate := q.costRateOf(key); rate != (fdbpq.CostRate{}) {
			b = b.seen(rate, q.keyCostSet, now)
		}
		if b.full(now) {
			delete(q.keyCosts, key)
		} else {
			left = true
		}
	}
	return left
}

// rateWait is the time until the queue's rates allow a delivery, 0 if they do.
func (q *modelQueue) rateWait(now int64) (wait time.Duration) {
	if q.config.Rate != (fdbpq.Rate{}) {
		b := q.bucket.seen(q.config.Rate, 0, now)
		wait = max(wait, b.wait())
	}
	if q.config.CostRate != (fdbpq.CostRate{}) {
		b := q.costsNow(now)
		wait = max(wait, b.wait())
	}
	return wait
}

// keyWait is the time until the rates of a key allow a delivery, 0 if they do.
func (q *modelQueue) keyWait(key string, now int64) (wait time.Duration) {
	if q.rateOf(key) != (fdbpq.Rate{}) {
		b := q.keyBucket(key, now)
		wait = max(wait, b.wait())
	}
	if q.costRateOf(key) != (fdbpq.CostRate{}) {
		b := q.keyCostsNow(key, now)
		wait = max(wait, b.wait())
	}
	return wait
}
