package performance_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

var flagSchedules = flag.Int("pq.schedules", 0, "schedules whose cost is measured; 0: a few")

// What many schedules cost: at rest, when a tenth of them falls due at one instant, at a thousand
// firings a second, and when pqd was killed then; and what the clients of another queue notice.
func TestManySchedules(t *testing.T) {
	nightly.Only(t, "it measures")
	n, rest := cmp.Or(*flagSchedules, 500), 20*time.Second
	if *flagSchedules == 0 {
		rest = time.Second
	}
	m := &scheduled{T: t, Process: testenv.Daemon(t)}
	for range 32 {
		m.clients = append(m.clients, m.Connect(t, nats.MaxReconnects(-1)))
	}
	began := time.Now()
	m.make(n, func(i int) (string, string) {
		return fmt.Sprintf("far-%d", i%100), fmt.Sprintf(`{"spec":"%d %d %d 1 *"}`, i%60, i/60%24, 2+i%27)
	})
	t.Logf("%d schedules made in %.1f s", n, time.Since(began).Seconds())
	m.idle(rest)
	m.beside("alone", rest/4, nil)

	// A tenth at one instant.
	m.burst(n/10, 2*time.Second+time.Duration(n/10)*2*time.Millisecond, func(i int) string { return fmt.Sprintf("due-%d", i%20) })
	m.beside("beside them", 0, func() { m.await("due", 20, n/10) })
	m.lateness(fmt.Sprintf("%d at one instant", n/10), "due", 20)

	// As many a second as schedules in ten queues, which is a thousand of 100,000.
	each := max(1, n/1000)
	start := time.Now().Add(3 * time.Second).Truncate(time.Second).UTC()
	m.make(10*each, func(i int) (string, string) {
		return fmt.Sprintf("often-%d", i%10), fmt.Sprintf(`{"spec":"@every 1s","start":%q,"overlap":"allow","missed":"all"}`, start.Format(time.RFC3339))
	})
	<-time.After(time.Until(start))
	m.beside(fmt.Sprintf("beside %d firings a second", 10*each), max(rest/2, 3*time.Second), nil)
	m.lateness(fmt.Sprintf("%d a second", 10*each), "often", 10)
	m.Kill(t)
	killed := time.Now()
	m.Start(t)
	ready := time.Now()
	m.await("often", 10, m.count("often", 10)+30*each)
	m.latenessSince("after SIGKILL", "often", 10, killed)
	t.Logf("pqd was ready after %.2f s", ready.Sub(killed).Seconds())
	m.Stop(t)
}

// How late the schedules of 48 queues are beside a burst of one queue, of their own tenant or of another one.
func TestScheduleBurst(t *testing.T) {
	nightly.Only(t, "it measures")
	n := cmp.Or(*flagSchedules*2/5, 2000) // all at one instant
	for name, of := range map[string]struct{ tenants, burst, others string }{
		"one store":   {"", "burst", "other"},
		"two tenants": {"{}", "X.burst", "Y.other"},
	} {
		t.Run(name, func(t *testing.T) {
			path := ""
			if of.tenants != "" {
				path = filepath.Join(t.TempDir(), "tenants.json")
				pqd.Write(t, path, of.tenants)
			}
			m := &scheduled{T: t, Process: testenv.Daemon(t, "PQ_TENANTS="+path)}
			for range 32 {
				m.clients = append(m.clients, m.Connect(t))
			}
			m.make(48, func(i int) (string, string) {
				return fmt.Sprint(of.others, "-", i), `{"spec":"@every 1s","overlap":"allow"}`
			})
			due := m.burst(n, 3*time.Second+time.Duration(n)*3*time.Millisecond, func(int) string { return of.burst + "-0" })
			m.await(of.burst, 1, n)
			took := time.Since(due)
			late := m.latenessSince(fmt.Sprintf("beside %d of one queue, which take %s", n, took.Round(time.Millisecond)), of.others, 48, due)
			if p99 := quantile(late, 0.99); p99 > max(250*time.Millisecond, took/4) {
				t.Errorf("a burst of %s has others fire %s late", took, p99)
			}
		})
	}
}

// scheduled is a pqd with schedules.
type scheduled struct {
	*testing.T
	*testenv.Process
	clients []*nats.Conn
	made    int
}

