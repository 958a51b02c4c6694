package bridge_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// explain asks why nothing of a queue moves.
func (c *client) explain(queue string) protocol.Explain {
	c.Helper()
	return object[protocol.Info](c, "pq."+queue+".info", "").Explain
}

// explainItem asks why an item is not handed out.
func (c *client) explainItem(queue, id string) (e protocol.Explain) {
	c.Helper()
	m := c.ask("pq."+queue+".get."+id, `{"explain":true}`)
	decode(c, []byte(m.Header.Get("PQ-Explain")), &e)
	return e
}

// Each cause has its word, the facts that belong to it, and a sentence that names them.
func TestExplain(t *testing.T) {
	t.Parallel()
	var passed atomic.Int64 // since the start
	start := time.Now()
	full := errors.New("the disk is full")
	var noRoom atomic.Bool
	c := serve(t, bridge.Timed(func() time.Time { return start.Add(time.Duration(passed.Load())) }, bridge.Options{
		Exclusive: testenv.Engines()[0].Exclusive,
		Room: func(int) error {
			if noRoom.Load() {
				return full
			}
			return nil
		},
	}))
	last := "" // id of the item that was pushed last
	push := func(queue string, header ...string) { last = c.push("pq."+queue+".push", "x", header...).ID }
	// later is when nobody has asked lately.
	later := func() { passed.Add(int64(time.Hour)) }
	for _, tc := range []struct {
		name, config string
		do           func(queue string)
		want         protocol.Explain // its texts are parts of what is said
		item         protocol.Cause   // of the item that was pushed last
	}{
		{name: "empty", do: func(q string) { c.ask("pq."+q+".admin.config", `{"lease":"1m"}`) }, want: protocol.Explain{Cause: protocol.CauseEmpty, Text: "no items"}},
		{
			name: "paused", do: func(q string) { push(q); c.ask("pq."+q+".admin.pause", "") },
			want: protocol.Explain{Cause: protocol.CausePaused, Text: "paused", Next: "Resume"}, item: protocol.CausePaused,
		},
		{
			name: "nobody asks", do: func(q string) { push(q) },
			want: protocol.Explain{Cause: protocol.CauseNoWorkers, Text: "1 item is ready, and nobody asks", Next: "worker"}, item: protocol.CauseNoWorkers,
		},
		{
			name: "somebody asked lately", do: func(q string) { push(q); c.pop("pq."+q+".pop.min", ""); push(q) },
			want: protocol.Explain{Cause: protocol.CauseFlows, Text: "handed out"}, item: protocol.CauseFlows,
		},
		{
			name: "a band was asked for lately", do: func(q string) { last = c.push("pq."+q+".push.5", "x").ID; c.ask("pq."+q+".pop.min", `{"max":4}`) },
			want: protocol.Explain{Cause: protocol.CauseBand, Text: "nobody asks for its priority: pops ask for ..4", Bands: []string{"..4"}}, item: protocol.CauseBand,
		},
		{
			name: "rate", config: `{"rate":"1/1h"}`, do: func(q string) { push(q); c.pop("pq."+q+".pop.min", ""); push(q) },
			want: protocol.Explain{Cause: protocol.CauseRate, Text: "1/1h0m0s, is reached"}, item: protocol.CauseRate,
		},
		{
			name: "cost rate", config: `{"cost_rate":"1/1h"}`, do: func(q string) { push(q); c.pop("pq."+q+".pop.min", ""); push(q) },
			want: protocol.Explain{Cause: protocol.CauseRate, Text: "The cost rate of the queue, 1/1h0m0s, is reached", Next: "really cost"}, item: protocol.CauseRate,
		},
		{
			name: "either rate", config: `{"cost_rate":"1/1h","rate":"2/1h"}`, do: func(q string) { push(q); c.pop("pq."+q+".pop.min", ""); push(q) },
			want: protocol.Explain{Cause: protocol.CauseRate, Text: "2/1h0m0s, or its cost rate, 1/1h0m0s, is reached"}, item: protocol.CauseRate,
		},
		{
			name: "its key", config: `{"key_order":true}`, do: func(q string) {
				push(q, "PQ-Key", "ann")
				c.ask("pq."+q+".pop.min", `{"lease":60000000000,"holder":"w3"}`)
				push(q, "PQ-Key", "ann")
			},
			want: protocol.Explain{Cause: protocol.CauseBlocked, Key: "ann", WaitsFor: "key_order", Holder: "w3", Text: `for its key "ann": w3 has item`, Next: "revoke"}, item: protocol.CauseBlocked,
		},
		{
			name: "a paused key", do: func(q string) {
				push(q, "PQ-Key", "ann")
				c.ask("pq."+q+".admin.key.ann", `{"paused":true}`)
			},
			want: protocol.Explain{Cause: protocol.CauseBlocked, Key: "ann", WaitsFor: "pause", Text: "paused"}, item: protocol.CauseBlocked,
		},
		{
			name: "the cost rate of a key", config: `{"key_cost_rate":"1/1h"}`, do: func(q string) {
				push(q, "PQ-Key", "ann")
				c.ask("pq."+q+".pop.min", "")
				push(q, "PQ-Key", "ann")
			},
			want: protocol.Explain{Cause: protocol.CauseBlocked, Key: "ann", WaitsFor: "key_cost_rate", Text: "cost rate allows the next item in"}, item: protocol.CauseBlocked,
		},
		{
			name: "the rate of a key", config: `{"key_rate":"1/1h"}`, do: func(q string) {
				push(q, "PQ-Key", "ann")
				c.ask("pq."+q+".pop.min", "")
				push(q, "PQ-Key", "ann")
			},
			want: protocol.Explain{Cause: protocol.CauseBlocked, Key: "ann", WaitsFor: "key_rate", Text: "rate allows the next item in"}, item: protocol.CauseBlocked,
		},
		{
			name: "leased", do: func(q string) { push(q); c.ask("pq."+q+".pop.min", `{"lease":60000000000,"holder":"w3"}`) },
			want: protocol.Explain{Cause: protocol.CauseLeased, Holder: "w3", Text: "No item is ready: 1 item is leased, the oldest lease is that of w3"}, item: protocol.CauseLeased,
		},
		{
			name: "leased beside ready ones", do: func(q string) {
				push(q)
				c.ask("pq."+q+".pop.min", `{"lease":60000000000,"holder":"w3"}`)
				push(q)
				later()
			},
			want: protocol.Explain{Cause: protocol.CauseLeased, Holder: "w3", Text: "1 item is ready, and those who have others do not ask for more"}, item: protocol.CauseLeased,
		},
		{
			name: "delayed", do: func(q string) { push(q, "PQ-Delay", "1h") },
			want: protocol.Explain{Cause: protocol.CauseDelayed, Text: "1 item is delayed: the first becomes ready in"}, item: protocol.CauseDelayed,
		},
		{
			name: "full", config: `{"max_length":1}`, do: func(q string) { push(q, "PQ-Delay", "1h") },
			want: protocol.Explain{Cause: protocol.CauseFull, Refuses: protocol.ReasonFull, Text: "max_length is 1"}, item: protocol.CauseDelayed,
		},
		{
			name: "full, and nobody asks", config: `{"max_length":1}`, do: func(q string) { push(q) },
			want: protocol.Explain{Cause: protocol.CauseNoWorkers, Refuses: protocol.ReasonFull, Text: "and no push is taken: queue is full: its max_length is 1", Next: "Start a worker. Have its items worked off, or raise the limit."}, item: protocol.CauseNoWorkers,
		},
		{
			name: "a queue for dead letters", config: `{"dead_letters_from":"*"}`, do: func(q string) { push(q) },
			want: protocol.Explain{Cause: protocol.CauseDeadLetters, Text: "1 item is ready, in a queue for dead letters: they stay", Next: "Look why they died."}, item: protocol.CauseNoWorkers,
		},
		{
			name: "somebody takes dead letters", config: `{"dead_letters_from":"*"}`, do: func(q string) { push(q); c.pop("pq."+q+".pop.min", ""); push(q) },
			want: protocol.Explain{Cause: protocol.CauseFlows}, item: protocol.CauseFlows,
		},
		{
			name: "a full store", do: func(q string) { c.ask("pq."+q+".admin.config", `{"lease":"1m"}`); noRoom.Store(true) },
			want: protocol.Explain{Cause: protocol.CauseStoreFull, Refuses: protocol.ReasonStoreFull, Text: "the disk is full"},
		},
	} {
		queue := strings.NewReplacer(" ", "-", ",", "").Replace(tc.name)
		if noRoom.Store(false); tc.config != "" {
			c.ask("pq."+queue+".admin.config", tc.config)
		}
		tc.do(queue)
		got := c.explain(queue)
		if !strings.Contains(got.Text, tc.want.Text) || !strings.Contains(got.Next, tc.want.Next) || !strings.HasSuffix(got.Text, ".") {
			t.Errorf("%s: %q, next %q; expected %q, %q", tc.name, got.Text, got.Next, tc.want.Text, tc.want.Next)
		}
		known := protocol.Explain{Cause: got.Cause, Refuses: got.Refuses, Key: got.Key, WaitsFor: got.WaitsFor, Holder: got.Holder}
		want := protocol.Explain{Cause: tc.want.Cause, Refuses: tc.want.Refuses, Key: tc.want.Key, WaitsFor: tc.want.WaitsFor, Holder: tc.want.Holder}
		if !same(known, want) || !slices.Equal(got.Bands, tc.want.Bands) {
			t.Errorf("%s: %+v, expected %+v", tc.name, got, tc.want)
		}
		if tc.item == "" {
			continue
		}
		if got := c.explainItem(queue, last); got.Cause != tc.item || got.Text == "" {
			t.Errorf("%s: the item: %+v, expected %s", tc.name, got, tc.item)
		}
	}
}

