package bridge_test

import (
	"testing"

	"github.com/nats-io/nats.go"
)

// Rates count items: one that is pushed or imported again counts once.
func TestRatesCountItems(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for range 5 {
		c.push("pq.jobs.push.5", "x", "Nats-Msg-Id", "id")
	}
	item := c.ask("pq.jobs.get."+c.push("pq.jobs.push.5", "y").ID, "")
	for range 5 {
		ack := c.acknowledged(c.askMsg(&nats.Msg{Subject: "pq.jobs.import", Header: item.Header, Data: item.Data}))
		if ack.Priority != 5 || !ack.Duplicate {
			t.Errorf("%+v", ack)
		}
	}
	if rate := c.info("jobs").Rates["push"]; rate < 1.0/60 || rate > 2.5/60 {
		t.Errorf("%v pushes a second in the last minute, expected those of two items", rate)
	}
}

// An import that finds its item answers with the priority that the item has now.
func TestImportOfAMovedItem(t *testing.T) {
	t.Parallel()
	c := serve(t)
	id := c.push("pq.jobs.push.5", "x").ID
	item := c.ask("pq.jobs.get."+id, "")
	c.ask("pq.jobs.move."+id+".7", "")
	if ack := c.acknowledged(c.askMsg(&nats.Msg{Subject: "pq.jobs.import", Header: item.Header, Data: item.Data})); !ack.Duplicate || ack.Priority != 7 {
		t.Errorf("%+v, expected a duplicate of priority 7", ack)
	}
}
