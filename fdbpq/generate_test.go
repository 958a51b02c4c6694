package fdbpq_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
)

// operation generates an operation.
func (w *world) operation(rng *rand.Rand) operation {
	switch dice := rng.IntN(100); {
	case dice < 8:
		return peekOf(w.queueName(rng), w.selection(rng, false))
	case dice < 10 && len(w.ids) > 0:
		return w.askingForResults(rng)
	case dice < 14 && len(w.ids) > 0:
		return getOf(pick(rng, w.ids...))
	case dice < 18:
		l := listing{
			state: pick(rng, "", fdbpq.StateReady, fdbpq.StateDelayed, fdbpq.StateLeased),
			limit: pick(rng, 1, 2, 3, 1000), plain: rng.IntN(2) == 0, preview: pick(rng, 0, 1, 100, 1024),
		}
		if l.state == "" {
			l.state = fdbpq.StateReady
		}
		if l.state == fdbpq.StateReady || rng.IntN(20) == 0 {
			l.key = w.key(rng)
		}
		if l.state == fdbpq.StateLeased && rng.IntN(3) == 0 || rng.IntN(50) == 0 {
			l.holder = pick(rng, "w1", "w2", "nobody")
		}
		queue := w.queueName(rng)
		if len(w.ids) > 0 && rng.IntN(2) == 0 {
			after := pick(rng, w.ids...)
			l.after, queue = &after, after.queue
		}
		if rng.IntN(3) == 0 {
			l.band = &fdbpq.Band{Low: w.priority(rng), High: w.priority(rng)}
		}
		return listOf(queue, l)
	case dice < 20:
		if rng.IntN(2) == 0 {
			return keyOf(w.queueName(rng), pick(rng, "k", "another"))
		}
		return inspectOf(w.queueName(rng))
	case dice < 28:
		return sweepOf()
	case dice < 29:
		return collectOf()
	case dice < 31:
		return stagedOf(w.queueName(rng), w.selection(rng, false), pick(rng, 0, w.lease(rng)))
	case dice < 38:
		return fireOf()
	case dice < 40:
		return w.showingSchedule(rng)
	}
	return w.writing(rng, true)
}

// writing generates an operation within a transaction.
func (w *world) writing(rng *rand.Rand, alone bool) operation {
	if alone && rng.IntN(8) == 0 {
		parts := []operation{w.writing(rng, false), w.writing(rng, false), w.writing(rng, false)}
		if rng.IntN(2) == 0 {
			return bothOf(parts[:2+rng.IntN(2)]...)
		}
		return w.joint(rng)
	}
	if !w.narrow && rng.IntN(8) == 0 {
		if rng.IntN(3) == 0 {
			return w.taking(rng)
		}
		return w.linking(rng)
	}
	dice := rng.IntN(100)
	if w.narrow && dice < 20 {
		dice += 45
	}
	switch {
	case dice < 4 && !w.narrow:
		return w.importing(rng)
	case dice < 28:
		return pushOf(w.queueName(rng), w.pushItems(rng))
	case dice < 35:
		return w.scheduling(rng)
	case dice < 45:
		return popOf(w.queueName(rng), w.selection(rng, true), 0)
	case dice < 65:
		return popOf(w.queueName(rng), w.selection(rng, true), w.lease(rng))
	case dice < 85 && len(w.leases) > 0:
		return w.settling(rng)
	case dice < 87 && len(w.ids) > 0:
		if rng.IntN(2) == 0 {
			return cancelOf(pick(rng, w.ids...), fdbpq.Cancellation{Reason: pick(rng, "", "not wanted"), Spare: rng.IntN(3) == 0})
		}
		return removeOf(pick(rng, w.ids...))
	case dice < 88:
		return w.bulking(rng)
	case dice < 89 && len(w.ids) > 0:
		return w.requeueing(rng)
	case dice < 92 && len(w.ids) > 0:
		return moveOf(pick(rng, w.ids...), w.priority(rng))
	case dice < 96:
		return w.configuring(rng)
	case dice < 97:
		return w.settingKey(rng)
	case dice < 98:
		return pauseOf(w.queueName(rng), true)
	case dice < 99:
		return purgeOf(w.queueName(rng), rng.IntN(3) == 0)
	}
	return pauseOf(w.queueName(rng), false)
}