// An explanation of leases beside ready items comes with the ages of the oldest lease and of the latest one.
func TestInfoOfLeases(t *testing.T) {
	t.Parallel()
	c := serve(t, bridge.Options{})
	for _, text := range []string{"a", "b", "c"} {
		c.push("pq.jobs.push", text)
	}
	var first, second protocol.Info
	c.ask("pq.jobs.pop.min", `{"lease":60000000000}`)
	first = object[protocol.Info](c, "pq.jobs.info", "")
	c.ask("pq.jobs.pop.min", `{"lease":60000000000}`)
	second = object[protocol.Info](c, "pq.jobs.info", "")
	if first.LatestLease <= 0 || first.LatestLease != first.OldestLease || second.LatestLease <= 0 || second.LatestLease >= second.OldestLease {
		t.Errorf("one lease: %v to %v; two: %v to %v", first.OldestLease, first.LatestLease, second.OldestLease, second.LatestLease)
	}
}

// A dead letter says where it comes from, and what it died of. It waits for nobody in particular, so no worker is missing.
func TestExplainDeadLetter(t *testing.T) {
	t.Parallel()
	c := serve(t, bridge.Options{})
	c.ask("pq.jobs.admin.config", `{"max_deliveries":1}`)
	c.push("pq.jobs.push", "x")
	c.ask(c.pop("pq.jobs.pop.min", `{"lease":60000000000}`).Header.Get("PQ-Ack"), `-NAK {"reason":"no such address"}`)
	id := c.ask("pq.jobs-dead.peek.min", "").Header.Get("PQ-Id")
	if got := c.explainItem("jobs-dead", id); got.Cause != protocol.CauseDeadLetters || got.Text != "The item is a dead letter of jobs, which died of: no such address." || got.Item != id {
		t.Errorf("a dead letter: %+v", got)
	}
	if got := c.explain("jobs-dead"); got.Cause != protocol.CauseDeadLetters || !strings.HasPrefix(got.Text, "1 item is ready, in a queue for dead letters") {
		t.Errorf("its queue: %+v", got)
	}
	c.ask("pq.jobs-dead.admin.pause", "")
	if got := c.explain("jobs-dead"); got.Cause != protocol.CausePaused {
		t.Errorf("its queue is paused: %+v", got)
	}
}

