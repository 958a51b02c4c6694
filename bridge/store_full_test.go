package bridge_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
)

// A store without room refuses new items. It still recognizes the items that it has, so the
// repetition of a push whose answer was lost is a duplicate.
func TestFullStoreRecognizesItems(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	c := serve(t, bridge.Options{Room: func() error {
		if full.Load() {
			return errors.New("no room")
		}
		return nil
	}})
	first := c.push("pq.jobs.push.1", "first", "Nats-Msg-Id", "a")
	stored := c.ask("pq.jobs.get."+first.ID, "")
	imported := func(subject string) *nats.Msg {
		return c.askMsg(&nats.Msg{Subject: subject, Header: stored.Header, Data: stored.Data})
	}
	full.Store(true)
	c.refused(c.ask("pq.jobs.push.1", "new"), 429, "store_full")
	c.refused(c.ask("pq.jobs.push.1", "new", "Nats-Msg-Id", "b"), 429, "store_full")
	c.refused(c.ask("pq.new.push.1", "new", "Nats-Msg-Id", "a"), 429, "store_full")
	c.refused(imported("pq.new.import"), 429, "store_full")
	if again := c.push("pq.jobs.push.1", "first", "Nats-Msg-Id", "a"); !again.Duplicate || again.ID != first.ID {
		t.Errorf("the repeated push was answered %+v, expected a duplicate of %s", again, first.ID)
	}
	if again := c.acknowledged(imported("pq.jobs.import")); !again.Duplicate {
		t.Errorf("the import of an item that is there was answered %+v, expected a duplicate", again)
	}
	c.refused(c.ask("pq.new.info", ""), 404)
	c.pop("pq.jobs.pop.min", "")

	full.Store(false)
	if now := c.push("pq.jobs.push.1", "new", "Nats-Msg-Id", "b"); now.Duplicate {
		t.Errorf("a push that was refused counts as stored: %+v", now)
	}
}
