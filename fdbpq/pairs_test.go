package fdbpq_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// situations are what an item can be in when two operations meet on it. Each
// leaves the world with the item's id as its latest, and a lease on it, past or
// present, as its latest as well.
var situations = []struct {
	name string
	make []func(*world) operation
	pass time.Duration
}{
	{"ready", []func(*world) operation{leaseIt, nackIt(0)}, 0},
	{"ready, moved", []func(*world) operation{leaseIt, nackIt(0), moveIt(3)}, 0},
	{"leased", []func(*world) operation{leaseIt}, 0},
	{"leased, to be moved", []func(*world) operation{leaseIt, moveIt(3)}, 0},
	{"leased with an id", []func(*world) operation{leaseItWithID}, 0},
	{"lease ran out", []func(*world) operation{leaseIt}, time.Minute},
	{"lease ran out and was swept", []func(*world) operation{leaseIt, after(time.Minute), sweepIt}, 0},
	{"delayed", []func(*world) operation{leaseIt, nackIt(time.Minute)}, 0},
	{"delayed, moved", []func(*world) operation{leaseIt, nackIt(time.Minute), moveIt(3)}, 0},
	{"delay is over", []func(*world) operation{leaseIt, nackIt(time.Second)}, time.Minute},
	{"ready past its TTL", []func(*world) operation{leaseIt, nackIt(0)}, 5 * time.Minute},
	{"leased past its TTL", []func(*world) operation{leaseIt}, 5 * time.Minute},
	{"gone", []func(*world) operation{leaseIt, ackIt}, 0},
	{"gone, and its result is over", []func(*world) operation{leaseIt, ackWithIt}, time.Minute},
	{"gone, and its result is to be forgotten", []func(*world) operation{leaseIt, ackWithIt}, 90 * time.Second},
	{"gone, and a repeated pop found nothing", []func(*world) operation{leaseIt, ackIt, repeatIt}, 0},
}

func leaseIt(*world) operation { return popOf("a", justOne(fdbpq.Min, ""), 20*time.Second) }

func leaseItWithID(*world) operation { return popOf("a", justOne(fdbpq.Min, "pop"), 20*time.Second) }

// repeatIt is the same pop again, whose answer is final.
func repeatIt(*world) operation {
	sel := justOne(fdbpq.Min, "pop")
	sel.repeated = true
	return popOf("a", sel, 20*time.Second)
}

func justOne(end fdbpq.End, popID string) selection {
	return selection{end: end, band: everyPriority, limit: 1, maxBytes: fdbpq.MaxBatchBytes, popID: popID}
}

func nackIt(d time.Duration) func(*world) operation {
	return func(w *world) operation { return settleOf(w.lease0(), settleNack, d, "") }
}

func ackIt(w *world) operation { return settleOf(w.lease0(), settleAck, 0, "") }

// ackWithIt leaves a result that is too large for one row.
func ackWithIt(w *world) operation {
	return settleOf(w.lease0(), settleAckWith, 0, strings.Repeat("result", 20_000))
}

// importIt brings the item back, which asks for its result.
func importIt(w *world) operation {
	id := w.ids[len(w.ids)-1].id
	return importOf("a", []importItem{{id: id, payload: "back", priority: placeOf(id).priority, resultTTL: time.Minute}})
}

// pushUnique pushes an item with the unique value of the one.
func pushUnique(item pushItem) func(*world) operation {
	item.payload, item.unique = "unique", "value"
	return func(*world) operation { return pushOf("a", []pushItem{item}) }
}

// handItOver pushes an item that takes the place of the leased one.
func handItOver(queue, msgID string) func(*world) operation {
	return func(w *world) operation {
		l := w.lease0()
		return pushOf(queue, []pushItem{{payload: "handed over", msgID: msgID, handOver: &l}})
	}
}

func bulkIt(b bulking) func(*world) operation {
	return func(*world) operation { return bulkOf("a", b) }
}

