package bridge_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// withTenants serves tenants that have quotas.
func withTenants(t *testing.T, quotas bridge.Quotas) *client {
	t.Helper()
	return serve(t, bridge.Options{Exclusive: true, Tenants: func(string) bridge.Quotas { return quotas }})
}

// rate is how many requests a second each tenant may send, by a clock that a test moves.
type rate struct{ requests, passed atomic.Int64 }

// withRate serves tenants that have a rate.
func withRate(t *testing.T) (*client, *rate) {
	t.Helper()
	r, began := &rate{}, time.Now()
	now := func() time.Time { return began.Add(time.Duration(r.passed.Load())) }
	return serve(t, bridge.Rated(bridge.Options{Exclusive: true,
		Tenants: func(string) bridge.Quotas { return bridge.Quotas{Requests: r.requests.Load()} }}, now)), r
}

// becomes sets the rate, and has each tenant not asked for anything for long.
func (r *rate) becomes(requests int64) {
	r.requests.Store(requests)
	r.passed.Add(int64(time.Hour))
}

// tenantInfo is the part of _sys.info that a tenant sees about itself.
func (c *client) tenantInfo(tenant string) *protocol.Tenant {
	c.Helper()
	var system protocol.System
	m := c.ask("pq."+tenant+"._sys.info", "")
	if err := json.Unmarshal(m.Data, &system); err != nil || system.Tenant == nil {
		c.Fatalf("%s: %v", m.Data, err)
	}
	if system.StoreID != "" || system.Store != "" || system.Cluster != nil || system.Prefix != "pq."+tenant {
		c.Errorf("a tenant sees %+v", system)
	}
	return system.Tenant
}

// names are the queues that a list shows.
func (c *client) names(subject, body string) []string {
	c.Helper()
	var page protocol.QueuesPage
	if m := c.ask(subject, body); json.Unmarshal(m.Data, &page) != nil || m.Header.Get("Status") != "" {
		c.Fatalf("%s: %v %s", subject, m.Header, m.Data)
	}
	return page.Queues
}

// Each tenant has queues of its own, by any name, and sees no others.
func TestTenants(t *testing.T) {
	t.Parallel()
	c := withTenants(t, bridge.Quotas{})
	for _, tenant := range []string{"acme", "acme-2", "b"} {
		if ack := c.push("pq."+tenant+".jobs.push.3", tenant, "Nats-Msg-Id", "1", "PQ-Unique", "u", "Nats-Expected-Stream", "jobs"); ack.Stream != "jobs" || ack.Duplicate {
			t.Errorf("%s pushes: %+v", tenant, ack)
		}
	}
	c.push("pq.acme.more.push", "x")
	if got := c.names("pq._sys.list", ""); !slices.Equal(got, []string{"acme-2.jobs", "acme.jobs", "acme.more", "b.jobs"}) {
		t.Errorf("the operator sees %q", got)
	}
	for body, want := range map[string]string{
		"": "jobs more", `{"after":""}`: "jobs more", `{"after":"jobs"}`: "more", `{"prefix":"jo"}`: "jobs", `{"prefix":"jobs"}`: "jobs", `{"after":"more"}`: "",
		`{"after":"","limit":1}`: "jobs", `{"prefix":"acme.jobs"}`: "",
	} {
		if got := strings.Join(c.names("pq.acme._sys.list", body), " "); got != want {
			t.Errorf("%s: acme sees %q, expected %q", body, got, want)
		}
	}
	if m := c.ask("pq.b._sys.list", ""); !strings.Contains(string(m.Data), `"total":1,`) {
		t.Errorf("b sees %s", m.Data)
	}
	if got := c.names("pq.nobody._sys.list", ""); len(got) != 0 {
		t.Errorf("a tenant without queues sees %q", got)
	}
	for _, tenant := range []string{"b", "acme", "acme-2"} {
		item := c.pop("pq."+tenant+".jobs.pop.min", "", "PQ-Lease", "1m")
		if ack := item.Header.Get("PQ-Ack"); string(item.Data) != tenant || !strings.HasPrefix(ack, "pq."+tenant+".jobs.ack.") || ack != item.Reply {
			t.Errorf("%s popped %q, settled by %q and %q", tenant, item.Data, ack, item.Reply)
		}
		if m := c.ask("pq."+tenant+".jobs.info", ""); !strings.Contains(string(m.Data), `"queue":"jobs","ready":0,"leased":1,`) {
			t.Errorf("%s", m.Data)
		}
	}
	if got := c.tenantInfo("acme"); got.Name != "acme" || got.Queues != 2 || got.Items != 2 || got.Bytes != 5+2*512+256 { // with their rows, and an id
		t.Errorf("acme has %+v", got)
	}
	if m := c.ask("pq.acme._sys.info", `{"history":true}`); strings.Contains(string(m.Data), "history") {
		t.Errorf("a tenant sees what all do: %s", m.Data)
	}
}

