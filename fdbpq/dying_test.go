package fdbpq_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/storecheck"
)

// crowded is a store that may have no room for the dead letters of items that die.
type crowded struct {
	*fixture
	why     error // why there is none
	low     error // why no item is written again
	counted int64 // bytes that were written again
}

func crowdedStore(t *testing.T, open func() kv.DB) *crowded {
	c := &crowded{fixture: openFixture(t, open)}
	c.join(c.options(0))
	return c
}

func (c *crowded) options(skew time.Duration) fdbpq.Options {
	options := c.clock.options(skew)
	options.Full = func(bytes int64) error {
		if c.why == nil {
			c.counted += bytes
		}
		return c.why
	}
	options.Low = func() error { return c.low }
	return options
}

// deaths are the ways in which an item that is leased, or waits, dies. Each needs its configuration.
var deaths = map[string]struct {
	config, reason string
	endings        fdbpq.Endings
	die            func(c *crowded, leased fdbpq.Item)
}{
	"terminated": {`{}`, fdbpq.DeadTerminated, fdbpq.Endings{}, func(c *crowded, leased fdbpq.Item) {
		if err := c.terminate(*leased.Lease); err != nil {
			c.Error(err)
		}
	}},
	"too many failures": {`{"max_deliveries":1}`, fdbpq.DeadMaxDeliveries, fdbpq.Endings{Failures: 1}, func(c *crowded, leased fdbpq.Item) {
		if err := c.nack(*leased.Lease, 0); err != nil {
			c.Error(err)
		}
	}},
	"too many interruptions": {`{"max_interruptions":1}`, fdbpq.DeadInterruptions, fdbpq.Endings{Interruptions: 1}, func(c *crowded, _ fdbpq.Item) {
		c.pass(time.Minute)
		c.sweep()
	}},
	"a lease that runs out behind the TTL": {`{"dead_letter_expired":true,"ttl":"30s"}`, fdbpq.DeadExpired, fdbpq.Endings{Interruptions: 1}, func(c *crowded, _ fdbpq.Item) {
		c.pass(time.Minute)
		c.sweep()
	}},
	"given back behind the TTL": {`{"dead_letter_expired":true,"ttl":"30s"}`, fdbpq.DeadExpired, fdbpq.Endings{Returns: 1}, func(c *crowded, leased fdbpq.Item) {
		c.pass(40 * time.Second)
		if err := c.giveBack(*leased.Lease, ""); err != nil {
			c.Error(err)
		}
	}},
	"revoked behind the TTL": {`{"dead_letter_expired":true,"ttl":"30s"}`, fdbpq.DeadExpired, fdbpq.Endings{Returns: 1}, func(c *crowded, leased fdbpq.Item) {
		c.pass(40 * time.Second)
		c.revoke(leased.ID, fdbpq.Revocation{})
	}},
}