func moveIt(to int64) func(*world) operation {
	return func(w *world) operation { return moveOf(w.ids[len(w.ids)-1], to) }
}

func sweepIt(*world) operation { return sweepOf() }

// after is no operation: it lets time pass.
func after(d time.Duration) func(*world) operation {
	return func(w *world) operation {
		w.elapsed += d
		return peekOf("a", justOne(fdbpq.Min, ""))
	}
}

// keyings are how the queue treats the key of its items.
var keyings = []struct {
	name, key string
	limit     int64
	order     bool
	fair      fdbpq.Fair
	rate      fdbpq.Rate
}{
	{name: "has no key"},
	{name: "has a key", key: "k"},
	{name: "has a key with a limit", key: "k", limit: 1},
	{name: "has a key in order", key: "k", order: true},
	{name: "has a key that takes turns", key: "k", limit: 1, fair: "1"},
	{name: "has a key with a rate", key: "k", fair: fdbpq.FairPriority, rate: fdbpq.Rate{N: 1, Period: fdbpq.Duration(10 * time.Minute)}},
}

// pushOfKey pushes an item with the key that the item may have.
func pushOfKey(priority int64, delay time.Duration) func(*world) operation {
	return func(*world) operation {
		return pushOf("a", []pushItem{{payload: "of the key", key: "k", priority: priority, hasPriority: true, delay: delay}})
	}
}

func (w *world) lease0() heldLease { return w.leases[len(w.leases)-1] }

