package fdbpq_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// The model knows the rules that random operations seldom meet: each sequence leads to an
// answer, or a content, that another rule would not.
func TestModelKnowsTheRules(t *testing.T) {
	t.Parallel()
	push := func(item pushItem) func(*world) operation {
		return func(*world) operation { return pushOf("a", []pushItem{item}) }
	}
	take := func(sel selection, lease time.Duration) func(*world) operation {
		return func(*world) operation { return popOf("a", sel, lease) }
	}
	terminate := func(w *world) operation { return settleOf(w.lease0(), settleTerminate, 0, "over") }
	configure := func(queue string, fields map[string]any, change func(*fdbpq.Config)) func(*world) operation {
		return func(*world) operation { return configureOf(queue, fields, change, true) }
	}
	rate := func(r fdbpq.Rate) func(*world) operation {
		return configure("a", map[string]any{"rate": r}, func(c *fdbpq.Config) { c.Rate = r })
	}
	keyRate := func(r fdbpq.Rate) func(*world) operation {
		return configure("a", map[string]any{"key_rate": r}, func(c *fdbpq.Config) { c.KeyRate = r })
	}
	rateOfKey := func(r fdbpq.Rate) func(*world) operation {
		return func(*world) operation {
			return setKeyOf("a", "k", "rate", r, func(k *fdbpq.KeySettings) { k.Rate = &r })
		}
	}
	oneDelivery := configure("a", map[string]any{"max_deliveries": 1}, func(c *fdbpq.Config) { c.MaxDeliveries = 1 })
	failed := func(reason string) func(*world) operation {
		return func(w *world) operation { return settleOf(w.lease0(), settleNackPlain, 0, reason) }
	}
	takeDead := func(*world) operation { return popOf("a-dead", justOne(fdbpq.Min, ""), time.Hour) }
	byCause := func(cause string) func(*world) operation {
		return func(*world) operation {
			return bulkOf("a-dead", bulking{verb: fdbpq.BulkRemove, page: 500, state: fdbpq.StateReady, cause: cause})
		}
	}
	asking := pushItem{payload: "x", resultTTL: time.Minute}
	ask := push(asking)
	takeOne := take(justOne(fdbpq.Min, ""), 0)
	show := func(w *world) operation { return resultsOf(w.ids[len(w.ids)-1]) }
	ackWith := func(body string) func(w *world) operation {
		return func(w *world) operation { return settleOf(w.lease0(), settleAckWith, 0, body) }
	}
	inspectA := func(*world) operation { return inspectOf("a") }
	resultsIn := func(queue string) func(*world) operation {
		return func(w *world) operation { return allResultsOf(queue, w.model.named(queue)) }
	}
	resultBytes := func(n int64) func(*world) operation {
		return configure("a", map[string]any{"result_bytes": n}, func(c *fdbpq.Config) { c.ResultBytes = n })
	}
	one, two := fdbpq.Rate{N: 1, Period: fdbpq.Duration(time.Hour)}, fdbpq.Rate{N: 2, Period: fdbpq.Duration(time.Second)}
	three := selection{end: fdbpq.Min, band: everyPriority, limit: 3, maxBytes: fdbpq.MaxBatchBytes}
	for name, steps := range map[string][]func(*world) operation{
		"another rate adds no token to those of one that was never used": {
			push(pushItem{payload: "x"}), push(pushItem{payload: "y"}), rate(one), rate(two), take(three, time.Minute),
		},
		"a queue without a rate owes no tokens to its next one": {
			push(pushItem{payload: "x"}), push(pushItem{payload: "y"}), rate(one), rate(fdbpq.Rate{}), rate(two), take(three, time.Minute),
		},
		"another rate of a key adds no token to those of one that was never used": {
			push(pushItem{payload: "x", key: "k"}), push(pushItem{payload: "y", key: "k"}), rateOfKey(one), rateOfKey(two), take(three, time.Minute),
		},
		"a key that was never seen has all tokens of another key_rate": {
			push(pushItem{payload: "x", key: "k"}), push(pushItem{payload: "y", key: "k"}), keyRate(one), keyRate(two), take(three, time.Minute),
		},
		"dead letters have the TTL of their queue": {
			configure("a-dead", map[string]any{"ttl": "1m"}, func(c *fdbpq.Config) { c.TTL = fdbpq.Duration(time.Minute) }),
			push(pushItem{payload: "x"}), take(justOne(fdbpq.Min, ""), time.Hour), terminate,
		},
		"a queue takes dead letters if its owner agrees": {
			configure("b", map[string]any{"dead_letters_from": "a"}, func(c *fdbpq.Config) { c.DeadLettersFrom = "a" }),
			configure("a", map[string]any{"dead_letter": "b"}, func(c *fdbpq.Config) { c.DeadLetter = "b" }),
			configure("b", map[string]any{"dead_letters_from": ""}, func(c *fdbpq.Config) { c.DeadLettersFrom = "" }),
			push(pushItem{payload: "x"}), take(justOne(fdbpq.Min, ""), time.Hour), terminate,
		},
		"a repeated pop gives out no lease that is over": {
			push(pushItem{payload: "x"}), take(justOne(fdbpq.Min, "once"), time.Second), after(2 * time.Second), take(justOne(fdbpq.Min, "once"), time.Second),
		},
		"an item past its TTL expires when its delay is over": {
			configure("a", map[string]any{"dead_letter_expired": true}, func(c *fdbpq.Config) { c.DeadLetterExpired = true }),
			push(pushItem{payload: "x", delay: time.Second, ttl: 3 * time.Second}), push(pushItem{payload: "y", ttl: 2 * time.Second}),
			after(time.Minute), sweepIt,
		},
		"what failed too often has the cause that its last attempt gave": {
			oneDelivery, push(pushItem{payload: "x"}), take(justOne(fdbpq.Min, ""), time.Hour), failed("no paper"), byCause("no*"),
		},
		"what failed too often without a word has the cause of its death": {
			oneDelivery, push(pushItem{payload: "x"}), take(justOne(fdbpq.Min, ""), time.Hour), failed(""), byCause("max_deliveries"),
		},
		"a result says of what its item failed too often": {
			oneDelivery, ask, take(justOne(fdbpq.Min, ""), time.Hour), failed("no paper"), show, inspectA, resultsIn("a"),
		},
		"a result has no cause where none was given, or where it is the reason": {
			oneDelivery, ask, take(justOne(fdbpq.Min, ""), time.Hour), failed(""), show, ask, take(justOne(fdbpq.Min, ""), time.Hour), terminate, show, inspectA,
		},
		"a result has the cause of the last attempt that failed, and not of the one before": {
			configure("a", map[string]any{"max_deliveries": 2}, func(c *fdbpq.Config) { c.MaxDeliveries = 2 }),
			ask, take(justOne(fdbpq.Min, ""), time.Hour), failed("no paper"), take(justOne(fdbpq.Min, ""), time.Hour), failed("no ink"), show, inspectA,
		},
		"the cause of a death takes room of the results": {
			resultBytes(2*320 + 8), oneDelivery, ask, take(justOne(fdbpq.Min, ""), time.Hour), failed("no paper"),
			ask, inspectA, take(justOne(fdbpq.Min, ""), time.Hour), ackWith("4"), show, resultsIn("a"),
		},
		"what was given up has the cause of its death, whatever attempts come later": {
			push(pushItem{payload: "x"}), take(justOne(fdbpq.Min, ""), time.Hour), terminate, takeDead, failed("no paper"), byCause("no paper"), byCause("over"),
		},
		"what was interrupted too often has the cause that a later attempt gives": {
			configure("a", map[string]any{"max_interruptions": 1}, func(c *fdbpq.Config) { c.MaxInterruptions = "1" }),
			push(pushItem{payload: "x"}), take(justOne(fdbpq.Min, ""), time.Second), after(time.Minute), sweepIt, takeDead, failed("no paper"), byCause("interruptions"), byCause("no paper"),
		},
		"what nobody gave a cause has none that fits": {
			push(pushItem{payload: "x"}),
			func(*world) operation {
				return bulkOf("a", bulking{verb: fdbpq.BulkRemove, page: 500, state: fdbpq.StateReady, cause: "*"})
			},
		},
		"a result is seen until the moment at which its time is over": {
			ask, takeOne, after(time.Minute - 1), show, sweepIt, show, after(1), show, sweepIt, after(20 * time.Second), sweepIt,
		},
		"a timer forgets the results of one time, and those of others stay": {
			ask, push(pushItem{payload: "y", resultTTL: 10 * time.Minute}), takeOne, takeOne, after(90 * time.Second), sweepIt, inspectA, after(10 * time.Minute), sweepIt,
		},
		"results whose time is over, and that nobody has forgotten, take room": {
			resultBytes(330), ask, takeOne, after(time.Minute), ask, after(20 * time.Second), sweepIt, ask,
		},
		"a body that fits to the byte is kept, and one of a byte more is dropped": {
			resultBytes(2*320 + 4), ask, take(justOne(fdbpq.Min, ""), time.Hour), ackWith("four"), show,
			ask, take(justOne(fdbpq.Min, ""), time.Hour), ackWith("4"), show,
		},
		"a push that takes the place of an item with a result needs room beside that": {
			resultBytes(700), configure("a", map[string]any{"hand_over": "*"}, func(c *fdbpq.Config) { c.HandOver = "*" }),
			ask, take(justOne(fdbpq.Min, ""), time.Hour),
			func(w *world) operation {
				l := w.lease0()
				return pushOf("a", []pushItem{{payload: "next", handOver: &l, resultTTL: time.Minute}, asking})
			},
		},
		"what asks takes the room of its result until it has ended, or is purged": {
			resultBytes(2*320 + 5), ask, ask, ask, inspectA, takeOne, ask, after(time.Minute), after(20 * time.Second), sweepIt, ask, ask,
			func(*world) operation { return purgeOf("a", false) }, ask, ask, ask,
		},
		"a body leaves the room of what has asked": {
			resultBytes(2*320 + 4), ask, ask, take(justOne(fdbpq.Min, ""), time.Hour), ackWith("fives"), show,
			take(justOne(fdbpq.Min, ""), time.Hour), ackWith("four"), resultsIn("a"),
		},
		"what is imported asks whether there is room or not, and takes it": {
			resultBytes(2 * 320), ask,
			func(*world) operation {
				return importOf("a", []importItem{
					{id: madeUpID(rand.New(rand.NewPCG(1, 2)), 5, 7), priority: 5, payload: "x", resultTTL: time.Hour},
					{id: madeUpID(rand.New(rand.NewPCG(3, 4)), 5, 8), priority: 5, payload: "y", resultTTL: time.Hour},
				})
			},
			ask, takeOne, ask, takeOne, takeOne, inspectA, resultsIn("a"),
		},
		"what asks when its time is no time is refused": {
			push(pushItem{payload: "x", resultTTL: -1}), push(pushItem{payload: "x", resultTTL: 168*time.Hour + 1}), push(pushItem{payload: "x", resultTTL: 168 * time.Hour}),
		},
		"what goes on after its death asks for nothing": {
			ask, take(justOne(fdbpq.Min, ""), time.Hour), terminate, show, takeDead, ackWith("unasked"), resultsIn("a-dead"),
		},
		"what is imported as a dead letter may ask, and what is requeued does not": {
			func(*world) operation {
				return importOf("a-dead", []importItem{{
					id: madeUpID(rand.New(rand.NewPCG(1, 2)), 5, 7), priority: 5, payload: "x", resultTTL: time.Hour,
					dead: fdbpq.DeadLetter{Reason: "expired", Origin: "a", OriginID: "there", At: time.Unix(1, 0)},
				}})
			},
			func(w *world) operation {
				return requeueOf(knownID{"a-dead", w.model.queues["a-dead"].items[0].id}, "")
			},
			resultsIn("a-dead"), takeOne, resultsIn("a"),
		},
		"an answer shows an item that died in its transaction twice": {
			push(pushItem{payload: "x"}), take(justOne(fdbpq.Min, ""), time.Hour),
			func(w *world) operation { return jointOf(terminate(w), inspectOf("a-dead"), inspectOf("a-dead")) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				w := worldOf(t, open, 2)
				for _, step := range steps {
					if err := w.do(w.processes[0], step(w)); err != nil {
						t.Fatal(err)
					}
				}
				if err := w.same(w.processes[0]); err != nil {
					t.Error(err)
				}
			})
		})
	}
	t.Run("a process that has its store for itself adds the shortest downtime", func(t *testing.T) {
		t.Parallel()
		eachEngine(t, func(t *testing.T, open func() kv.DB) {
			w := worldOf(t, open, 1)
			if err := w.heartbeat(everyProcess); err != nil {
				t.Fatal(err)
			}
			for range 8 { // wall clocks differ; those of some processes agree with the one before
				if err := w.restart(time.Second); err != nil {
					t.Fatal(err)
				}
				if _, err := w.moment(w.processes[0]); err != nil {
					t.Fatal(err)
				}
				if err := w.heartbeat(everyProcess); err != nil {
					t.Fatal(err)
				}
			}
		})
	})
}

func worldOf(t *testing.T, open func() kv.DB, processes int) *world {
	t.Helper()
	w, err := newWorld(t.Context(), open, 2, processes, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	})
	return w
}