// Where there is no room for its dead letter, an item that dies waits: it is never handed out again, nobody can settle, move or
// revoke it, its key and its unique value are free, and it has no result. It becomes a dead letter as soon as there is room, also
// by another process.
func TestDeathsWaitForRoom(t *testing.T) {
	t.Parallel()
	for name, death := range deaths {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", restart: ", restarts), func(t *testing.T) {
				t.Parallel()
				eachEngine(t, func(t *testing.T, open func() kv.DB) {
					c := crowdedStore(t, open)
					c.configure("q", death.config)
					c.configure("q", `{"key_order":true}`)
					payload := make([]byte, 5000)
					id := c.push("q", fdbpq.NewItem{Payload: payload, Headers: []byte("A: b\r\n"), Key: "k", Unique: "u", ResultTTL: time.Hour, Priority: -1, HasPriority: true})[0].ID
					leased := c.leaseOne("q", time.Minute)
					next := c.push("q", fdbpq.NewItem{Payload: []byte("next"), Key: "k", TTL: 24 * time.Hour})[0].ID
					c.why = errors.New("no room")
					death.die(c, leased)
					c.dying(id, leased, death.reason)
					if second := c.push("q", fdbpq.NewItem{Unique: "u", TTL: 24 * time.Hour})[0]; second.Duplicate {
						t.Error("its unique value is not free")
					}
					if got := c.leaseOne("q", time.Minute); got.ID != next {
						t.Errorf("its key is not free: popped is %+v", got)
					} else if err := c.ack(*got.Lease); err != nil {
						t.Error(err)
					}
					by := c.fixture
					if restarts {
						by = c.opened(c.options(0))
					}
					if events := by.sweep(); len(events) > 0 {
						t.Errorf("without room there are the events %+v", events)
					}
					c.dying(id, leased, death.reason)
					died := c.clock.options(0).Wall()
					together(time.Hour, c.fixture, by)
					c.why = nil
					events := by.sweep()
					i := slices.IndexFunc(events, func(e fdbpq.Event) bool { return e.Type == fdbpq.EventDead })
					if i < 0 || events[i].ID != id || events[i].Reason != death.reason || events[i].Deliveries != 1 || events[i].Endings != death.endings {
						t.Fatalf("with room there are the events %+v", events)
					}
					if c.counted < 5000 {
						t.Errorf("%d bytes were counted for the dead letter", c.counted)
					}
					letter := c.leaseOne("q-dead", time.Minute)
					if d := letter.Dead; d == nil || d.Reason != death.reason || d.Origin != "q" || d.OriginID != id.String() || d.Deliveries != 1 ||
						letter.Key != "k" || letter.Priority != -1 || len(letter.Payload) != 5000 || string(letter.Headers) != "A: b\r\n" {
						t.Errorf("the dead letter is %+v, %+v", letter, letter.Dead)
					} else if age := died.Sub(d.At); age < 0 || age > time.Minute {
						t.Errorf("it died at %s, expected a moment before %s", d.At, died)
					}
					if result, err := c.result("q", id); err != nil || result.Finish != fdbpq.FinishDead || result.Reason != death.reason || result.Deliveries != 1 {
						t.Errorf("the result is %+v, %v", result, err)
					}
					if stored := c.get("q", id); stored != nil {
						t.Errorf("it is still there: %+v", stored)
					}
				})
			})
		}
	}
}

// cause is why nothing of a queue is handed out.
func (c *crowded) cause(queues ...string) map[string]fdbpq.Reason {
	c.Helper()
	causes := make(map[string]fdbpq.Reason)
	for _, queue := range queues {
		c.view(func(r kv.Reader) error {
			found, err := c.Queue(queue).Inspect(r)
			if err != nil {
				return err
			}
			oldest, err := c.Queue(queue).OldestLease(r, 10)
			if err != nil {
				return err
			}
			e, err := found.Explain(oldest, fdbpq.Held{})
			causes[queue] = e.Cause
			return err
		})
	}
	return causes
}

// dying checks an item that waits, dead, in queue q.
func (c *crowded) dying(id fdbpq.ID, leased fdbpq.Item, reason string) {
	c.Helper()
	stored := c.get("q", id)
	if stored == nil || !stored.Dying || stored.State != fdbpq.StateLeased || stored.Dead != nil || stored.Due != 0 || stored.Holder != "" || stored.Unique != "" {
		c.Fatalf("it is %+v, expected that it waits, dead", stored)
	}
	if n := c.counts("q-dead").Length(); n != 0 {
		c.Fatalf("there are %d dead letters", n)
	}
	if _, err := c.result("q", id); !errors.Is(err, fdbpq.ErrPending) {
		c.Errorf("its result: %v", err)
	}
	c.view(func(r kv.Reader) error {
		if e, err := c.Queue("q").ExplainItem(r, stored); err != nil || e.Cause != fdbpq.ReasonDying {
			c.Errorf("explained by %+v, %v", e, err)
		}
		return nil
	})
	for what, err := range map[string]error{
		"ack": c.ack(*leased.Lease), "nack": c.nack(*leased.Lease, 0), "terminate": c.terminate(*leased.Lease),
		"hand over": c.handOver("q", *leased.Lease, fdbpq.NewItem{}).Err,
	} {
		if lost := new(fdbpq.LostError); !errors.As(err, &lost) || lost.Reason != fdbpq.LostGone {
			c.Errorf("%s: %v, expected that the item is gone", what, err)
		}
	}
	c.update(func(tx kv.Tx) error {
		if moved, err := c.Queue("q").Move(tx, id, 7); moved || err != nil {
			c.Errorf("it was moved: %t, %v", moved, err)
		}
		if revoked, err := c.Queue("q").Revoke(tx, id, fdbpq.Revocation{}); revoked.Found || err != nil {
			c.Errorf("it was revoked: %+v, %v", revoked, err)
		}
		for verb, bulk := range map[string]fdbpq.Bulk{
			"move": {Verb: fdbpq.BulkMove, Priority: 3}, "revoke": {Verb: fdbpq.BulkRevoke},
		} {
			bulk.Where, bulk.Limit = fdbpq.Where{State: fdbpq.StateLeased}, 10
			if done, err := c.Queue("q").Bulk(tx, bulk); done.Done != 0 || err != nil {
				c.Errorf("a bulk %s did %d, %v", verb, done.Done, err)
			}
		}
		return nil
	})
	if problems, err := storecheck.Check(c.Context(), c.Store); err != nil || len(problems) > 0 {
		c.Errorf("check says %q, %v", problems, err)
	}
}