// joint generates a transaction of 3 to 20 operations, some of which only look.
func (w *world) joint(rng *rand.Rand) operation {
	parts := make([]operation, 3+rng.IntN(18))
	for i := range parts {
		switch rng.IntN(13) {
		case 12:
			if len(w.ids) > 0 {
				parts[i] = w.askingForResults(rng)
				break
			}
			fallthrough
		case 0:
			parts[i] = peekOf(w.queueName(rng), w.selection(rng, false))
		case 1:
			parts[i] = inspectOf(w.queueName(rng))
		case 2, 3, 4, 5:
			if len(w.leases) > 0 {
				parts[i] = w.settling(rng)
				break
			}
			fallthrough
		default:
			parts[i] = w.writing(rng, false)
		}
	}
	return jointOf(parts...)
}

func (w *world) queueName(rng *rand.Rand) string {
	if w.narrow {
		return pick(rng, "a", "a", "a", "a", "a", "a", "a", "a-dead")
	}
	return pick(rng, "a", "a", "a", "a", "a", "b", "b", "a-dead", "b-dead", "grave")
}

func (w *world) priority(rng *rand.Rand) int64 {
	return pick[int64](rng, 5, 5, 5, 5, 0, 1, -1, 255, 256, -1_000_000_007, math.MaxInt64, math.MinInt64, math.MinInt64+1)
}

func (w *world) key(rng *rand.Rand) string {
	return pick(rng, "", "", "k", "k", "k", "another")
}

func (w *world) lease(rng *rand.Rand) time.Duration {
	return pick(rng, 5*time.Second, 30*time.Second, time.Minute, fdbpq.MaxLease)
}

func (w *world) pushItems(rng *rand.Rand) []pushItem {
	items := make([]pushItem, pick(rng, 1, 1, 1, 2, 5))
	if w.narrow {
		items = items[:1]
	}
	for i := range items {
		item := pushItem{payload: fmt.Sprintf("payload %d", rng.IntN(1000))}
		switch rng.IntN(60) {
		case 0:
			item.payload = strings.Repeat("\x00", pick(rng, 2<<10, 2<<10+1, 32<<10, 32<<10+1, 90_000, 180_001))
		case 1:
			item.payload = strings.Repeat("long\x00\xff", 20_000)
			item.headers = strings.Repeat("header", 20_000)
		case 2, 3, 4:
			item.payload = ""
		case 5, 6, 7:
			item.headers = "\x00\xff headers\r\n"
		}
		if item.hasPriority = rng.IntN(4) > 0; item.hasPriority {
			item.priority = w.priority(rng)
		}
		switch rng.IntN(12) {
		case 0, 1:
			item.delay = pick(rng, 1, 2*time.Second, 30*time.Second, time.Hour)
		case 2:
			item.notBefore = pick(rng, -time.Hour, 1, 20*time.Second)
		case 3:
			if rng.IntN(10) == 0 {
				item.delay = math.MaxInt64
			}
		}
		if rng.IntN(6) == 0 {
			item.ttl = pick(rng, 1, 2*time.Second, 30*time.Second, time.Hour)
		}
		if rng.IntN(5) == 0 {
			item.msgID = fmt.Sprint("id ", rng.IntN(8))
		}
		if rng.IntN(4) == 0 {
			item.unique = fmt.Sprint("value ", rng.IntN(5))
			item.onConflict = pick(rng, "", fdbpq.ConflictKeep, fdbpq.ConflictReplace, fdbpq.ConflictRaise)
			item.untilLeased = rng.IntN(3) == 0
		}
		item.key, item.resultTTL = w.key(rng), resultTTL(rng)
		if rng.IntN(2) == 0 {
			item.cost = itemCost(rng)
		}
		if len(w.leases) > 0 && rng.IntN(6) == 0 {
			l := w.spending(rng, w.recentLease(rng))
			item.handOver = &l
		}
		items[i] = item
	}
	return items
}

func (w *world) selection(rng *rand.Rand, repeatable bool) selection {
	sel := selection{end: pick(rng, fdbpq.Min, fdbpq.Max), band: everyPriority, limit: pick(rng, 1, 1, 1, 2, 3, 1000)}
	switch rng.IntN(8) {
	case 0:
		sel.band = fdbpq.Band{Low: w.priority(rng), High: w.priority(rng)}
	case 1:
		sel.band = fdbpq.Band{Low: 5, High: 5}
	}
	sel.maxBytes = fdbpq.MaxBatchBytes
	if rng.IntN(5) == 0 {
		sel.maxBytes = pick(rng, 1, 10, 25, 33_000)
	}
	if repeatable && rng.IntN(5) == 0 {
		sel.popID = fmt.Sprint("pop ", rng.IntN(5))
		sel.repeated = rng.IntN(2) == 0
		sel.anyLease = rng.IntN(2) == 0
	}
	if repeatable {
		sel.holders = w.holders(rng)
	}
	return sel
}

