package bridge_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// A bridge notes how long the queues are that are active, and of no others. Each answer with a
// history says whose it is.
func TestHistoryOfLengths(t *testing.T) {
	t.Parallel()
	db := &countedDB{DB: faulty(t)}
	c := serveOn(t, db)
	for range 3 {
		c.push("pq.jobs.push.5", "x")
	}
	c.push("pq.jobs.push.5", "x", "PQ-Delay", "1h")
	c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h")
	c.push("pq.gone.push", "x")
	c.push("pq.short.push", "x")
	c.raw("pq.gone.admin.delete", "")
	last := func(name string, all []*int64) int64 {
		t.Helper()
		if len(all) != 60 {
			t.Fatalf("%s has %d minutes", name, len(all))
		}
		for _, n := range all[57:] { // a minute may have ended since
			if n != nil {
				return *n
			}
		}
		t.Fatalf("%s: nobody looked", name)
		return 0
	}
	bridge.LookAtLengths(c.env.Bridge, t.Context())
	history := func(queue string) *protocol.History {
		t.Helper()
		h := object[protocol.Info](c, "pq."+queue+".info", `{"history":true}`).History
		if h == nil || h.Bridge == "" || h.Step != 60 || h.Failed != nil {
			t.Fatalf("%+v", h)
		}
		return h
	}
	h := history("jobs")
	if ready, leased, delayed := last("ready", h.Ready), last("leased", h.Leased), last("delayed", h.Delayed); ready != 2 || leased != 1 || delayed != 1 {
		t.Errorf("%d ready, %d leased, %d delayed, expected 2, 1 and 1", ready, leased, delayed)
	}
	all := object[protocol.System](c, "pq._sys.info", `{"history":true}`).History
	if all == nil || all.Bridge != h.Bridge || all.Ready != nil || len(all.Failed) != 60 {
		t.Errorf("%+v", all)
	}
	// A queue that is made again has no past.
	c.push("pq.gone.push", "x")
	for _, n := range history("gone").Ready {
		if n != nil {
			t.Errorf("a queue that was deleted had %d items", *n)
		}
	}
	before := db.rows.Load()
	c.raw("pq.idle.admin.config", "{}")
	bridge.LookAtLengths(c.env.Bridge, t.Context())
	if read := db.rows.Load() - before; read > 100 {
		t.Errorf("a look at three queues reads %d rows", read)
	}
	for _, n := range history("idle").Ready {
		if n != nil {
			t.Errorf("a queue without activity is looked at: %d", *n)
		}
	}
	var plain map[string]json.RawMessage
	if err := json.Unmarshal(c.ask("pq.jobs.info", "").Data, &plain); err != nil || plain["history"] != nil {
		t.Errorf("a history that nobody asked for: %s, %v", plain["history"], err)
	}
}

// BenchmarkHistory measures what a bridge does each minute for 1,000 busy queues.
func BenchmarkHistory(b *testing.B) {
	env := testenv.Bridge(b, chosen(nil))
	c := &client{TB: b, Conn: env.NATS.Connect(b), env: env}
	for i := range 1000 {
		c.push(fmt.Sprintf("pq.queue-%d.push.5", i), "x")
	}
	for b.Loop() {
		bridge.LookAtLengths(env.Bridge, b.Context())
	}
}