// Items whose TTL is over while there is no room are not even marked: no pop hands them out, and they become dead letters later.
// A pop that meets one marks it.
func TestExpiredItemsWaitForRoom(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		c := crowdedStore(t, open)
		c.configure("q", `{"dead_letter_expired":true}`)
		c.push("q",
			fdbpq.NewItem{Payload: []byte("first"), TTL: time.Minute},
			fdbpq.NewItem{Payload: []byte("second"), TTL: time.Minute, Delay: 30 * time.Second},
			fdbpq.NewItem{Payload: []byte("lives"), Priority: 9, HasPriority: true})
		c.configure("other", `{}`)
		c.push("other", fdbpq.NewItem{TTL: time.Minute})
		c.leaseOne("other", 2*time.Minute)
		c.configure("late", `{"dead_letter_expired":true,"ttl":"1m"}`)
		c.pushed("late", 0, "x")
		c.why = errors.New("no room")
		before := c.rows("i")
		for range 3 {
			c.pass(time.Minute)
			c.sweep()
		}
		if rows := c.rows("i"); len(rows) < len(before) {
			t.Errorf("%d ready items are left of %d: the sweep has marked some", len(rows), len(before))
		}
		if n := c.counts("other"); n.Length() != 0 {
			t.Errorf("other has %+v: the sweep has not gone on behind what waits", n)
		}
		if cause := c.cause("other", "q"); cause["other"] != fdbpq.ReasonEmpty || cause["q"] != fdbpq.ReasonFlows {
			t.Errorf("the queues are explained by %v", cause)
		}
		if got := payloads(c.pop("q", fdbpq.Min, 3).Items); !slices.Equal(got, []string{"lives"}) {
			t.Errorf("popped are %q", got)
		}
		if cause := c.cause("late", "q"); cause["late"] != fdbpq.ReasonDying || cause["q"] != fdbpq.ReasonDying {
			t.Errorf("queues with dead items alone are explained by %v", cause)
		}
		if n := c.counts("q"); n.Leased != 2 {
			t.Errorf("there are %+v, expected that the pop has marked two", n)
		}
		c.why = nil
		c.sweep()
		var dead []string
		for _, letter := range c.pop("q-dead", fdbpq.Min, 3).Items {
			dead = append(dead, string(letter.Payload)+" "+letter.Dead.Reason)
		}
		c.pop("late-dead", fdbpq.Min, 1)
		slices.Sort(dead)
		if !slices.Equal(dead, []string{"first expired", "second expired"}) {
			t.Errorf("dead are %q", dead)
		}
	})
}

// A death that need not wait counts the bytes of its dead letter.
func TestDeathsCountTheirBytes(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		c := crowdedStore(t, open)
		c.push("q", fdbpq.NewItem{Payload: make([]byte, 5000)})
		if err := c.terminate(*c.leaseOne("q", time.Minute).Lease); err != nil {
			t.Fatal(err)
		}
		if n := c.counts("q-dead").Ready; c.counted != 5000 || n != 1 {
			t.Errorf("%d bytes were counted, and there are %d dead letters", c.counted, n)
		}
	})
}