// burst makes schedules of one instant, which is so far ahead, or further where the machine is slow, and returns it when it has come.
func (m *scheduled) burst(n int, ahead time.Duration, queue func(i int) string) (due time.Time) {
	m.Helper()
	few, began := min(n, 128), time.Now()
	later := began.Add(24 * time.Hour).UTC().Format(time.RFC3339)
	m.make(few, func(i int) (string, string) { return queue(i), fmt.Sprintf(`{"spec":"@at %s"}`, later) })
	ahead = max(ahead, 3*time.Second+4*time.Since(began)*time.Duration(n)/time.Duration(few))
	due = time.Now().Add(ahead).Truncate(time.Second).UTC()
	m.make(n, func(i int) (string, string) {
		return queue(i), fmt.Sprintf(`{"spec":"@at %s"}`, due.Format(time.RFC3339))
	})
	if !time.Now().Before(due) {
		m.Errorf("the schedules were made %s late", time.Since(due))
	}
	<-time.After(time.Until(due))
	return due
}

// make makes schedules, by all clients.
func (m *scheduled) make(n int, schedule func(i int) (queue, body string)) {
	m.Helper()
	var wg sync.WaitGroup
	first := m.made
	for c, nc := range m.clients {
		wg.Go(func() {
			for i := c; i < n; i += len(m.clients) {
				queue, body := schedule(i)
				if _, err := answered(nc, fmt.Sprintf("pq.%s.admin.schedule.s%d", queue, first+i), body, nil); err != nil {
					m.Errorf("schedule %d: %v", i, err)
					return
				}
			}
		})
	}
	if wg.Wait(); m.Failed() {
		m.FailNow()
	}
	m.made += n
}

// idle says what pqd does while nothing happens.
func (m *scheduled) idle(rest time.Duration) {
	m.Helper()
	cpu := func() float64 {
		_, page := pqd.Get(m.T, m.HTTP+"/metrics")
		return pqd.Metric(m.T, page, "process_cpu_seconds_total")
	}
	before, began := cpu(), time.Now()
	<-time.After(rest)
	m.Logf("at rest: %.4f of a processor", (cpu()-before)/time.Since(began).Seconds())
}

// beside has a client push and lease one item after the other in another queue, for a while, or
// until something has ended.
func (m *scheduled) beside(what string, least time.Duration, until func()) {
	m.Helper()
	over := make(chan struct{})
	go func() {
		defer close(over)
		<-time.After(least)
		if until != nil {
			until()
		}
	}()
	var took []time.Duration
	for nc := m.clients[0]; ; {
		select {
		case <-over:
			slices.Sort(took)
			m.Logf("another queue, %s: a push, a lease and an acknowledgement take p50 %s, p99 %s (%d)", what, quantile(took, 0.5), quantile(took, 0.99), len(took))
			return
		default:
		}
		began := time.Now()
		pqd.Request(m.T, nc, "pq.other.push", "x")
		pqd.Request(m.T, nc, pqd.Lease(m.T, nc, "other", "1m").Reply, "+ACK")
		took = append(took, time.Since(began))
	}
}

func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))].Round(100 * time.Microsecond)
}

func (m *scheduled) count(name string, queues int) (all int) {
	for q := range queues {
		var info struct{ Ready int }
		if err := json.Unmarshal(pqd.Request(m.T, m.clients[1], fmt.Sprintf("pq.%s-%d.info", name, q), "").Data, &info); err != nil {
			m.Error(err)
		}
		all += info.Ready
	}
	return all
}

// await waits until queues have items.
func (m *scheduled) await(name string, queues, items int) {
	testenv.Await(m.T, fmt.Sprintf("%d items of %s are there", items, name), func() bool { return m.count(name, queues) >= items })
}

func (m *scheduled) lateness(what, name string, queues int) {
	m.Helper()
	m.latenessSince(what, name, queues, time.Time{})
}

// latenessSince says how much later than their times schedules have pushed.
func (m *scheduled) latenessSince(what, name string, queues int, since time.Time) (late []time.Duration) {
	m.Helper()
	for q := range queues {
		for ask := `{"limit":1000}`; ; {
			var page struct {
				Items []struct {
					Pushed  time.Time
					Headers nats.Header
				}
				Next string
			}
			answer := pqd.Request(m.T, m.clients[1], fmt.Sprintf("pq.%s-%d.list", name, q), ask)
			if err := json.Unmarshal(answer.Data, &page); err != nil {
				m.Fatal(err)
			}
			for _, i := range page.Items {
				at, err := time.Parse(time.RFC3339Nano, i.Headers.Get("PQ-Scheduled-At"))
				if err != nil {
					m.Fatal(err)
				}
				if i.Pushed.After(since) {
					late = append(late, i.Pushed.Sub(at))
				}
			}
			if ask = fmt.Sprintf(`{"limit":1000,"after":%q}`, page.Next); page.Next == "" {
				break
			}
		}
	}
	slices.Sort(late)
	m.Logf("%s: late by p50 %s, p99 %s, at most %s (%d)", what, quantile(late, 0.5), quantile(late, 0.99), quantile(late, 1), len(late))
	if len(late) == 0 {
		m.Errorf("%s: nothing has fired", what)
	}
	return late
}
