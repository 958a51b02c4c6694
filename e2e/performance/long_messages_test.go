package performance_test

import (
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

var longFor = flag.Duration("pq.longfor", 0, "how long the measurement beside long messages is, with one of each kind a second; 0: a moment")

// nested is JSON whose every object holds the next one, under a long name.
func nested(name string, size int) string {
	depth := size / (len(name) + len(`{"":}`))
	return strings.Repeat(`{"`+name+`":`, depth) + "1" + strings.Repeat("}", depth)
}

// longMessages are the longest and deepest of each kind that a client with the rights on one queue can send.
func longMessages(inbox string) (all []*nats.Msg) {
	add := func(subject, body string, header ...string) {
		m := hostile("pq.mine."+subject, body, header...)
		m.Reply = inbox
		all = append(all, m)
	}
	for _, reply := range []int{1024, 1025, 3900} {
		m := hostile("pq.mine.jobs.pop.min", "", "PQ-Lease", "1s")
		m.Reply = inbox + "." + strings.Repeat("x", reply-len(inbox)-1)
		all = append(all, m)
	}
	add("jobs.ack.c."+strings.Repeat("t", 3000), "+ACK")
	deep, names, wide := nested("names", 100_000), nested(strings.Repeat("n", 40), 450_000), `{"a":[`+strings.Repeat("1,", 450_000)+"1]}"
	for _, body := range []string{deep, names, wide, strings.Repeat("[", 900_000)} {
		for _, verb := range []string{"list", "info", "keys", "schedules", "sources", "links", "pop.min", "peek.max", "admin.config", "admin.purge", "admin.move", "admin.requeue", "admin.schedule.s", "admin.source.s", "admin.link.s", "admin.key.k"} {
			add("jobs."+verb, body)
		}
		add("_sys.list", body)
		add("jobs.ack.c.t", "-NAK "+body)
		add("jobs.ack.c.t", "+NXT "+body)
		add("jobs.push", body)
	}
	add("jobs.ack.bundle.settle", strings.Repeat("x "+strings.Repeat("-", 1000)+"\n", 900), "PQ-Bundle", "900")
	add("jobs.push", strings.Repeat("0 0\n\n", 180_000), "PQ-Bundle", "180000")
	var lines []string
	for i := range 1000 {
		lines = append(lines, fmt.Sprintf("X-%d", i), strings.Repeat("x", 40))
	}
	add("jobs.push", "", lines...)
	add("jobs.push", "", "X-One", strings.Repeat("x", 64<<10))
	return all
}

// One message a second of each kind that is the longest, beside others that push and pop: nobody else's request fails. The
// log has the others' latencies before and meanwhile.
func TestLongMessages(t *testing.T) {
	nightly.Only(t, "it measures")
	span, n := *longFor, 9
	if span == 0 {
		span = testenv.Times(2 * time.Second)
	}
	file := filepath.Join(t.TempDir(), "tenants.json")
	pqd.Write(t, file, "{}")
	p := testenv.Daemon(t, "PQ_TENANTS="+file)
	nc, hostile := p.Connect(t), p.Connect(t)
	for i := range n {
		pqd.Push(t, nc, fmt.Sprintf("t%d.jobs", i), 1, "x")
	}
	pqd.Push(t, nc, "mine.jobs", 1, "x")
	before := pushAndPop(t, nc, n, span)
	inbox := hostile.NewInbox()
	answers, err := hostile.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	sent := 0
	go func() {
		defer close(done)
		all := longMessages(inbox)
		tick := time.NewTicker(time.Second / time.Duration(len(all)))
		defer tick.Stop()
		for ; ; sent++ {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			if err := hostile.PublishMsg(all[sent%len(all)]); err != nil {
				t.Errorf("message %d: %v", sent, err)
				return
			}
		}
	}()
	during := pushAndPop(t, nc, n, span)
	close(stop)
	<-done
	slices.Sort(before)
	slices.Sort(during)
	heard, _, _ := answers.Pending()
	t.Logf("sent %d, answered %d; the others' p50 %s to %s, p99 %s to %s", sent, heard, before.at(500), during.at(500), before.at(990), during.at(990))
	if strings.Contains(p.Log(), "ended a connection for an error") {
		t.Error("the server ended pqd's connection")
	}
	if !hostile.IsConnected() {
		t.Error("the client that sends them has lost its connection: they are longer than the server takes")
	}
	p.Stop(t)
}