// Room that goes while items are buried ends the burials, and each is written once. They come in the order of their deaths.
func TestBurialsEndWithTheRoom(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		c := crowdedStore(t, open)
		var want []string
		for i := range 10 {
			c.push("q", fdbpq.NewItem{Payload: fmt.Append(nil, i)})
			want = append(want, fmt.Sprint(i))
		}
		c.why = errors.New("no room")
		for _, item := range c.lease("q", fdbpq.Min, 10, time.Minute).Items {
			if err := c.terminate(*item.Lease); err != nil {
				t.Fatal(err)
			}
			c.pass(time.Millisecond)
		}
		c.pass(time.Hour)
		for range 2 { // the second one need not look at their timers
			if swept, err := c.Sweep(t.Context()); err != nil || swept.Next <= 0 || swept.Next > time.Second || swept.Timers != 0 {
				t.Errorf("a sweep without room: %+v, %v; expected one within a second", swept, err)
			}
		}
		left := 4
		c.join(func() fdbpq.Options {
			options := c.options(0)
			options.Full = func(bytes int64) error {
				if left <= 0 {
					return errors.New("no room any more")
				}
				if bytes > 0 {
					left--
				}
				return nil
			}
			return options
		}())
		for _, there := range []int64{4, 8, 10, 10} {
			c.sweep()
			if n := c.counts("q-dead").Ready; n != there {
				t.Errorf("%d dead letters, expected %d", n, there)
			}
			left = 4
		}
		if got := payloads(c.pop("q-dead", fdbpq.Min, 10).Items); !slices.Equal(got, want) {
			t.Errorf("the dead letters are %q", got)
		}
	})
}

// A remove, a purge and a delete end items that wait, and nothing is left of them.
func TestEndsOfDyingItems(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(c *crowded, id fdbpq.ID){
		"removed": func(c *crowded, id fdbpq.ID) { c.remove("q", id) },
		"removed with others": func(c *crowded, _ fdbpq.ID) {
			if pages := c.run("q", fdbpq.Bulk{Verb: fdbpq.BulkRemove, Where: fdbpq.Where{State: fdbpq.StateLeased}, Limit: 10}); !slices.Equal(pages, []int{1}) {
				c.Errorf("removed are %d", pages)
			}
		},
		"purged":  func(c *crowded, _ fdbpq.ID) { c.purge("q") },
		"deleted": func(c *crowded, _ fdbpq.ID) { c.delete("q") },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				c := crowdedStore(t, open)
				id := c.push("q", fdbpq.NewItem{Payload: make([]byte, 5000), Key: "k"})[0].ID
				c.why = errors.New("no room")
				if err := c.terminate(*c.leaseOne("q", time.Minute).Lease); err != nil {
					t.Fatal(err)
				}
				c.pass(time.Minute)
				end(c, id)
				c.collectGarbage()
				c.why = nil
				if events := c.sweep(); len(events) > 0 {
					t.Errorf("then there are the events %+v", events)
				}
				if n := c.counts("q-dead").Length() + c.counts("q").Length(); n != 0 {
					t.Errorf("%d items are left", n)
				}
				for _, space := range []string{"i", "l", "d", "x"} {
					if rows := c.rows(space); len(rows) > 0 {
						t.Errorf("%d rows of kind %q are left", len(rows), space)
					}
				}
			})
		})
	}
}

// Without the dead-letter queue, which was deleted meanwhile and may not be made, a dead item goes on as it would have then: it is
// ready again, or has expired.
func TestDyingItemsWithoutDeadLetterQueue(t *testing.T) {
	t.Parallel()
	for reason, config := range map[string]string{fdbpq.DeadTerminated: `{}`, fdbpq.DeadExpired: `{"dead_letter_expired":true,"ttl":"10s"}`} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				c := crowdedStore(t, open)
				options := c.options(0)
				options.RefuseUnknown = true
				c.join(options)
				c.configure("q", config)
				c.push("q", fdbpq.NewItem{})
				c.why = errors.New("no room")
				leased := c.leaseOne("q", time.Minute)
				if reason == fdbpq.DeadExpired {
					c.pass(2 * time.Minute)
					c.sweep()
				} else if err := c.terminate(*leased.Lease); err != nil {
					t.Fatal(err)
				}
				c.delete("q-dead")
				c.why = nil
				events := c.sweep()
				n := c.counts("q")
				switch {
				case reason == fdbpq.DeadExpired && (len(events) != 1 || events[0].Type != fdbpq.EventExpired || n.Length() != 0):
					t.Errorf("events %+v, counts %+v", events, n)
				case reason != fdbpq.DeadExpired && (len(events) != 0 || n.Ready != 1):
					t.Errorf("events %+v, counts %+v", events, n)
				}
			})
		})
	}
}
