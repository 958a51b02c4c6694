//go:build fdb

package stores_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/fdbpq/kv/fdb"
	"github.com/pqbridge/pqbridge/internal/testkit/fdbtest"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// An hour in which neither pqd nor the cluster ran counts for earlier leases and delays.
// Those granted right after the start have their full length. Two bridges start while the
// cluster is still away.
func TestGrantsAfterFullOutage(t *testing.T) {
	nightly.Only(t, "it kills a cluster; TestGrantsAfterDowntime has an hour without pqd")
	cluster := fdbtest.New(t, 1)
	server := testenv.NATS(t)
	before := bridgesOn(t, cluster, server, 2)
	ask := asking(t, server.Connect(t))
	ask("pq.old-later.push", "later", "PQ-Delay", "30m")
	ask("pq.old-leased.push", "short")
	short := ask("pq.old-leased.pop.min", "", "PQ-Lease", "30m")
	ask("pq.old-held.push", "long")
	long := ask("pq.old-held.pop.min", "", "PQ-Lease", "2h")
	for _, d := range before {
		d.Kill(t)
	}
	db, err := fdb.Open(cluster.File, fdb.Options{OpenTimeout: testenv.Patience()})
	if err != nil {
		t.Fatal(err)
	}
	pqd.StoppedAgo(t, db, time.Hour)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	cluster.Processes[0].Kill(t)

	var after []*testenv.Process
	for range 2 {
		after = append(after, testenv.Launch(t, "NATS_URL="+server.URL(), "PQ_STORE=fdb:"+cluster.File))
	}
	for _, d := range after {
		d.AwaitLog(t, "waiting for FoundationDB")
	}
	cluster.Processes[0].Start(t)
	for _, d := range after {
		d.AwaitReady(t)
	}
	grantsLast(t, ask)
	if reply := ask("pq.old-later.pop.min", "", "PQ-Wait", "110s"); string(reply.Data) != "later" {
		t.Errorf("what was delayed for 30 minutes before the hour: %q, %v", reply.Data, reply.Header)
	}
	if reply := ask("pq.old-leased.pop.min", "", "PQ-Wait", "110s"); string(reply.Data) != "short" {
		t.Errorf("what was leased for 30 minutes before the hour: %q, %v", reply.Data, reply.Header)
	}
	late := &nats.Msg{Subject: short.Reply, Data: []byte("+ACK")}
	if _, code := newBook(t, server).ask(server.Connect(t), late); code != "410" {
		t.Errorf("settling a lease of 30 minutes from before the hour was answered %s", code)
	}
	if reply := ask(long.Reply, "+ACK"); reply.Header.Get("Status") != "" {
		t.Errorf("a lease of 2 hours from before the hour is over: %v", reply.Header)
	}
	stopAll(t, cluster, after)
}

// While the cluster is away only the clocks of running bridges move store time: items
// delayed before or after the outage are not early, also when a bridge starts meanwhile.
func TestTimeDuringOutage(t *testing.T) {
	nightly.Only(t, "it kills a cluster; fdbpq has the time of stores that are away")
	for _, during := range []string{"all run on", "one starts meanwhile", "all start meanwhile"} {
		t.Run(during, func(t *testing.T) {
			t.Parallel()
			cluster := fdbtest.New(t, 1)
			server := testenv.NATS(t)
			running := bridgesOn(t, cluster, server, 2)
			ask := asking(t, server.Connect(t))
			// If the outage counted twice, the item would be early by half of its delay.
			// The clocks of two bridges differ by about a second.
			delay, differ := 2**pauseTime, *pauseTime/2
			begin := time.Now()
			ask("pq.before.push", "before", "PQ-Delay", delay.String())

			outage := time.After(*pauseTime)
			cluster.Processes[0].Kill(t)
			var starting []*testenv.Process
			for i, n := 0, map[string]int{"one starts meanwhile": 1, "all start meanwhile": 2}[during]; i < n; i++ {
				running[i].Kill(t)
				d := testenv.Launch(t, "NATS_URL="+server.URL(), "PQ_STORE=fdb:"+cluster.File)
				d.AwaitLog(t, "waiting for FoundationDB")
				starting, running[i] = append(starting, d), d
			}
			<-outage
			cluster.Processes[0].Start(t)
			if len(starting) == len(running) {
				for _, d := range starting {
					d.AwaitReady(t)
				}
			}
			after, pushed := pushUntilDone(t, server, delay)
			for queue, since := range map[string]time.Time{"before": begin, after: pushed} {
				reply := ask(fmt.Sprintf("pq.%s.pop.min", queue), "", "PQ-Wait", "80s")
				passed := time.Since(since)
				if !testenv.IsItem(reply) {
					t.Errorf("what was delayed by %v, queue %s, did not come in %v: %v", delay, queue, passed, reply.Header)
				}
				if passed < delay-differ {
					t.Errorf("what was delayed by %v, queue %s, came after %v", delay, queue, passed)
				}
			}
			for _, d := range starting {
				d.AwaitReady(t)
			}
			stopAll(t, cluster, running)
		})
	}
}

// pushUntilDone pushes a delayed item until that is acknowledged, each time to
// another queue, and returns the last one and when it was asked for.
func pushUntilDone(t *testing.T, server *testenv.Server, delay time.Duration) (queue string, begin time.Time) {
	t.Helper()
	b, nc := newBook(t, server), server.Connect(t)
	for n, code := 0, ""; code != "200"; n++ {
		queue, begin = fmt.Sprint("after-", n), time.Now()
		m := nats.NewMsg("pq." + queue + ".push")
		m.Header.Set("PQ-Delay", delay.String())
		if _, code = b.ask(nc, m); code != "200" && code != "503" && code != "504" {
			t.Fatalf("a push was answered %s", code)
		}
	}
	return queue, begin
}