// No request of one tenant has an effect on another one's queue.
func TestTenantsAreApart(t *testing.T) {
	t.Parallel()
	c := withTenants(t, bridge.Quotas{})
	heard := c.hear("pq.*.*.event.*")
	id := c.push("pq.b.jobs.push.3", "b's").ID
	c.push("pq.a.jobs.push.3", "a's")
	lease := c.pop("pq.b.jobs.pop.min", "", "PQ-Lease", "1h")
	token := strings.TrimPrefix(lease.Reply, "pq.b.jobs.")
	c.ask("pq.b.jobs.admin.config", `{"hand_over":"*","dead_letters_from":"*"}`)
	for _, word := range []string{"+ACK", "-NAK", "+TERM", "+WPI", "+NXT"} {
		if m := c.raw("pq.a.jobs."+token, word); m.Header.Get("Nats-Service-Error-Code") != "400" {
			t.Errorf("a settles b's lease with %s: %v", word, m.Header)
		}
	}
	c.ask("pq.a.jobs.ack.bundle.settle", lease.Reply+" +ACK", "PQ-Bundle", "1")
	if m := c.refused(c.ask("pq.a.jobs.push", "x", "PQ-Settle", lease.Reply), 403); !strings.Contains(m.Header.Get("Nats-Service-Error"), "another tenant's, and stays there") || strings.Contains(m.Header.Get("Nats-Service-Error"), "config") {
		t.Errorf("a hand-over across tenants: %v", m.Header)
	}
	c.refused(c.ask("pq.a.jobs.push", "x", "PQ-Settle", "pq.a.jobs."+token), 400)
	for verb, code := range map[string]int{"get." + id: 404, "remove." + id: 404, "move." + id + ".1": 404, "requeue." + id: 404, "revoke." + id: 404} {
		c.refused(c.ask("pq.a.jobs."+verb, ""), code)
	}
	// A name is one of the tenant's own queues, however it is written.
	for _, name := range []string{"b.jobs", "../b.jobs", "b/jobs", ".b.jobs"} {
		for _, field := range []string{"dead_letter", "dead_letters_from", "hand_over"} {
			c.refused(c.ask("pq.a.jobs.admin.config", fmt.Sprintf("{%q:%q}", field, name)), 400)
		}
		c.refused(c.ask("pq.a.jobs.requeue."+id, fmt.Sprintf(`{"to":%q}`, name)), 400)
		c.refused(c.ask("pq.a.jobs-dead.admin.requeue", fmt.Sprintf(`{"all":true,"to":%q}`, name)), 400)
	}
	c.refused(c.ask("pq.a.more.admin.config", `{"dead_letter":"jobs"}`), 400) // b's jobs accepts the dead letters of all queues, a's does not
	// An import says which queue a dead letter comes from, by the tenant's own name for it.
	c.refused(c.ask("pq.a.jobs-dead.import", "dead", "PQ-Id", id, "PQ-Dead-Reason", "x", "PQ-Origin", "b.jobs", "PQ-Origin-Id", "1"), 400)
	letter := fdbpq.Import{Priority: 3, Pushed: time.Now(), Unique: "letter", Dead: &fdbpq.DeadLetter{Reason: "x", Origin: "b.jobs", OriginID: "1"}}
	var elsewhere []fdbpq.Imported
	session := c.env.Store.Session() // of a program without a bridge
	defer session.Release()
	if err := session.Update(t.Context(), func(tx kv.Tx) (err error) {
		elsewhere, err = c.env.Store.Queue("a.jobs-dead").Import(tx, letter)
		return err
	}); err != nil || elsewhere[0].Err != nil {
		t.Fatal(err, elsewhere)
	}
	c.refused(c.ask("pq.a.jobs-dead.requeue."+elsewhere[0].ID.String(), ""), 403)
	for _, subject := range []string{"pq.a._sys.cluster.status", "pq.a._sys.cluster.step-down", "pq.a._sys.cluster.replace", "pq.a.b.jobs.push", "pq.*.jobs.push", "pq.jobs.push", "pq._sys._sys.list", "pq._b.jobs.push", "pq.a._b.push"} {
		if m := c.raw(subject, ""); m.Header.Get("Nats-Service-Error-Code") != "400" && !strings.Contains(string(m.Data), `"code":400`) {
			t.Errorf("%s: %v %s", subject, m.Header, m.Data)
		}
	}
	for _, verb := range []string{"admin.purge", "admin.pause", "admin.delete"} {
		if c.ask("pq.a.jobs."+verb, ""); verb == "admin.pause" {
			continue
		}
		if m := c.next(heard); m.Subject != "pq.a.jobs.event.purged" || !strings.Contains(string(m.Data), `"queue":"jobs"`) {
			t.Errorf("%s tells %s %s", verb, m.Subject, m.Data)
		}
	}
	if m := c.ask("pq.b.jobs.info", ""); !strings.Contains(string(m.Data), `"ready":0,"leased":1,`) || !strings.Contains(string(m.Data), `"paused":false`) {
		t.Errorf("the queue of b: %s", m.Data)
	}
	// Dead letters stay with their tenant, and go back there.
	c.ask(lease.Reply, "+TERM broken")
	if m := c.next(heard); m.Subject != "pq.b.jobs.event.dead" || !strings.Contains(string(m.Data), `"queue":"jobs",`) || !strings.Contains(string(m.Data), `"dead_letter":"jobs-dead"`) {
		t.Errorf("%s %s", m.Subject, m.Data)
	}
	dead := c.ask("pq.b.jobs-dead.peek.min", "")
	if dead.Header.Get("PQ-Origin") != "jobs" {
		t.Errorf("the dead letter: %v", dead.Header)
	}
	if ack := c.acknowledged(c.ask("pq.b.jobs-dead.requeue."+dead.Header.Get("PQ-Id"), "")); ack.Stream != "jobs" {
		t.Errorf("requeued: %+v", ack)
	}
	if got := c.names("pq.b._sys.list", ""); !slices.Equal(got, []string{"jobs", "jobs-dead"}) {
		t.Errorf("b has %q", got)
	}
}