func (w *world) settling(rng *rand.Rand) operation {
	l := w.spending(rng, w.recentLease(rng))
	switch rng.IntN(16) {
	case 12, 13:
		return settleOf(l, settleAckWith, 0, resultBody(rng))
	case 10:
		return w.revoking(rng)
	case 11:
		return settleOf(l, settleBack, 0, pick(rng, "", "stopped\tfor a deploy"))
	case 0, 1:
		return settleOf(l, settleAck, 0, "")
	case 2:
		return settleOf(l, settleNack, 0, pick(rng, "", "no paper"))
	case 14, 15:
		l := w.spending(rng, w.leases[len(w.leases)-1-rng.IntN(min(len(w.leases), 3))])
		return settleOf(l, settleNackPlain, 0, pick(rng, "no paper", "no ink")) // mostly in time
	case 3:
		return settleOf(l, settleNackPlain, 0, pick(rng, "", "try again\tlater"))
	case 4, 5:
		return settleOf(l, settleNack, pick(rng, 1, time.Second, 40*time.Second), pick(rng, "", "no ink"))
	case 6:
		return settleOf(l, settleReturn, 0, "")
	case 7:
		return settleOf(l, settleTerminate, 0, pick(rng, "", "poison"))
	}
	if rng.IntN(2) == 0 {
		return settleOf(l, settleReport, w.lease(rng), pick(rng, "1/3", "2/3", strings.Repeat("p", 600), strings.Repeat("q", fdbpq.MaxProgress)))
	}
	return settleOf(l, settleExtend, w.lease(rng), "")
}

// recentLease picks one of the leases, a late one more often than an early one.
func (w *world) recentLease(rng *rand.Rand) heldLease {
	return w.leases[len(w.leases)-1-min(rng.IntN(len(w.leases)), rng.IntN(len(w.leases)))]
}

