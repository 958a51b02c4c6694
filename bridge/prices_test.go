package bridge_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// frames are the items of a bundle, each with such headers.
func frames(n int, header func(i int) string, payload string) string {
	var b strings.Builder
	for i := range n {
		h := ""
		if header != nil {
			h = header(i)
		}
		fmt.Fprintf(&b, "%d %d\n%s%s\n", len(h), len(payload), h, payload)
	}
	return b.String()
}

// fillBundles pushes items to a queue of a tenant.
func (c *client) fillBundles(queue string, n int, header func(i int) string, payload string) {
	c.Helper()
	for ; n > 0; n -= 1000 {
		some := min(n, 1000)
		c.acknowledged(c.ask(queue+".push", frames(some, header, payload), "PQ-Bundle", fmt.Sprint(some)))
	}
}

func ofKeys(n int) func(i int) string {
	return func(i int) string { return fmt.Sprintf("PQ-Key: k%d\n", i%n) }
}

// charged is what a request, and all that follows from it, costs a tenant. A look at it costs one itself.
func (c *client) charged(tenant string, do func()) int64 {
	before := c.tenantInfo(tenant).Charged
	do()
	return c.tenantInfo(tenant).Charged - before - 1
}

// What requests cost by the rows that they read. Ordinary ones cost one, or as much as their answers.
func TestPricesOfRows(t *testing.T) {
	t.Parallel()
	c := withTenants(t, bridge.Quotas{})
	c.fillBundles("pq.t.few", 60, nil, "x")
	c.fillBundles("pq.t.ahead", 2000, ofKeys(1), "x")
	behind := c.push("pq.t.ahead.push", "x", "PQ-Key", "k0").ID
	c.fillBundles("pq.t.leased", 1000, nil, "x")
	if n := len(c.batch(c.send("pq.t.leased.pop.min", "1000", "PQ-Lease", "1h", "PQ-Holder", "me"))); n != 1000 {
		t.Fatalf("%d items are leased", n)
	}
	c.fillBundles("pq.t.large", 40, nil, strings.Repeat("x", 20_000))
	large := c.push("pq.t.large.push", strings.Repeat("x", 20_000)).ID
	c.fillBundles("pq.t.bulk", 3000, nil, "x")
	one := c.push("pq.t.one.push", "x").ID
	result := c.push("pq.t.done.push", "x", "PQ-Result-TTL", "1h").ID
	c.ackEach([]string{c.pop("pq.t.done.pop.min", "", "PQ-Lease", "1h").Header.Get("PQ-Ack")}, strings.Repeat("x", 20_000))
	for name, test := range map[string]struct {
		subject, body string
		least, most   int64
	}{
		"a large item":                     {"large.get." + large, "", 5, 5},
		"a large result":                   {"done.result." + result, "", 5, 5},
		"an item":                          {"one.get." + one, `{"explain":true}`, 1, 1},
		"a queue":                          {"one.info", "", 1, 1},
		"a queue with leases":              {"leased.info", "", 1, 1},
		"the first items":                  {"few.list", `{"limit":5}`, 1, 1},
		"a page of items":                  {"few.list", "", 2, 3}, // by the bytes of the answer
		"the next item":                    {"one.peek.min", "", 1, 1},
		"a configuration":                  {"one.admin.config", `{"rate":"100/1s"}`, 1, 1},
		"an item behind 2000 of its key":   {"ahead.get." + behind, `{"explain":true}`, 10, 11},
		"the key of 2000 items":            {"ahead.key.k0", "", 10, 11},
		"leases of an unknown holder":      {"leased.list", `{"state":"leased","holder":"nobody"}`, 5, 8},
		"a bulk operation without a match": {"bulk.admin.remove", `{"where":{"deliveries":5}}`, 15, 25},
		"its dry run":                      {"bulk.admin.remove", `{"where":{"deliveries":5},"dry_run":true}`, 15, 25},
		"a page of large items":            {"large.list", `{"preview":1}`, 7, 12}, // and fewer without: their content need not be read
	} {
		if got := c.charged("t", func() {
			if m := c.ask("pq.t."+test.subject, test.body); m.Header.Get("Nats-Service-Error") != "" {
				t.Errorf("%s: %v", name, m.Header)
			}
		}); got < test.least || got > test.most {
			t.Errorf("%s costs %d requests, expected %d to %d", name, got, test.least, test.most)
		}
	}
}

// A change of the configuration costs what it does to the keys, later, too.
func TestPriceOfKeys(t *testing.T) {
	t.Parallel()
	c := withTenants(t, bridge.Quotas{})
	c.fillBundles("pq.t.keyed", 800, ofKeys(400), "x")
	before := c.tenantInfo("t").Charged
	c.ask("pq.t.keyed.admin.config", `{"key_limit":1}`)
	looks := int64(0)
	testenv.Await(c, "the sweeps are charged", func() bool { // 400 keys, and 64 of them with the change itself
		looks++
		return c.tenantInfo("t").Charged-before-looks >= 1+(64+400)/16
	})
}

// Pops that read a lot and find nothing cost as much, and so does what a queue does for pushes.
func TestPriceOfPops(t *testing.T) {
	t.Parallel()
	if !testenv.Engines()[0].Exclusive {
		t.Skip("where several bridges share the store, a sweep has done the work before the pop comes")
	}
	c := withTenants(t, bridge.Quotas{})
	c.ask("pq.t.keyed.admin.config", `{"key_limit":1}`)
	c.fillBundles("pq.t.keyed", 400, ofKeys(200), "x")
	c.batch(c.send("pq.t.keyed.pop.min", "200", "PQ-Lease", "1h"))
	bridge.EndMaintenance(c.env.Bridge) // its sweeps are charged whenever they come, and those of the test are not
	for _, order := range []string{"true", "false"} {
		c.ask("pq.t.keyed.admin.config", `{"key_order":`+order+`}`) // all keys get rows again
		for left := 1; left > 0; {
			swept, err := c.env.Store.Sweep(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			left = swept.Timers
		}
	}
	if got := c.charged("t", func() { c.refused(c.ask("pq.t.keyed.pop.min", "", "PQ-Lease", "1h"), 404) }); got < 2 {
		t.Errorf("a pop that looks at the keys of 200 items costs %d requests", got)
	}
}

// Of costly requests that come together, those are served that the tenant has requests for.
func TestOverdrawn(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"get.{id}", "admin.key.k0"} { // one reads, and one may change something
		c, rate := withRate(t)
		c.fillBundles("pq.t.ahead", 2000, ofKeys(1), "x")
		id := c.push("pq.t.ahead.push", "x", "PQ-Key", "k0").ID
		rate.becomes(40)
		var all []answers
		for range 40 {
			all = append(all, c.send("pq.t.ahead."+strings.Replace(verb, "{id}", id, 1), ""))
		}
		served := 0
		for _, one := range all {
			switch m := c.next(one); m.Header.Get("PQ-Reason") {
			case "":
				served++
			case string(protocol.ReasonQuotaRequests):
			default:
				t.Errorf("%s: %v", verb, m.Header)
			}
		}
		if served < 1 || served > 5 { // each costs ten requests
			t.Errorf("%s: %d were served", verb, served)
		}
		if m := c.ask("pq.other.q.info", ""); m.Header.Get("PQ-Reason") == string(protocol.ReasonQuotaRequests) {
			t.Errorf("%s: another tenant pays", verb)
		}
	}
}