// A tenant beyond a quota is refused, for a reason of its own, and others are not.
func TestQuotas(t *testing.T) {
	t.Parallel()
	c := serve(t, bridge.Options{Exclusive: true, Tenants: func(tenant string) bridge.Quotas {
		return map[string]bridge.Quotas{"queues": {Queues: 2}, "items": {Items: 3}, "bytes": {Bytes: 5000 + 512}}[tenant]
	}})
	for _, queue := range []string{"a", "b"} {
		c.push("pq.queues."+queue+".push", "x")
	}
	for verb, body := range map[string]string{"c.push": "x", "c-dead.push": "x", "c.admin.config": "{}", "c.admin.key.k": `{"limit":1}`, "c.admin.schedule.s": `{"every":"1h"}`} {
		c.refused(c.ask("pq.queues."+verb, body), 429, "quota_queues")
	}
	c.push("pq.queues.a.push", "x")
	c.accepted(c.raw(c.pop("pq.queues.a.pop.min", "", "PQ-Lease", "1h").Reply, "+TERM")) // a queue counts with its dead-letter queue
	c.push("pq.queues.b-dead.push", "x")
	if m := c.pop("pq.queues.a-dead.pop.min", ""); string(m.Data) != "x" {
		t.Errorf("the dead letter is %q", m.Data)
	}
	if m := c.raw(c.pop("pq.queues.b-dead.pop.min", "", "PQ-Lease", "1h").Reply, "+TERM"); m.Header.Get("Nats-Service-Error-Code") != "403" || !strings.Contains(m.Header.Get("Nats-Service-Error"), `"b-dead-dead"`) {
		t.Errorf("the dead letter of a dead-letter queue: %v", m.Header)
	}
	c.refused(c.ask("pq.queues.b-dead-dead.push", "x"), 429, "quota_queues")
	testenv.Await(c, "the tenant sees two queues", func() bool { return c.tenantInfo("queues").Queues == 2 })
	c.ask("pq.queues.b.admin.delete", "")
	c.refused(c.ask("pq.queues.c.push", "x"), 429, "quota_queues")
	c.push("pq.queues.b.push", "x")
	c.ask("pq.queues.b.admin.delete", "")
	c.ask("pq.queues.b-dead.admin.delete", "")
	c.eventuallyServed("pq.queues.c.push", "x")

	c.push("pq.items.a.push", "x")
	c.push("pq.items.b.push", "x")
	c.push("pq.items.a.push", "third", "Nats-Msg-Id", "3")
	c.refused(c.ask("pq.items.b.push", "x"), 429, "quota_items")
	c.refused(c.ask("pq.items.b.import", "x", "PQ-Unique", "u"), 429, "quota_items")
	if ack := c.push("pq.items.a.push", "third", "Nats-Msg-Id", "3"); !ack.Duplicate {
		t.Error("a push that is repeated beyond the quota adds an item")
	}
	c.pop("pq.items.a.pop.min", "")
	c.eventuallyServed("pq.items.b.push", "x")

	c.refused(c.ask("pq.bytes.a.push", strings.Repeat("x", 5001)), 429, "quota_bytes")
	c.refused(c.ask("pq.bytes.a.import", "", "PQ-Unique", "u", "X", strings.Repeat("x", 5001)), 429, "quota_bytes")
	c.push("pq.bytes.a.push", strings.Repeat("x", 5000)) // names of subjects do not count
	c.push("pq.other.a.push", strings.Repeat("x", 5001))
	if got := c.tenantInfo("items"); got.Quotas != (protocol.Quotas{Items: 3}) {
		t.Errorf("the tenant sees %+v", got)
	}
}