func same(a, b protocol.Explain) bool {
	x, err := json.Marshal(a)
	y, other := json.Marshal(b)
	return err == nil && other == nil && string(x) == string(y)
}

// A bridge never says that nobody asks while a pop waits at another bridge on the store, and says that it does not
// know while one does not answer.
func TestExplainAsksOtherBridges(t *testing.T) {
	t.Parallel()
	db := placed(t)
	c := serveOn(t, db, bridge.Options{})
	other := c.another()
	nc := c.env.NATS.Connect(t, bridge.ConnectOptions(nil)...)
	var passed atomic.Int64 // since the start
	start := time.Now()
	o := bridge.Timed(func() time.Time { return start.Add(time.Duration(passed.Load())) }, bridge.Options{Prefix: "other"})
	second, err := bridge.Start(t.Context(), nc, testenv.OpenStore(t, db, fdbpq.Options{}), o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.drain(second)
	c.push("pq.jobs.push.5", "x")
	// A busy machine may take longer than bridges wait for each other.
	said := func(cause protocol.Cause) (got protocol.Explain) {
		testenv.Await(t, "the queue says "+string(cause), func() bool {
			got = c.explain("jobs")
			return got.Cause != protocol.CauseUnknown
		})
		if got.Cause != cause {
			t.Errorf("the queue says %+v, expected %s", got, cause)
		}
		return got
	}
	said(protocol.CauseNoWorkers)
	other.send("other.jobs.pop.min", `{"expires":60000000000,"max":4}`)
	testenv.Await(t, "the pop waits", func() bool { return object[protocol.Info](c, "other.jobs.info", "").Waiting == 1 })
	passed.Store(int64(time.Hour)) // so it waits, and has not asked lately
	if got := said(protocol.CauseBand); got.Waiting != 1 || !slices.Equal(got.Bands, []string{"..4"}) {
		t.Errorf("a pop waits for another band, elsewhere: %+v", got)
	}
	other.pop("other.jobs.pop.min", `{"max":5,"lease":60000000000}`)
	c.push("pq.jobs.push.5", "y")
	said(protocol.CauseFlows) // for somebody has asked lately, elsewhere
	if got := object[protocol.Info](c, "pq.jobs.info", `{"local":true}`).Explain; got.Cause != protocol.CauseUnknown {
		t.Errorf("a bridge alone says %+v, expected that it does not know", got)
	}
	c.push("pq.mails.push", "x")
	bridge.Deaf(second)
	if got := c.explain("mails"); got.Cause != protocol.CauseUnknown {
		t.Errorf("a bridge does not answer: %+v", got)
	}
	c.push("pq.mails-dead.push", "x")
	if got := c.explain("mails-dead"); got.Cause != protocol.CauseDeadLetters {
		t.Errorf("dead letters need no other bridge: %+v", got)
	}
}

// What bridges tell each other of a queue is nothing that another tenant has in a queue of the same name.
func TestExplainOfTenants(t *testing.T) {
	t.Parallel()
	db := placed(t)
	quotas := func(string) bridge.Quotas { return bridge.Quotas{} }
	c := serveOn(t, db, bridge.Options{Tenants: quotas})
	nc := c.env.NATS.Connect(t, bridge.ConnectOptions(nil)...)
	second, err := bridge.Start(t.Context(), nc, testenv.OpenStore(t, db, fdbpq.Options{}), bridge.Options{Prefix: "other", Tenants: quotas})
	if err != nil {
		t.Fatal(err)
	}
	defer c.drain(second)
	c.push("pq.ann.jobs.push.5", "x")
	c.push("pq.bob.jobs.push.5", "x")
	c.another().send("other.ann.jobs.pop.min", `{"expires":60000000000,"max":4}`)
	testenv.Await(t, "the pop waits", func() bool { return object[protocol.Info](c, "other.ann.jobs.info", "").Waiting == 1 })
	for tenant, want := range map[string]protocol.Explain{
		"ann": {Cause: protocol.CauseBand, Waiting: 1, Bands: []string{"..4"}},
		"bob": {Cause: protocol.CauseNoWorkers},
	} {
		var got protocol.Explain
		testenv.Await(t, "the other bridge says it in time", func() bool {
			got = c.explain(tenant + ".jobs")
			return got.Cause != protocol.CauseUnknown
		})
		if got.Cause != want.Cause || got.Waiting != want.Waiting || !slices.Equal(got.Bands, want.Bands) {
			t.Errorf("%s has %+v, expected %+v", tenant, got, want)
		}
	}
}
