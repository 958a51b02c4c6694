package performance_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

var (
	tenantsFor  = flag.Duration("pq.tenants", 0, "how long each part of the campaign of a hostile tenant is; 0: a moment")
	tenantQuota = flag.Int("pq.tenantquota", 500, "requests a second of a tenant in that campaign; 0: any number")
)

// hostility is what a hostile tenant does: a message, again and again, as fast as it is answered.
type hostility struct {
	what    string
	queues  int                   // that have a thousand items before
	next    func(i int) *nats.Msg // its subject without the tenant, {id} for that of an item; nil: none
	prepare func(ask func(*nats.Msg) *nats.Msg) (id string)
}

func hostile(subject, body string, header ...string) *nats.Msg {
	m := nats.NewMsg(subject)
	m.Data = []byte(body)
	for i := 0; i < len(header); i += 2 {
		m.Header.Set(header[i], header[i+1])
	}
	return m
}

// thousand are items of a bundle, for queues that are full.
var thousand = strings.Repeat("0 100\n"+strings.Repeat("x", 100)+"\n", 1000)

// keyed are the items of a bundle, of some keys in turns.
func keyed(items, keys int) *nats.Msg {
	var b strings.Builder
	for i := range items {
		header := fmt.Sprintf("PQ-Key: k%d\n", i%keys)
		fmt.Fprintf(&b, "%d 1\n%sx\n", len(header), header)
	}
	return hostile("keyed.push", b.String(), "PQ-Bundle", fmt.Sprint(items))
}

var hostilities = []hostility{
	{what: "nothing"}, // how much two measurements differ
	{what: "requests", next: func(int) *nats.Msg { return hostile("jobs.push", "x") }},
	{what: "bundles", next: func(int) *nats.Msg {
		return hostile("jobs.push", strings.Repeat("0 1\nx\n", 1000), "PQ-Bundle", "1000")
	}},
	{what: "waiting pops", next: func(i int) *nats.Msg { return hostile(fmt.Sprintf("empty%d.pop.min", i%5000), "", "PQ-Wait", "100s") }},
	{what: "lists", queues: 20, next: func(i int) *nats.Msg {
		return hostile(fmt.Sprintf("full%d.list", i%20), `{"limit":1000,"bodies":true}`)
	}},
	{what: "batches", queues: 20, next: func(i int) *nats.Msg { return hostile(fmt.Sprintf("full%d.pop.min", i%20), "1000", "PQ-Lease", "1ms") }},
	{what: "bulk operations", queues: 20, next: func(i int) *nats.Msg {
		return hostile(fmt.Sprintf("full%d.admin.move", i%20), fmt.Sprintf(`{"all":true,"priority":%d}`, i))
	}},
	{what: "keys", next: func(i int) *nats.Msg { return hostile("keyed.push", "x", "PQ-Key", fmt.Sprint(i)) }},
	{what: "queues", next: func(i int) *nats.Msg { return hostile(fmt.Sprintf("q%d.push", i), "x") }},
	{what: "malformed requests", next: func(int) *nats.Msg { return hostile("jobs.nonsense", "") }},
	{what: "leases", queues: 1, next: func(int) *nats.Msg { return hostile("full0.pop.min", "", "PQ-Lease", "1ms") }},
	{what: "configurations of 1000 keys", prepare: func(ask func(*nats.Msg) *nats.Msg) string {
		ask(keyed(1000, 1000))
		return ""
	}, next: func(i int) *nats.Msg {
		return hostile("keyed.admin.config", []string{`{"key_rate":"5/1s","fair":"priority"}`, `{"key_rate":"","fair":""}`}[i%2])
	}},
	{what: "explanations behind 3000 items of a key", prepare: func(ask func(*nats.Msg) *nats.Msg) string {
		for range 3 {
			ask(keyed(1000, 1))
		}
		var ack protocol.PushResponse
		if err := json.Unmarshal(ask(hostile("keyed.push", "x", "PQ-Key", "k0")).Data, &ack); err != nil {
			panic(err)
		}
		return ack.ID
	}, next: func(int) *nats.Msg { return hostile("keyed.get.{id}", `{"explain":true}`) }},
	{what: "leases of an unknown holder", queues: 1, prepare: func(ask func(*nats.Msg) *nats.Msg) string {
		ask(hostile("full0.pop.min", "", "PQ-Lease", "1h", "PQ-Holder", "h", "PQ-Bundle", "1000"))
		return ""
	}, next: func(int) *nats.Msg { return hostile("full0.list", `{"state":"leased","holder":"nobody"}`) }},
	{what: "bulk operations that match nothing", queues: 5, next: func(i int) *nats.Msg {
		return hostile(fmt.Sprintf("full%d.admin.remove", i%5), `{"where":{"deliveries":5},"dry_run":true}`)
	}},
}

// tenantRounds is how often the others' latencies are measured before and during each hostility, by another tenant each time.
const tenantRounds = 3

