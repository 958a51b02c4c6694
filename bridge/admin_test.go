package bridge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/testenv"
)

func TestInfo(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.refused(c.ask("pq.jobs.info", ""), 404, "unknown")
	c.accepted(c.raw(c.lease("done").Reply, ""))
	for i := range 5 {
		c.push("pq.jobs.push", "12345", "X", fmt.Sprint(i))
	}
	c.push("pq.jobs.push", "", "PQ-Delay", "1h")
	m := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h")
	c.accepted(c.raw(m.Reply, "+WPI"))
	i := c.info("jobs")
	if i.Queue != "jobs" || i.Ready != 4 || i.Leased != 1 || i.Delayed != 1 || i.Waiting != 0 || i.Bytes != 5*(5+6) ||
		i.Oldest <= 0 || i.Oldest > testenv.Patience().Seconds() || i.Paused || i.Config["dedup_window"] != "2m0s" || i.Config["max_deliveries"] != 16.0 {
		t.Errorf("%+v", i)
	}
	for _, rate := range []string{"push", "pop", "settle"} {
		if i.Rates[rate] <= 0 {
			t.Errorf("rates %v", i.Rates)
		}
	}
}

func TestConfigure(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.refused(c.ask("pq.jobs.admin.config", ""), 404, "unknown")
	set := object[fdbpq.Config](c, "pq.jobs.admin.config", `{"priority":5,"ties":"oldest","lease":"1m30s"}`)
	if set.Priority != 5 || set.Ties != "oldest" || set.Lease.String() != "1m30s" || set.MaxDeliveries != 16 {
		t.Errorf("%+v", set)
	}
	set = object[fdbpq.Config](c, "pq.jobs.admin.config", `{"lease":"0s"}`)
	if read := object[fdbpq.Config](c, "pq.jobs.admin.config", ""); read != set || read.Priority != 5 || read.Lease != 0 {
		t.Errorf("set %+v, read %+v", set, read)
	}
	if ack := c.push("pq.jobs.push", "a"); ack.Priority != 5 {
		t.Errorf("%+v", ack)
	}
	c.push("pq.jobs.push", "b")
	if m := c.pop("pq.jobs.pop.max", ""); string(m.Data) != "a" {
		t.Errorf("popped %q", m.Data)
	}
}

func TestPurgePauseDelete(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for _, verb := range []string{"purge", "pause", "resume", "delete"} {
		c.refused(c.ask("pq.jobs.admin."+verb, ""), 404, "unknown")
	}
	c.push("pq.jobs.push", "a")
	c.push("pq.jobs.push", "b", "PQ-Delay", "1h")
	c.push("pq.jobs.push.-1", "c")
	m := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h")
	if n := object[struct{ Purged int }](c, "pq.jobs.admin.purge", "").Purged; n != 3 {
		t.Errorf("purged %d items", n)
	}
	c.lost(c.raw(m.Reply, "+ACK"), "gone")
	c.push("pq.jobs.push", "d")
	for _, verb := range []string{"pause", "resume", "delete"} {
		if q := object[struct{ Queue string }](c, "pq.jobs.admin."+verb, "").Queue; q != "jobs" {
			t.Errorf("%s answered %q", verb, q)
		}
		if verb == "pause" && !c.info("jobs").Paused {
			t.Error("not paused")
		}
	}
	c.refused(c.ask("pq.jobs.info", ""), 404, "unknown")
}

// A refused push creates no queue and does not count as a push.
func TestRefusedMakesNoQueue(t *testing.T) {
	c := serve(t)
	id := c.push("pq.jobs.push", "x").ID
	refuse := func(queue string) {
		t.Helper()
		c.refused(c.ask("pq."+queue+".import", "x", "PQ-Id", id, "Nats-Time-Stamp", "2300-01-01T00:00:00Z"), 400)
		if reply := c.ask("pq."+queue+".push", "x", "PQ-Not-Before", "2300-01-01T00:00:00Z"); reply.Header.Get("Nats-Service-Error-Code") != "400" {
			t.Errorf("a push for the year 2300 answers %s, %v", reply.Data, reply.Header)
		}
	}
	refuse("new")
	if l := object[struct{ Queues []string }](c, "pq._sys.list", "").Queues; !slices.Equal(l, []string{"jobs"}) {
		t.Errorf("there are %q, expected jobs alone", l)
	}
	c.ask("pq.new.admin.config", `{"ttl":"1h"}`)
	refuse("new")
	if i := c.info("new"); i.Rates["push"] != 0 {
		t.Errorf("rates %v, expected no pushes", i.Rates)
	}
}