// meetings are all that can be done to one item, or around it.
var meetings = []func(*world) operation{
	func(*world) operation { return pushOf("a", []pushItem{{payload: "again", msgID: "id"}}) },
	func(*world) operation { return pushOf("a", []pushItem{{payload: "new", msgID: "new id"}}) },
	func(*world) operation {
		return pushOf("a", []pushItem{{payload: "urgent", priority: -9, hasPriority: true}})
	},
	func(*world) operation { return popOf("a", justOne(fdbpq.Min, ""), 0) },
	func(*world) operation { return popOf("a", justOne(fdbpq.Max, "pop"), 0) },
	leaseIt,
	leaseItWithID,
	repeatIt,
	func(*world) operation {
		return popOf("missing", selection{end: fdbpq.Max, band: everyPriority, limit: 1, maxBytes: fdbpq.MaxBatchBytes, popID: "pop", repeated: true}, 0)
	},
	ackIt,
	nackIt(0),
	nackIt(time.Second),
	moveIt(3),
	moveIt(0),
	moveIt(-1),
	func(w *world) operation { return settleOf(w.lease0(), settleReturn, 0, "") },
	func(w *world) operation { return settleOf(w.lease0(), settleBack, 0, "") },
	func(w *world) operation { return settleOf(w.lease0(), settleExtend, time.Hour, "") },
	func(w *world) operation { return settleOf(w.lease0(), settleReport, time.Hour, "1/3") },
	func(w *world) operation { return settleOf(w.lease0(), settleTerminate, 0, "") },
	func(w *world) operation { return removeOf(w.ids[len(w.ids)-1]) },
	func(w *world) operation {
		return cancelOf(w.ids[len(w.ids)-1], fdbpq.Cancellation{Reason: "not wanted"})
	},
	func(w *world) operation { return cancelOf(w.ids[len(w.ids)-1], fdbpq.Cancellation{Spare: true}) },
	pushOfKey(-5, 0),
	pushOfKey(12, 0),
	pushOfKey(2, time.Second),
	func(*world) operation {
		return configureOf("a", map[string]any{"key_limit": 2, "key_order": false}, func(c *fdbpq.Config) { c.KeyLimit, c.KeyOrder = 2, false }, true)
	},
	func(*world) operation {
		return setKeyOf("a", "k", "paused", true, func(k *fdbpq.KeySettings) { k.Paused = given(true, false) })
	},
	func(*world) operation {
		return setKeyOf("a", "k", "limit", 2, func(k *fdbpq.KeySettings) { k.Limit = given(int64(2), false) })
	},
	func(*world) operation {
		return configureOf("a", map[string]any{"fair": "priority", "key_rate": "3/1s"}, func(c *fdbpq.Config) {
			c.Fair, c.KeyRate = fdbpq.FairPriority, fdbpq.Rate{N: 3, Period: fdbpq.Duration(time.Second)}
		}, true)
	},
	func(*world) operation {
		return configureOf("a", map[string]any{"key_order": true}, func(c *fdbpq.Config) { c.KeyOrder = true }, true)
	},
	pushUnique(pushItem{}),
	pushUnique(pushItem{onConflict: fdbpq.ConflictReplace, untilLeased: true}),
	pushUnique(pushItem{onConflict: fdbpq.ConflictRaise, priority: -2, hasPriority: true}),
	handItOver("b", ""),
	handItOver("a", "new id"),
	handItOver("a", "id"),
	func(*world) operation {
		return configureOf("a", map[string]any{"hand_over": ""}, func(c *fdbpq.Config) { c.HandOver = "" }, true)
	},
	func(*world) operation { return purgeOf("a", false) },
	func(*world) operation { return purgeOf("a", true) },
	func(*world) operation { return pauseOf("a", true) },
	func(*world) operation { return pauseOf("a", false) },
	func(*world) operation { return collectOf() },
	func(*world) operation {
		return configureOf("a", map[string]any{"max_deliveries": 1}, func(c *fdbpq.Config) { c.MaxDeliveries = 1 }, true)
	},
	func(*world) operation {
		return configureOf("a", map[string]any{"dead_letter_expired": true}, func(c *fdbpq.Config) { c.DeadLetterExpired = true }, true)
	},
	func(w *world) operation {
		id := w.ids[len(w.ids)-1].id
		return importOf("a", []importItem{{id: id, payload: "back", priority: placeOf(id).priority, fence: 7}})
	},
	func(w *world) operation {
		return importOf("a", []importItem{{id: w.ids[len(w.ids)-1].id, payload: "back", priority: 3, expires: time.Hour}})
	},
	ackWithIt,
	importIt,
	func(w *world) operation { return jointOf(ackWithIt(w), importIt(w)) },
	func(w *world) operation { return resultsOf(w.ids[len(w.ids)-1]) },
	func(w *world) operation { return jointOf(nackIt(0)(w), pushOfKey(2, 0)(w), moveIt(-1)(w)) },
	func(w *world) operation { return jointOf(ackIt(w), leaseIt(w)) },
	func(w *world) operation {
		return jointOf(settleOf(w.lease0(), settleExtend, time.Hour, ""), moveIt(3)(w), pushUnique(pushItem{})(w), settleOf(w.lease0(), settleTerminate, 0, ""))
	},
	bulkIt(bulking{verb: fdbpq.BulkRevoke, page: 500, state: fdbpq.StateLeased}),
	bulkIt(bulking{verb: fdbpq.BulkRemove, page: 500, state: fdbpq.StateLeased}),
	bulkIt(bulking{verb: fdbpq.BulkRemove, page: 1, state: fdbpq.StateReady}),
	bulkIt(bulking{verb: fdbpq.BulkMove, page: 1, state: fdbpq.StateReady, priority: 12}),
	sweepIt, // the last one
}

// Each operation meets each other one on the same item, in every situation the
// item can be in: an operation that forgets what its commit depends on fails
// here. A run tries half of the pairs, by chance, in one situation each, and in all
// of them when a sweep comes first, which is the last of meetings; with -pq.ops it
// tries all.
func TestOverlapOnOneItem(t *testing.T) {
	for i, first := range meetings {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			eachEngine(t, func(t *testing.T, open func() kv.DB) { meetsEach(t, open, first, i == len(meetings)-1) })
		})
	}
}