// Items without content take room, too, however they come: bytes alone bound how many there are.
func TestQuotaOfEmptyItems(t *testing.T) {
	t.Parallel()
	c := withTenants(t, bridge.Quotas{Bytes: 4 * 512})
	c.push("pq.t.a.push", "")
	c.acknowledged(c.ask("pq.t.b.push", frames(2, ofKeys(2), ""), "PQ-Bundle", "2"))
	c.refused(c.ask("pq.t.b.push", frames(2, nil, ""), "PQ-Bundle", "2"), 429, "quota_bytes")
	c.acknowledged(c.ask("pq.t.c.import", "", "PQ-Unique", "u"))
	c.refused(c.ask("pq.t.a.push", ""), 429, "quota_bytes")
	c.refused(c.ask("pq.t.c.import", "", "PQ-Unique", "v"), 429, "quota_bytes")
	testenv.Await(t, "their rows are counted", func() bool { return c.tenantInfo("t").Bytes == 4*512 })
	c.pop("pq.t.a.pop.min", "")
	c.eventuallyServed("pq.t.a.push", "")
}

// An item is admitted with all that it takes, by whatever it comes: its unique value, its key, its attempts, its death and its id.
func TestQuotaOfLongTexts(t *testing.T) {
	t.Parallel()
	long := func(i int) string { return strings.Repeat("u", 1000) + fmt.Sprint(i) }
	var attempts []string
	for i := range 10 {
		attempts = append(attempts, fmt.Sprintf(`{"n":%d,"end":"2026-01-01T00:00:00Z","outcome":"nak","reason":%q}`, i+1, strings.Repeat("r", 200)))
	}
	for name, item := range map[string]struct {
		verb   string
		header func(i int) []string
	}{
		"unique values": {"push", func(i int) []string { return []string{"PQ-Unique", long(i)} }},
		"keys": {"push", func(i int) []string {
			return []string{"PQ-Unique", strings.Repeat("u", 300) + fmt.Sprint(i), "PQ-Key", strings.Repeat("k", 128)}
		}},
		"ids":                      {"push", func(i int) []string { return []string{"Nats-Msg-Id", fmt.Sprint(i)} }},
		"unique values of imports": {"import", func(i int) []string { return []string{"PQ-Unique", long(i)} }},
		"keys of imports": {"import", func(i int) []string {
			return []string{"PQ-Unique", strings.Repeat("u", 300) + fmt.Sprint(i), "PQ-Key", strings.Repeat("k", 128)}
		}},
		"attempts of imports": {"import", func(i int) []string {
			return []string{"PQ-Unique", fmt.Sprint(i), "PQ-Attempts", "[" + strings.Join(attempts, ",") + "]"}
		}},
		"dead letters that come in": {"import", func(i int) []string {
			return []string{"PQ-Unique", fmt.Sprint(i), "PQ-Dead-Reason", strings.Repeat("d", 200), "PQ-Key", strings.Repeat("k", 128)}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const fit = 5
			var quota atomic.Int64
			c := serve(t, bridge.Options{Exclusive: true, Tenants: func(tenant string) bridge.Quotas {
				if tenant == "t" {
					return bridge.Quotas{Bytes: quota.Load()}
				}
				return bridge.Quotas{}
			}})
			c.acknowledged(c.ask("pq.sample.q."+item.verb, "x", item.header(0)...))
			testenv.Await(t, "the item is counted", func() bool { quota.Store(fit * c.tenantInfo("sample").Bytes); return quota.Load() > fit*(512+1) })
			for i := range fit + 3 {
				m := c.ask("pq.t.q."+item.verb, "x", item.header(i)...)
				if i < fit {
					c.acknowledged(m)
				} else {
					c.refused(m, 429, "quota_bytes")
				}
			}
			testenv.Await(t, "they are counted", func() bool { return c.tenantInfo("t").Bytes == quota.Load() })
		})
	}
}