func TestSys(t *testing.T) {
	t.Parallel()
	c := serve(t, bridge.Options{Version: "1.2.3", StoreName: "local:test"})
	type list struct {
		Total, Offset, Limit int
		Queues               []string
	}
	if l := object[list](c, "pq._sys.list", ""); l.Total != 0 || l.Queues == nil || l.Limit != 100 {
		t.Errorf("%+v", l)
	}
	var want []string
	for i := range 7 {
		want = append(want, fmt.Sprintf("q%d", i))
		c.push("pq."+want[i]+".push", "x")
	}
	if l := object[list](c, "pq._sys.list", `{"offset":2,"limit":3}`); l.Total != 7 || l.Offset != 2 || l.Limit != 3 || !slices.Equal(l.Queues, want[2:5]) {
		t.Errorf("%+v", l)
	}
	if l := object[list](c, "pq._sys.list", `{"limit":1000000}`); l.Limit != fdbpq.MaxBatch || len(l.Queues) != 7 {
		t.Errorf("%+v", l)
	}
	if l := object[list](c, "pq._sys.list", `{"offset":9}`); l.Total != 7 || len(l.Queues) != 0 {
		t.Errorf("%+v", l)
	}
	for body, page := range map[string]struct {
		names []string
		next  string
	}{
		`{"after":""}`:                          {want, ""},
		`{"after":"","limit":7}`:                {want, ""},
		`{"after":"","limit":2}`:                {want[:2], "q1"},
		`{"after":"q1","limit":2}`:              {want[2:4], "q3"},
		`{"after":"q1x"}`:                       {want[2:], ""},
		`{"after":"q6"}`:                        {[]string{}, ""},
		`{"prefix":"q"}`:                        {want, ""},
		`{"prefix":"q3"}`:                       {want[3:4], ""},
		`{"prefix":"q","limit":1}`:              {want[:1], "q0"},
		`{"prefix":"q","after":"q0","limit":1}`: {want[1:2], "q1"},
		`{"prefix":"q3","after":"q3"}`:          {[]string{}, ""},
		`{"prefix":"q3","after":"a"}`:           {want[3:4], ""},
		`{"prefix":"r"}`:                        {[]string{}, ""},
		`{"prefix":"no name"}`:                  {[]string{}, ""},
	} {
		got := object[struct {
			Queues []string
			Next   string
			Total  *int
		}](c, "pq._sys.list", body)
		if !slices.Equal(got.Queues, page.names) || got.Queues == nil || got.Next != page.next || got.Total != nil {
			t.Errorf("%s: %+v, expected %v", body, got, page)
		}
	}
	sys := object[map[string]any](c, "pq._sys.info", "")
	if sys["version"] != "1.2.3" || sys["store"] != "local:test" || sys["store_id"] != c.env.Store.ID() || sys["prefix"] != "pq" ||
		sys["uptime"].(float64) <= 0 || sys["limits"].(map[string]any)["waiters"] != 10_000.0 {
		t.Errorf("%v", sys)
	}
}

// A dead-letter queue needs a name that subjects can have.
func TestConfigDeadLetterCanBeReached(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for _, name := range []string{"a.b", "not a name!", "_sys"} {
		m := c.refused(c.raw("pq.jobs.admin.config", `{"dead_letter":"`+name+`"}`), 400, "")
		if text := m.Header.Get("Nats-Service-Error"); !strings.HasPrefix(text, "configuration: dead_letter: ") {
			t.Errorf("%s: %s", name, text)
		}
	}
}