// meetsEach lets an operation meet each other one.
func meetsEach(t *testing.T, open func() kv.DB, a func(*world) operation, everySituation bool) {
	seed := randomSeed(t)
	w, err := newWorld(t.Context(), open, seed, 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	w.narrow = true
	rng := rand.New(rand.NewPCG(seed, 0))
	for j, b := range meetings {
		if rng.IntN(20) >= fewer(t, 10) && *flagOps == 0 {
			continue
		}
		all := 2 * len(situations) * len(keyings)
		first, tried := rng.IntN(all), 1
		switch {
		case *flagOps > 0:
			tried = all
		case everySituation:
			tried = len(situations)
		}
		for s := range tried {
			if err := w.meetOn((first+s)%all, a, b); err != nil {
				t.Fatalf("seed %d, pair with %d: %v\nbefore:\n%s", seed, j, err, strings.Join(w.trace, "\n"))
			}
		}
	}
	if err := w.end(); err != nil {
		t.Fatal(err)
	}
}

// meetOn makes an item, brings it into a situation, and lets two operations
// overlap.
func (w *world) meetOn(n int, a, b func(*world) operation) error {
	situation, keying := situations[n%len(situations)], keyings[n/len(situations)%len(keyings)]
	strict := n >= len(situations)*len(keyings)
	p := w.processes[0]
	w.trace = []string{fmt.Sprintf("the item is %s and %s; strict: %v", situation.name, keying.name, strict)}
	for _, o := range []operation{
		configureOf("a", map[string]any{"max_deliveries": 2, "dead_letter_expired": false, "hand_over": "a,b", "key_limit": keying.limit, "key_order": keying.order, "fair": keying.fair, "key_rate": keying.rate, "strict": strict}, func(c *fdbpq.Config) {
			c.MaxDeliveries, c.DeadLetterExpired, c.HandOver = 2, false, "a,b"
			c.KeyLimit, c.KeyOrder, c.Fair, c.KeyRate, c.Strict = keying.limit, keying.order, keying.fair, keying.rate, strict
		}, true),
		purgeOf("a", false), pauseOf("a", false), inspectOf("a"), dropOf("paused"), dropOf("limit"),
	} {
		if err := w.do(p, o); err != nil {
			return err
		}
	}
	// Ids remembered from before must not get in the way.
	w.elapsed += 3 * time.Minute
	if err := w.heartbeat(everyProcess); err != nil {
		return err
	}
	for _, o := range []operation{
		sweepOf(),
		pushOf("a", []pushItem{{payload: "another", priority: 9, hasPriority: true, key: keying.key}}),
		pushOf("a", []pushItem{{payload: "it", msgID: "id", ttl: 4 * time.Minute, unique: "value", key: keying.key, resultTTL: time.Minute}}),
	} {
		if err := w.do(p, o); err != nil {
			return err
		}
	}
	id := w.ids[len(w.ids)-1]
	for _, step := range situation.make {
		if err := w.do(p, step(w)); err != nil {
			return fmt.Errorf("%s: %w", situation.name, err)
		}
		if err := w.heartbeat(everyProcess); err != nil {
			return err
		}
	}
	w.elapsed += situation.pass
	if err := w.heartbeat(everyProcess); err != nil {
		return err
	}
	w.ids = append(slices.DeleteFunc(w.ids, func(known knownID) bool { return known == id }), id)
	_, err := w.overlap(meeting{p: w.processes[1], o: a(w)}, meeting{p: w.processes[2], o: b(w)}, atOnce)
	if err != nil {
		return err
	}
	return w.check(p)
}

// dropOf drops a setting of the key that an earlier pair may have set.
func dropOf(name string) operation {
	return setKeyOf("a", "k", name, nil, func(k *fdbpq.KeySettings) {
		switch name {
		case "paused":
			k.Paused = nil
		case "limit":
			k.Limit = nil
		}
	})
}
