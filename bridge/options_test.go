package bridge_test

import (
	"context"
	"testing"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/testenv"
)

// A bridge takes as many requests as its limits say, and not one more. Settlements have
// a limit of their own, four times as high.
func TestLimitsAreExact(t *testing.T) {
	t.Parallel()
	hold := func(limits bridge.Limits) (c *client, acks []string, release func()) {
		c, db := slowly(t, faulty(t), bridge.Options{Exclusive: true, Limits: limits})
		acks = c.leases(9)
		c.push("pq.jobs.push", "x")
		c.inFlight("work", 0)
		release = db.blockNext()
		c.send("pq.jobs.pop.min", "")
		db.awaitBlocked(t)
		return c, acks, release
	}
	c, _, release := hold(bridge.Limits{Requests: 3})
	second, third := c.send("pq.jobs.pop.min", ""), c.send("pq.jobs.pop.min", "")
	c.refused(c.ask("pq.jobs.pop.min", ""), 429, "busy")
	release()
	c.refused(c.next(second), 404)
	c.refused(c.next(third), 404)

	c, acks, release := hold(bridge.Limits{Requests: 2}) // one may still leave when the next one comes
	var settled []answers
	for _, ack := range acks[:8] {
		settled = append(settled, c.send(ack, "+ACK"))
	}
	c.refused(c.raw(acks[8], "+ACK"), 429, "busy")
	release()
	for _, answer := range settled {
		c.accepted(c.next(answer))
	}

	c, _, release = hold(bridge.Limits{Bytes: 1000})
	c.refused(c.ask("pq.jobs.push", string(make([]byte, 1000))), 429, "busy")
	pushed := c.send("pq.jobs.push", string(make([]byte, 500)))
	release()
	c.acknowledged(c.next(pushed))
}

// Requests that are refused for their form are not counted as requests in flight.
func TestRefusedRequestsAreNotInFlight(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.push("pq.jobs.push", "x")
	for range 3 {
		c.refused(c.ask("pq.jobs.info.more", ""), 400)
		if err := c.PublishRequest("pq.jobs.info", "orders.new", nil); err != nil {
			t.Fatal(err)
		}
	}
	c.info("jobs")
	c.inFlight("work", 0)
	if n, exported := c.own()["pq_bytes_in_flight{}"]; !exported || n != 0 {
		t.Errorf("%g bytes in flight", n)
	}
}

// A leased item whose answer cannot be sent is there for others at once.
func TestUnsentLeaseIsReturned(t *testing.T) {
	t.Parallel()
	c, db := slowly(t, faulty(t), bridge.Options{Exclusive: true})
	c.push("pq.jobs.push", "x")
	release := db.blockNext()
	c.send("pq.jobs.pop.min", "", "PQ-Lease", "1h")
	db.awaitBlocked(t)
	c.env.NATS.Shutdown()
	testenv.Await(t, "the bridge notices that the server is away", func() bool { return c.env.Bridge.Ready() != nil })
	release()
	c.inFlight("work", 0)
	testenv.Await(t, "the item is ready", func() bool {
		var found *fdbpq.Inspection
		err := c.env.Store.View(context.WithoutCancel(t.Context()), func(r kv.Reader) (err error) {
			found, err = c.env.Store.Queue("jobs").Inspect(r)
			return err
		})
		return err == nil && found.Ready == 1 && found.Leased == 0
	})
	c.env.NATS.Restart(t)
}