// Items of a tenant without bytes left remember no attempts that take more.
func TestQuotaOfAttempts(t *testing.T) {
	t.Parallel()
	c := withTenants(t, bridge.Quotas{Bytes: 2 * 512})
	c.ask("pq.t.a.admin.config", `{"max_deliveries":0}`)
	c.push("pq.t.a.push", "")
	c.eventuallyServed("pq.t.a.push", "")
	testenv.Await(t, "the tenant is full", func() bool { return c.tenantInfo("t").Bytes == 2*512 })
	for range 10 {
		c.accepted(c.raw(c.pop("pq.t.a.pop.min", "", "PQ-Lease", "1h").Reply, `-NAK {"delay":0,"reason":"`+strings.Repeat("r", 200)+`"}`))
	}
	c.refused(c.ask("pq.t.a.push", ""), 429, "quota_bytes")
	testenv.Await(t, "it has no more", func() bool { return c.tenantInfo("t").Bytes == 2*512 })
	item := c.ask("pq.t.a.get."+c.pop("pq.t.a.pop.min", "", "PQ-Lease", "1h").Header.Get("PQ-Id"), "")
	if n, err := strconv.Atoi(item.Header.Get("PQ-Attempts")); err != nil || n < 1 || n > 3 {
		t.Errorf("the item remembers %d attempts: %v", n, item.Header)
	}
}

// eventuallyServed asks until what a tenant has is counted again.
func (c *client) eventuallyServed(subject, body string) {
	c.Helper()
	testenv.Await(c, subject, func() bool { return c.ask(subject, body).Header.Get("PQ-Reason") == "" })
}