// Of a thousand tenants one does all that it can. The log has the others' latencies before and meanwhile. In a
// moment's run it shows only that they are served.
func TestHostileTenant(t *testing.T) {
	nightly.Only(t, "it measures")
	span, others, rounds := *tenantsFor, 999, tenantRounds
	if span == 0 {
		span, others, rounds = testenv.Times(100*time.Millisecond), 9, 1
	}
	file := filepath.Join(t.TempDir(), "tenants.json")
	pqd.Write(t, file, "{}")
	p := testenv.Daemon(t, "PQ_TENANTS="+file)
	nc, flood := p.Connect(t), p.Connect(t)
	ask := func(m *nats.Msg) *nats.Msg {
		answer, err := nc.RequestMsg(m, testenv.Patience())
		if err != nil || answer.Header.Get("Nats-Service-Error-Code") != "" {
			t.Fatalf("%v, %v", answer, err)
		}
		return answer
	}
	ids := make(map[string]string)
	for _, h := range hostilities {
		for round := range rounds {
			for i := range h.queues {
				m := hostile(fmt.Sprintf("%sfull%d.push", h.prefix(round), i), thousand, "PQ-Bundle", "1000")
				ask(m)
			}
			if h.prepare != nil {
				ids[h.prefix(round)] = h.prepare(func(m *nats.Msg) *nats.Msg {
					m.Subject = h.prefix(round) + m.Subject
					return ask(m)
				})
			}
		}
	}
	pqd.Write(t, file, fmt.Sprintf(`{"default":{"requests":%d}}`, *tenantQuota))
	p.HangUp(t)
	p.AwaitLog(t, "read the quotas of tenants again")
	for i := range others {
		pqd.Push(t, nc, fmt.Sprintf("t%d.jobs", i), 1, "x")
	}
	for _, h := range hostilities {
		t.Run(h.what, func(t *testing.T) {
			var before, during latencies
			served, refused := 0, 0
			for round := range rounds {
				before = append(before, pushAndPop(t, nc, others, span)...)
				end := begin(t, flood, h.prefix(round), ids[h.prefix(round)], h)
				during = append(during, pushAndPop(t, nc, others, span)...)
				s, r := end()
				served, refused = served+s, refused+r
			}
			slices.Sort(before)
			slices.Sort(during)
			ratio := func(thousandth int) string {
				from, to := before.at(thousandth), during.at(thousandth)
				return fmt.Sprintf("%s to %s: %.1f", from, to, float64(to)/float64(from))
			}
			t.Logf("p50 %s, p99 %s, p99.9 %s; served %d, refused %d", ratio(500), ratio(990), ratio(999), served, refused)
		})
	}
	p.Stop(t)
}

// prefix is that of the tenant in one round.
func (h hostility) prefix(round int) string {
	return fmt.Sprintf("pq.%s-%d.", strings.ReplaceAll(h.what, " ", "-"), round)
}

type latencies []time.Duration

// at returns what so many of a thousand took at most.
func (l latencies) at(thousandth int) time.Duration {
	return l[min(len(l)-1, len(l)*thousandth/1000)].Round(10 * time.Microsecond)
}

// pushAndPop has the tenants push and pop for a while, 200 times a second, and returns how long each took.
func pushAndPop(t *testing.T, nc *nats.Conn, tenants int, span time.Duration) (all latencies) {
	t.Helper()
	var mu sync.Mutex
	var group sync.WaitGroup
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(span); time.Now().Before(end); {
		began := <-tick.C
		queue := fmt.Sprintf("pq.t%d.jobs", rand.IntN(tenants))
		group.Go(func() {
			for _, verb := range []string{".push", ".pop.min"} {
				m, err := nc.Request(queue+verb, []byte{}, testenv.Patience())
				if err != nil || m.Header.Get("Nats-Service-Error-Code") != "" && m.Header.Get("PQ-Reason") != "empty" {
					t.Errorf("%s: %v, %v", queue+verb, m, err)
					return
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, time.Since(began))
		})
	}
	group.Wait()
	return all
}

// begin has a hostile tenant begin, with 256 requests under way. The end returns how many were served, and refused.
func begin(t *testing.T, nc *nats.Conn, prefix, id string, h hostility) (end func() (served, refused int)) {
	t.Helper()
	stop, done := make(chan struct{}), make(chan struct{})
	inbox, came := nc.NewInbox(), make(chan *nats.Msg, 1<<16)
	sub, err := nc.ChanSubscribe(inbox, came)
	if err != nil {
		t.Fatal(err)
	}
	served, refused := 0, 0
	go func() {
		defer close(done)
		for i := 0; h.next != nil; i++ {
			m := h.next(i)
			m.Subject, m.Reply = prefix+strings.Replace(m.Subject, "{id}", id, 1), inbox
			if err := nc.PublishMsg(m); err != nil {
				t.Error(err)
				return
			}
			if i < 256 {
				continue
			}
			select {
			case <-stop:
				return
			case m := <-came:
				if m.Header.Get("Nats-Service-Error-Code") == "" {
					served++
				} else {
					refused++
				}
			}
		}
	}()
	return func() (int, int) {
		close(stop)
		<-done
		if err := sub.Unsubscribe(); err != nil {
			t.Error(err)
		}
		return served, refused
	}
}
