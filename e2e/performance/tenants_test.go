package performance_test

import (
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
	"github.com/pqbridge/pqbridge/testenv"
)

var (
	tenantsFor  = flag.Duration("pq.tenants", 0, "how long each part of the campaign of a hostile tenant is; 0: a moment")
	tenantQuota = flag.Int("pq.tenantquota", 500, "requests a second of a tenant in that campaign; 0: any number")
)

// hostility is what the hostile tenant does: a message, again and again, as fast as it is answered.
type hostility struct {
	what string
	next func(i int) *nats.Msg
}

func hostile(verb, body string, header ...string) *nats.Msg {
	m := nats.NewMsg("pq.hostile." + verb)
	m.Data = []byte(body)
	for i := 0; i < len(header); i += 2 {
		m.Header.Set(header[i], header[i+1])
	}
	return m
}

var hostilities = []hostility{
	{"requests", func(int) *nats.Msg { return hostile("jobs.push", "x") }},
	{"bundles", func(int) *nats.Msg {
		return hostile("jobs.push", strings.Repeat("0 1\nx\n", 1000), "PQ-Bundle", "1000")
	}},
	{"waiting pops", func(i int) *nats.Msg {
		return hostile(fmt.Sprintf("empty%d.pop.min", i%5000), "", "PQ-Wait", "100s")
	}},
	{"lists", func(int) *nats.Msg { return hostile("jobs.list", `{"limit":1000,"bodies":true}`) }},
	{"keys", func(i int) *nats.Msg { return hostile("keyed.push", "x", "PQ-Key", fmt.Sprint(i)) }},
	{"many queues", func(i int) *nats.Msg { return hostile(fmt.Sprintf("q%d.push", i), "x") }},
	{"events", func(i int) *nats.Msg { return hostile("jobs.pop.min", "", "PQ-Lease", "1ms") }},
}

// Of a thousand tenants one does all that it can. The log has the others' latencies before and meanwhile. In a
// moment's run it shows only that they are served.
func TestHostileTenant(t *testing.T) {
	span, others := *tenantsFor, 999
	if span == 0 {
		span, others = testenv.Times(100*time.Millisecond), 9
	}
	file := filepath.Join(t.TempDir(), "tenants.json")
	pqd.Write(t, file, fmt.Sprintf(`{"default":{"requests":%d}}`, *tenantQuota))
	p := testenv.Daemon(t, "PQ_TENANTS="+file)
	nc, flood := p.Connect(t), p.Connect(t)
	for i := range others {
		pqd.Push(t, nc, fmt.Sprintf("t%d.jobs", i), 1, "x")
	}
	for _, h := range hostilities {
		before := pushAndPop(t, nc, others, span)
		stop, answered := begin(t, flood, h)
		during := pushAndPop(t, nc, others, span)
		close(stop)
		t.Logf("%-12s p50 %8s to %8s, p99 %8s to %8s: ratio %.2f (the hostile tenant had %d answers)", h.what, before.at(50), during.at(50), before.at(99), during.at(99),
			float64(during.at(99))/float64(before.at(99)), answered())
	}
	p.Stop(t)
}

type latencies []time.Duration

// at returns a percentile.
func (l latencies) at(percent int) time.Duration {
	return l[min(len(l)-1, len(l)*percent/100)].Round(10 * time.Microsecond)
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
				m, err := nc.Request(queue+verb, []byte{}, testenv.Patience)
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
	slices.Sort(all)
	return all
}

// begin has the hostile tenant begin, with 256 requests under way.
func begin(t *testing.T, nc *nats.Conn, h hostility) (stop chan struct{}, answered func() int) {
	t.Helper()
	stop = make(chan struct{})
	inbox, came := nc.NewInbox(), make(chan *nats.Msg, 1<<16)
	sub, err := nc.ChanSubscribe(inbox, came)
	if err != nil {
		t.Fatal(err)
	}
	n, done := 0, make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			m := h.next(i)
			m.Reply = inbox
			if err := nc.PublishMsg(m); err != nil {
				return
			}
			if i < 256 {
				continue
			}
			select {
			case <-stop:
				return
			case <-came:
				n++
			}
		}
	}()
	return stop, func() int {
		<-done
		_ = sub.Unsubscribe()
		return n
	}
}