// What a tenant has is known to a bridge that was not there when it came.
func TestQuotasOutliveBridges(t *testing.T) {
	t.Parallel()
	c := withTenants(t, bridge.Quotas{Items: 2})
	c.push("pq.t.a.push", "x")
	c.push("pq.t.b.push", "x")
	if err := c.env.Bridge.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	next, err := bridge.Start(t.Context(), c.env.NATS.Connect(t), c.env.Store,
		bridge.Options{Exclusive: true, Tenants: func(string) bridge.Quotas { return bridge.Quotas{Items: 2} }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { next.Drain(t.Context()) })
	c.refused(c.ask("pq.t.a.push", "x"), 429, "quota_items")
}

// Of the pops of a tenant so many wait, at all its queues together.
func TestQuotaOfWaitingPops(t *testing.T) {
	t.Parallel()
	c := withTenants(t, bridge.Quotas{Waiting: 2})
	for _, queue := range []string{"a", "b"} {
		c.push("pq.t."+queue+".push", "x")
		c.pop("pq.t."+queue+".pop.min", "")
		c.send("pq.t."+queue+".pop.min", "", "PQ-Wait", forever)
		testenv.Await(c, "the pop waits", func() bool { return strings.Contains(string(c.ask("pq.t."+queue+".info", "").Data), `"waiting":1`) })
	}
	c.refused(c.ask("pq.t.a.pop.min", "", "PQ-Wait", forever), 429, "quota_waiting")
	other := c.send("pq.other.a.pop.min", "", "PQ-Wait", forever)
	c.push("pq.other.a.push", "x")
	if m := c.next(other); string(m.Data) != "x" {
		t.Errorf("the other tenant's pop: %v", m.Header)
	}
	c.push("pq.t.a.push", "x")
	last := c.send("pq.t.a.pop.min", "", "PQ-Wait", "1s")
	if m := c.next(last); m.Header.Get("PQ-Reason") == "quota_waiting" {
		t.Error("a pop that was served keeps its place")
	}
}

// Requests beyond the rate are refused; the requests of other tenants are served.
func TestQuotaOfRequests(t *testing.T) {
	t.Parallel()
	c, rate := withRate(t)
	rate.becomes(5)
	refused, asked := 0, c.listen()
	for range 50 {
		c.sendOn(asked, "pq.t.a.info", "")
	}
	for range 50 {
		if m := c.next(asked); m.Header.Get("PQ-Reason") == "quota_requests" {
			refused++
		}
	}
	if refused != 45 {
		t.Errorf("%d of 50 requests within a second were refused, expected 45", refused)
	}
	c.push("pq.other.a.push", "x")
	rate.becomes(5)
	// A bundle counts as its items.
	if m := c.ask("pq.t.b.push", strings.Repeat("0 1\nx\n", 100), "PQ-Bundle", "100"); m.Header.Get("Nats-Service-Error") != "" {
		t.Errorf("a bundle while there are requests: %v", m.Header)
	}
	rate.passed.Add(int64(19 * time.Second)) // it has taken the tokens of twenty
	c.refused(c.ask("pq.t.b.info", ""), 429, "quota_requests")
	rate.passed.Add(int64(2 * time.Second))
	if m := c.ask("pq.t.b.info", ""); m.Header.Get("PQ-Reason") != "" {
		t.Errorf("21 seconds later: %v", m.Header)
	}
}

// What a tenant asks for at once, and what it costs, is known one by one: many lists and large pops, at any of its queues, cost no more
// than it has requests, and the others are refused. Messages cost by their bytes, too.
func TestQuotaOfLargeRequests(t *testing.T) {
	t.Parallel()
	c, rate := withRate(t)
	const queues = 20
	for _, tenant := range []string{"lists", "pops"} {
		for i := range queues {
			if m := c.ask(fmt.Sprintf("pq.%s.q%d.push", tenant, i), strings.Repeat("0 100\n"+strings.Repeat("x", 100)+"\n", 500), "PQ-Bundle", "500"); m.Header.Get("Nats-Service-Error") != "" {
				t.Fatal(m.Header)
			}
		}
	}
	rate.becomes(100)
	for tenant, ask := range map[string]func(i int) answers{
		"lists": func(i int) answers { return c.send(fmt.Sprintf("pq.lists.q%d.list", i), `{"limit":500,"bodies":true}`) },
		"pops":  func(i int) answers { return c.send(fmt.Sprintf("pq.pops.q%d.pop.min", i), "500") },
	} {
		var all []answers
		for i := range queues {
			all = append(all, ask(i))
		}
		served := 0
		for _, one := range all {
			if c.next(one).Header.Get("PQ-Reason") != "quota_requests" {
				served++
			}
		}
		if served == 0 || served > 5 {
			t.Errorf("%s: %d were served at once", tenant, served)
		}
	}
	large, next := c.send("pq.bytes.q.push", strings.Repeat("x", 500<<10)), c.send("pq.bytes.q.push", "x")
	c.acknowledged(c.next(large))
	c.refused(c.next(next), 429, "quota_requests")
}

// Bytes of popped items, and what a bulk operation changes, are requests, too.
func TestQuotaOfWhatWasDone(t *testing.T) {
	t.Parallel()
	c, rate := withRate(t)
	c.push("pq.bytes.q.push", strings.Repeat("x", 500<<10))
	for range 50 {
		c.push("pq.bulk.q.push.1", "x")
	}
	rate.becomes(40)
	for subject, body := range map[string]string{"pq.bytes.q.pop.min": "", "pq.bulk.q.admin.move": `{"all":true,"priority":2}`} {
		if m := c.ask(subject, body); m.Header.Get("PQ-Reason") != "" {
			t.Errorf("%s while there are requests: %v", subject, m.Header)
		}
		info := strings.Join(strings.Split(subject, ".")[:3], ".") + ".info"
		last := c.ask(info, "")
		for range 30 { // it is charged a moment after its answer, and these alone are within the quota
			if last.Header.Get("PQ-Reason") == "" {
				last = c.ask(info, "")
			}
		}
		c.refused(last, 429, "quota_requests")
	}
}

// oftenRun is a schedule of which each run adds an item.
const oftenRun = `{"spec":"@yearly","overlap":"allow","item":{"payload":%q}}`

// What schedules push counts against the quotas, and so do the items that they keep.
func TestQuotasOfSchedules(t *testing.T) {
	t.Parallel()
	c := serve(t, bridge.Options{Exclusive: true, Tenants: func(tenant string) bridge.Quotas {
		return map[string]bridge.Quotas{"items": {Items: 3}, "bytes": {Bytes: 5000 + 512}}[tenant]
	}})
	c.ask("pq.items.q.admin.schedule.s", fmt.Sprintf(oftenRun, "x"))
	for range 3 {
		c.acknowledged(c.ask("pq.items.q.admin.schedule.s.run", ""))
	}
	c.refused(c.ask("pq.items.q.admin.schedule.s.run", ""), 429, "quota_items")
	if i := c.info("items.q"); i.Ready != 3 {
		t.Errorf("the queue has %d items", i.Ready)
	}

	c.ask("pq.bytes.q.admin.schedule.s", fmt.Sprintf(oftenRun, strings.Repeat("x", 3000)))
	c.refused(c.ask("pq.bytes.q.admin.schedule.s.run", ""), 429, "quota_bytes") // 3000 of the schedule, and 3000 of the item
	c.refused(c.ask("pq.bytes.q.admin.schedule.s", fmt.Sprintf(oftenRun, strings.Repeat("x", 5001))), 429, "quota_bytes")
	c.refused(c.ask("pq.bytes.q.admin.schedule.more", fmt.Sprintf(oftenRun, strings.Repeat("x", 3000))), 429, "quota_bytes")
	if s := object[protocol.Schedule](c, "pq.bytes.q.admin.schedule.s", `{"catch_up":"2h"}`); len(*s.Item.Payload) != 3000 {
		t.Errorf("a change that was refused has changed %+v", s)
	}
	testenv.Await(t, "the bytes of schedules are counted", func() bool { return c.tenantInfo("bytes").Bytes == 3000+512 })
}

// What is no item counts, too: schedules without content, settings of keys, ids of pushes and of pops. What is deleted, and what
// drops a setting, is never refused.
func TestQuotaOfWhatIsNoItem(t *testing.T) {
	t.Parallel()
	c := serve(t, bridge.Options{Exclusive: true, Tenants: func(tenant string) bridge.Quotas {
		if tenant == "ids" {
			return bridge.Quotas{Bytes: 7 * (512 + 256)} // each of an item
		}
		return bridge.Quotas{Bytes: 2000}
	}})
	const key = "pq.keys.q.admin.key.k"
	for i := range 7 {
		c.ask(fmt.Sprint(key, i), `{"limit":1}`)
	}
	c.refused(c.ask(key+"7", `{"limit":1}`), 429, "quota_bytes")
	c.ask(key+"7", `{"limit":null}`)
	c.ask(key+"6", `{"weight":2}`) // it has settings

	for i := range 3 {
		c.ask(fmt.Sprint("pq.schedules.q.admin.schedule.s", i), `{"spec":"@yearly"}`)
	}
	c.refused(c.ask("pq.schedules.q.admin.schedule.s3", `{"spec":"@yearly"}`), 429, "quota_bytes")
	c.ask("pq.schedules.q.admin.schedule.s0.delete", "")

	for i := range 7 {
		c.push("pq.ids.q.push", "", "Nats-Msg-Id", fmt.Sprint(i))
	}
	c.refused(c.ask("pq.ids.q.push", "", "Nats-Msg-Id", "7"), 429, "quota_bytes")
	c.pop("pq.ids.q.pop.min", "", "Nats-Msg-Id", "pop")

	large := strings.Repeat("x", 1400)
	c.push("pq.answers.q.push", large)
	c.pop("pq.answers.q.pop.min", "", "Nats-Msg-Id", "pop")

	testenv.Await(t, "the settings are counted", func() bool { return c.tenantInfo("keys").Bytes == 7*256 })
	for i := range 7 {
		c.ask(fmt.Sprint(key, i), `{"limit":null,"weight":null}`)
	}
	c.eventuallyServed("pq.schedules.q.admin.schedule.s3", `{"spec":"@yearly"}`)
	testenv.Await(t, "the ids are counted", func() bool { return c.tenantInfo("ids").Bytes == 6*512+8*256 })
	c.refused(c.ask("pq.ids.q.push", "x"), 429, "quota_bytes")
	testenv.Await(t, "the answer is counted", func() bool { return c.tenantInfo("answers").Bytes == 1400 })
	c.refused(c.ask("pq.answers.q.push", large), 429, "quota_bytes")
	testenv.Await(t, "nothing is set", func() bool { return c.tenantInfo("keys").Bytes == 0 })
}

// The item that a run pushes costs what a push of it would.
func TestQuotaOfRuns(t *testing.T) {
	t.Parallel()
	c, rate := withRate(t)
	c.ask("pq.t.q.admin.schedule.s", fmt.Sprintf(oftenRun, strings.Repeat("x", 60_000)))
	rate.becomes(5)
	c.ask("pq.t.q.info", "") // the answer to the change, with the item, is paid for
	rate.becomes(5)
	if m := c.ask("pq.t.q.admin.schedule.s.run", ""); m.Header.Get("PQ-Reason") != "" {
		t.Errorf("a run while there are requests: %v", m.Header)
	}
	rate.passed.Add(int64(2 * time.Second)) // it has cost the tokens of three
	c.refused(c.ask("pq.t.q.info", ""), 429, "quota_requests")
}

// Items of schedules that fire cost requests. When none are left, schedules wait as if the queue was full.
func TestQuotaOfFiring(t *testing.T) {
	t.Parallel()
	c := withTenants(t, bridge.Quotas{Requests: 100})
	item := &schedule.Item{Payload: make([]byte, 60_000)}
	name := func(i int) string { return fmt.Sprint("s", i) }
	const schedules = 20 // each costs 15 requests a second
	c.inStore(func(tx kv.Tx) error {
		for i := range schedules {
			if _, err := schedule.New(c.env.Store).Set(tx, c.env.Store.Queue("t.q"), name(i), []byte(`{"spec":"@every 1s","overlap":"allow"}`), item); err != nil {
				return err
			}
		}
		return nil
	})
	fired := int64(0)
	testenv.Await(t, "schedules wait for requests", func() (waits bool) {
		c.inStore(func(tx kv.Tx) error {
			fired = 0
			for i := range schedules {
				s, _, err := schedule.New(c.env.Store).Get(tx, c.env.Store.Queue("t.q"), name(i), 0)
				if err != nil {
					return err
				}
				waits, fired = waits || s.Full, fired+s.Fired
			}
			return nil
		})
		return waits
	})
	if fired == 0 {
		t.Error("no schedule fired while there were requests")
	}
}

// inStore changes the store beside the bridge.
func (c *client) inStore(fn func(kv.Tx) error) {
	c.Helper()
	session := c.env.Store.Session()
	defer session.Release()
	if err := session.Update(c.Context(), fn); err != nil {
		c.Fatal(err)
	}
}

// What is malformed costs a request, too, whatever is wrong with it: the answers to it are work.
func TestQuotaOfMalformedRequests(t *testing.T) {
	t.Parallel()
	c, rate := withRate(t)
	rate.becomes(1)
	const sent = 10
	all := make(map[string][]answers)
	for tenant, send := range map[string]func(tenant string) answers{
		"verbs":   func(tenant string) answers { return c.send("pq."+tenant+".q.nonsense", "") },
		"pushes":  func(tenant string) answers { return c.send("pq."+tenant+".q.push.high", "x") },
		"queues":  func(tenant string) answers { return c.send("pq."+tenant+"._q.push", "x") },
		"nodes":   func(tenant string) answers { return c.send("pq."+tenant+"._sys.cluster.status", "") },
		"events":  func(tenant string) answers { return c.send("pq."+tenant+".q.event.dead", "") },
		"headers": func(tenant string) answers { return c.send("pq."+tenant+".q.info", "", "A", "b\x00c") },
		"many": func(tenant string) answers {
			return c.send("pq."+tenant+".q.info", "", "A", strings.Repeat("x", 70_000))
		},
		"arguments": func(tenant string) answers { return c.send("pq."+tenant+".q.info", "nonsense") },
	} {
		for range sent {
			all[tenant] = append(all[tenant], send(tenant))
		}
	}
	for tenant, asked := range all {
		late := 0
		for _, one := range asked {
			m := c.next(one)
			if m.Header.Get("Nats-Service-Error-Code") == "" {
				t.Errorf("%s: %v %s", tenant, m.Header, m.Data)
			}
			if m.Header.Get("PQ-Reason") == "quota_requests" {
				late++
			}
		}
		if late != sent-1 {
			t.Errorf("%s: of %d at once, %d were beyond the rate of one", tenant, sent, late)
		}
	}
	c.refused(c.ask("pq._t.q.push", ""), 400) // is no tenant
}
