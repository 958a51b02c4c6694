package fdbpq_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// ends has nothing left of its room.
func (c *crowded) ends() { c.why, c.low = errors.New("no room"), errors.New("no room at all") }

// With the last of the room no settlement has an item written again: it is refused, and has no effect. Whatever ends an item is served.
func TestSettlementsOfTheLastRoom(t *testing.T) {
	t.Parallel()
	settlements := map[string]func(c *crowded, l fdbpq.Lease) error{
		"fails":                 func(c *crowded, l fdbpq.Lease) error { return c.nack(l, 0) },
		"fails, and is delayed": func(c *crowded, l fdbpq.Lease) error { return c.nack(l, time.Minute) },
		"fails for good":        func(c *crowded, l fdbpq.Lease) error { return c.terminate(l) },
		"is given back":         func(c *crowded, l fdbpq.Lease) error { return c.giveBack(l, "for a reason") },
		"is given back unused":  func(c *crowded, l fdbpq.Lease) error { return c.unused(l) },
		"did not arrive": func(c *crowded, l fdbpq.Lease) error {
			return c.settle(func(tx kv.Tx) (fdbpq.Settled, error) { return c.Queue("q").Return(tx, l) })
		},
		"is extended": func(c *crowded, l fdbpq.Lease) error {
			return c.settle(func(tx kv.Tx) (fdbpq.Settled, error) { return c.Queue("q").Extend(tx, l, time.Hour) })
		},
	}
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		c := crowdedStore(t, open)
		c.configure("q", `{"rate":"100/1h"}`)
		c.push("q", fdbpq.NewItem{Payload: []byte("x"), Key: "k", Unique: "u"})
		leased := c.leaseOne("q", time.Hour)
		was, n := c.get("q", leased.ID), c.counts("q")
		for name, settle := range settlements {
			c.ends()
			if err := settle(c, *leased.Lease); !errors.Is(err, fdbpq.ErrNoRoom) {
				t.Errorf("an item that %s: %v", name, err)
			}
			if is := c.get("q", leased.ID); is.Due != was.Due || is.State != was.State || is.Dying || is.Fence != was.Fence || c.counts("q") != n {
				t.Errorf("an item that %s is %+v", name, is)
			}
		}
		if err := c.ack(*leased.Lease); err != nil {
			t.Errorf("an acknowledgement: %v", err)
		}
		c.why, c.low = nil, nil
		c.push("q", fdbpq.NewItem{})
		if err := c.terminate(*c.leaseOne("q", time.Hour).Lease); err != nil {
			t.Fatal(err)
		}
		letter := c.leaseOne("q-dead", time.Hour)
		c.ends()
		if err := c.terminate(*letter.Lease); err != nil {
			t.Errorf("a dead letter that ends: %v", err)
		}
		c.sound()
	})
}

// With the last of the room leases that have run out and delays that are over wait, also beside others, and go on in their order
// when there is more, though not enough for dead letters. What ends items or ids goes on all the time.
func TestTimersOfTheLastRoom(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		c := crowdedStore(t, open)
		c.configure("q", `{"max_interruptions":2,"dedup_window":"1m"}`)
		c.push("q", fdbpq.NewItem{Payload: []byte("leased")}, fdbpq.NewItem{Payload: []byte("twice")})
		c.leaseOne("q", time.Second)
		c.push("done", fdbpq.NewItem{ResultTTL: time.Minute})
		if err := c.ack(*c.leaseOne("done", time.Minute).Lease); err != nil {
			t.Fatal(err)
		}
		c.push("done", fdbpq.NewItem{})
		c.popOnce("done", "p", 1, 0)
		c.keyed("turns", "k", 0, 3)
		c.configure("turns", `{"fair":"priority","key_limit":1}`)
		c.push("q",
			fdbpq.NewItem{Payload: []byte("delayed"), Delay: time.Minute, MsgID: "id"},
			fdbpq.NewItem{Payload: []byte("expires"), TTL: 2 * time.Minute})
		c.configure("late", `{"dead_letter_expired":true,"ttl":"1m"}`)
		c.push("late", fdbpq.NewItem{})
		c.ends()
		works := c.due()["turns"]
		for range 5 { // the last sweeps need not look at what they have passed over
			c.pass(time.Minute)
			if swept, err := c.Sweep(t.Context()); err != nil || swept.Next <= 0 || swept.Next > time.Second {
				t.Errorf("a sweep without room: %+v, %v; expected one within a second", swept, err)
			}
			c.sweep()
		}
		if n := c.counts("done"); n.Results != 0 || n.Remembered != 0 {
			t.Errorf("%d results and %d ids are left", n.Results, n.Remembered)
		}
		if n := c.due()["turns"]; n != works || works != 2 {
			t.Errorf("of %d works that bring items into turns %d are left, expected both", works, n)
		}
		want := fdbpq.Counts{Ready: 1, Leased: 1, Delayed: 1}
		if n := c.counts("q"); n.Ready != want.Ready || n.Leased != want.Leased || n.Delayed != want.Delayed || n.Remembered != 0 {
			t.Errorf("there are %+v, expected %+v, and no id", n, want)
		}
		c.update(func(tx kv.Tx) error {
			if popped, err := c.Queue("late").Pop(tx, fdbpq.Selection{Band: &fdbpq.AllPriorities, Limit: 1}); !errors.Is(err, fdbpq.ErrNoRoom) {
				t.Errorf("a pop that meets an item to be marked: %+v, %v", popped, err)
			}
			return nil
		})
		c.low = nil
		c.sweep()
		if n := c.due()["turns"]; n != 0 {
			t.Errorf("%d works of turns are left", n)
		}
		if got := payloads(c.pop("q", fdbpq.Min, 5).Items); !slices.Equal(got, []string{"leased", "twice", "delayed"}) {
			t.Errorf("popped are %q", got)
		}
		if n := c.counts("late"); n.Length() != 1 || c.counts("late-dead").Length() != 0 {
			t.Errorf("late has %+v, expected that its dead item waits", n)
		}
		c.why = nil
		c.sweep()
		if n := c.counts("late-dead"); n.Length() != 1 {
			t.Errorf("late-dead has %+v", n)
		}
		c.sound()
	})
}