func (w *world) configuring(rng *rand.Rand) operation {
	queue := w.queueName(rng)
	duration := func(d time.Duration) string { return d.String() }
	set := func(field string, value any, change func(*fdbpq.Config)) operation {
		return configureOf(queue, map[string]any{field: value}, change, true)
	}
	dice := rng.IntN(40)
	switch {
	case dice >= 33 && dice < 36:
		return w.pricing(rng, set)
	case dice >= 29 && dice < 36:
		dice = 2 // items seldom fail sixteen times
	}
	if w.narrow && (dice == 6 || dice == 8 || dice == 18 || dice == 26 || dice >= 36) {
		dice = 4 // limits are not exact where operations overlap, and neither is the time of a last use
	}
	switch dice {
	case 0:
		n := pick(rng, -5, 0, 7)
		return set("priority", n, func(c *fdbpq.Config) { c.Priority = int64(n) })
	case 1:
		d := pick(rng, 0, 0, 20*time.Second, time.Hour)
		return set("ttl", duration(d), func(c *fdbpq.Config) { c.TTL = fdbpq.Duration(d) })
	case 2:
		n := pick(rng, 0, 1, 1, 1, 2, 3, 16)
		return set("max_deliveries", n, func(c *fdbpq.Config) { c.MaxDeliveries = int64(n) })
	case 3:
		name := pick(rng, "", "grave", "a", "b-dead")
		return set("dead_letter", name, func(c *fdbpq.Config) { c.DeadLetter = name })
	case 4:
		yes := rng.IntN(2) == 0
		return set("dead_letter_expired", yes, func(c *fdbpq.Config) { c.DeadLetterExpired = yes })
	case 5:
		d := pick(rng, 0, 10*time.Second, 2*time.Minute, 2*time.Minute)
		if w.narrow && d == 0 {
			d = time.Second // a sweep that overlaps does not see what is due as soon as it is set
		}
		return set("dedup_window", duration(d), func(c *fdbpq.Config) { c.DedupWindow = fdbpq.Duration(d) })
	case 6:
		n := pick(rng, 0, 2, 6, 1_000_000, 1_000_000)
		return set("dedup_limit", n, func(c *fdbpq.Config) { c.DedupLimit = int64(n) })
	case 7:
		ties := pick(rng, fdbpq.TiesNewest, fdbpq.TiesOldest)
		return set("ties", ties, func(c *fdbpq.Config) { c.Ties = ties })
	case 8:
		n := pick(rng, 0, 0, 3, 6)
		return set("max_length", n, func(c *fdbpq.Config) { c.MaxLength = int64(n) })
	case 18:
		n := pick(rng, 0, 0, 1540, 3100, 50_000)
		return set("max_bytes", n, func(c *fdbpq.Config) { c.MaxBytes = int64(n) })
	case 9:
		overflow := pick(rng, fdbpq.OverflowRefuse, fdbpq.OverflowEvict)
		return set("overflow", overflow, func(c *fdbpq.Config) { c.Overflow = overflow })
	case 10:
		d := pick(rng, 0, time.Minute)
		return set("lease", duration(d), func(c *fdbpq.Config) { c.Lease = fdbpq.Duration(d) })
	case 11:
		from := pick(rng, "", "*", "*", "a", "b,a", "aa,b")
		return set("dead_letters_from", from, func(c *fdbpq.Config) { c.DeadLettersFrom = from })
	case 12:
		to := pick(rng, "", "*", "*", "a", "b,a", "aa,b")
		return set("hand_over", to, func(c *fdbpq.Config) { c.HandOver = to })
	case 13, 14:
		n := pick(rng, 0, 0, 1, 2, 3)
		return set("key_limit", n, func(c *fdbpq.Config) { c.KeyLimit = int64(n) })
	case 15, 16:
		yes := rng.IntN(3) == 0
		return set("key_order", yes, func(c *fdbpq.Config) { c.KeyOrder = yes })
	case 17:
		yes := rng.IntN(2) == 0
		return set("strict", yes, func(c *fdbpq.Config) { c.Strict = yes })
	}
	switch {
	case dice < 22:
		return w.pacing(rng, set)
	case dice < 24:
		given := pick(rng, slices.Sorted(maps.Keys(backoffs))...)
		return set("backoff", json.RawMessage(given), func(c *fdbpq.Config) { c.Backoff = backoffs[given] })
	case dice == 24:
		n := pick[int64](rng, 0, 1, 3, 16)
		return set("attempts", n, func(c *fdbpq.Config) { c.Attempts = n })
	case dice == 25:
		if n := rng.IntN(5) - 1; n >= 0 {
			return set("max_interruptions", n, func(c *fdbpq.Config) { c.MaxInterruptions = fdbpq.Most(fmt.Sprint(n)) })
		}
		return set("max_interruptions", "", func(c *fdbpq.Config) { c.MaxInterruptions = "" })
	case dice == 26:
		n := pick[int64](rng, 0, 0, 300, 1000, 3000, 100_000)
		return set("result_bytes", n, func(c *fdbpq.Config) { c.ResultBytes = n })
	case dice >= 36:
		d := pick(rng, 0, time.Minute, time.Minute, 4*time.Minute)
		return set("expire_empty", duration(d), func(c *fdbpq.Config) { c.ExpireEmpty = fdbpq.Duration(d) })
	}
	bad := pick(rng,
		map[string]any{"nonsense": 1}, map[string]any{"ttl": "-1s"}, map[string]any{"max_length": -1},
		map[string]any{"ties": "random"}, map[string]any{"overflow": ""}, map[string]any{"lease": "13h"},
		map[string]any{"dead_letter": queue}, map[string]any{"dedup_window": 5}, map[string]any{"priority": 1.5},
		map[string]any{"attempts": 17}, map[string]any{"backoff": "1s"}, map[string]any{"backoff": []string{}}, map[string]any{"ack_wait": "1s"},
		map[string]any{"max_interruptions": -1}, map[string]any{"max_interruptions": "3"}, map[string]any{"max_interruptions": 1.5},
		map[string]any{"cost_rate": "1000000000001/1s"}, map[string]any{"key_cost_rate": "0/1s"}, map[string]any{"cost_rate": "1/25h"},
		map[string]any{"result_bytes": -1}, map[string]any{"result_bytes": 64<<30 + 1},
		map[string]any{"expire_empty": "59s"}, map[string]any{"expire_empty": "721h"}, map[string]any{"expire_empty": "-1m"},
	)
	return configureOf(queue, bad, nil, false)
}

// pacing changes rates, or how keys take turns.
func (w *world) pacing(rng *rand.Rand, set func(string, any, func(*fdbpq.Config)) operation) operation {
	switch rng.IntN(4) {
	case 0:
		r := w.rate(rng)
		return set("rate", r, func(c *fdbpq.Config) { c.Rate = r })
	case 1:
		r := w.rate(rng)
		return set("key_rate", r, func(c *fdbpq.Config) { c.KeyRate = r })
	}
	fair := pick(rng, "", fdbpq.FairPriority, "0,100", "1")
	return set("fair", fair, func(c *fdbpq.Config) { c.Fair = fair })
}

func (w *world) rate(rng *rand.Rand) fdbpq.Rate {
	return pick(rng, fdbpq.Rate{}, fdbpq.Rate{}, fdbpq.Rate{N: 2, Period: fdbpq.Duration(time.Second)},
		fdbpq.Rate{N: 3, Period: fdbpq.Duration(10 * time.Second)}, fdbpq.Rate{N: 1, Period: fdbpq.Duration(time.Hour)})
}

// pricing changes rates of cost.
func (w *world) pricing(rng *rand.Rand, set func(string, any, func(*fdbpq.Config)) operation) operation {
	r := costRate(rng)
	if rng.IntN(2) == 0 {
		return set("cost_rate", r, func(c *fdbpq.Config) { c.CostRate = r })
	}
	return set("key_cost_rate", r, func(c *fdbpq.Config) { c.KeyCostRate = r })
}

func costRate(rng *rand.Rand) fdbpq.CostRate {
	of := func(n int64, period time.Duration) fdbpq.CostRate {
		return fdbpq.CostRate{N: n, Period: fdbpq.Duration(period)}
	}
	return pick(rng, fdbpq.CostRate{}, of(2, time.Second), of(3, 10*time.Second), of(7, 9*time.Second), of(7, 9*time.Second), of(1, time.Hour),
		of(1000, time.Second), of(fdbpq.MaxCostRate, time.Second), of(1, 24*time.Hour), of(999_999_999_989, 24*time.Hour))
}

// itemCost is one to more than the numbers of most rates.
func itemCost(rng *rand.Rand) int64 {
	if rng.IntN(50) == 0 {
		return pick[int64](rng, -1, fdbpq.MaxCost+1)
	}
	return pick[int64](rng, 1, 2, 3, 5, 7, 11, 50, fdbpq.MaxCost)
}

// spending has a settlement say what its delivery has cost, or not.
func (w *world) spending(rng *rand.Rand, l heldLease) heldLease {
	if rng.IntN(2) == 0 {
		l.spent = spending{true, pick[int64](rng, 0, 0, 1, 2, 3, 4, 6, 20, 1000, fdbpq.MaxCost)}
	}
	if rng.IntN(100) == 0 {
		l.spent = spending{true, pick[int64](rng, -1, fdbpq.MaxCost+1)}
	}
	return l
}

// settingKey changes the settings of a key.
func (w *world) settingKey(rng *rand.Rand) operation {
	queue, key := w.queueName(rng), pick(rng, "k", "k", "another")
	drop := rng.IntN(2) == 0
	value := func(v any) any {
		if drop {
			return nil
		}
		return v
	}
	switch rng.IntN(6) {
	case 4, 5:
		r := costRate(rng)
		return setKeyOf(queue, key, "cost_rate", value(r), func(k *fdbpq.KeySettings) { k.CostRate = given(r, drop) })
	case 0:
		n := pick[int64](rng, 0, 1, 2)
		return setKeyOf(queue, key, "limit", value(n), func(k *fdbpq.KeySettings) { k.Limit = given(n, drop) })
	case 1:
		r := w.rate(rng)
		return setKeyOf(queue, key, "rate", value(r), func(k *fdbpq.KeySettings) { k.Rate = given(r, drop) })
	case 2:
		n := pick[int64](rng, 1, 5, 1000)
		return setKeyOf(queue, key, "weight", value(n), func(k *fdbpq.KeySettings) { k.Weight = given(n, drop) })
	}
	yes := rng.IntN(2) == 0
	return setKeyOf(queue, key, "paused", value(yes), func(k *fdbpq.KeySettings) { k.Paused = given(yes, drop) })
}

func given[T any](v T, drop bool) *T {
	if drop {
		return nil
	}
	return &v
}
