//go:build fdb

package stores_test

import (
	"flag"
	"net/http"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv/fdb"
	"github.com/pqbridge/pqbridge/internal/storecheck"
	"github.com/pqbridge/pqbridge/internal/testkit/fdbtest"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

var (
	faultTime = flag.Duration("pq.faults", 0, "kill processes of a cluster for so long")
	pauseTime = flag.Duration("pq.pause", 5*time.Second, "pause the cluster for so long")
)

// bridgesOn starts n daemons on a cluster.
func bridgesOn(t *testing.T, cluster *fdbtest.Cluster, server *testenv.Server, n int) []*testenv.Process {
	t.Helper()
	var daemons []*testenv.Process
	for range n {
		daemons = append(daemons, testenv.Daemon(t, "NATS_URL="+server.URL(), "PQ_STORE=fdb:"+cluster.File))
	}
	return daemons
}

// stopAll ends the daemons, which have to do so cleanly, and checks the store
// that they leave.
func stopAll(t *testing.T, cluster *fdbtest.Cluster, daemons []*testenv.Process) {
	t.Helper()
	for _, d := range daemons {
		d.Stop(t)
	}
	db, err := fdb.Open(cluster.File, fdb.Options{OpenTimeout: testenv.Patience()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	store, err := fdbpq.Open(t.Context(), db, fdbpq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	problems, err := storecheck.Check(t.Context(), store)
	if err != nil || len(problems) > 0 {
		t.Errorf("check the store: %v %v", problems, err)
	}
}

// TestProcessesKilled kills the processes of a double-redundant cluster by turns under
// the load of two bridges: every acknowledged item is popped once, and every lease ends.
// It lasts minutes: make campaign NAME=foundationdb.
func TestProcessesKilled(t *testing.T) {
	if *faultTime == 0 {
		t.Skip("only with -pq.faults")
	}
	cluster := fdbtest.New(t, 3)
	server := testenv.NATS(t)
	daemons := bridgesOn(t, cluster, server, 2)
	b := newBook(t, server)
	b.run(16, func() {
		kills := 0
		for begin := time.Now(); time.Since(begin) < *faultTime; kills++ {
			if kills > 0 {
				cluster.AwaitHealthy(t)
			}
			p := cluster.Processes[kills%len(cluster.Processes)]
			p.Kill(t)
			b.progress("the loss of a process")
			p.Start(t)
		}
		t.Logf("%d processes killed", kills)
	})
	stopAll(t, cluster, daemons)
}

// TestClusterPaused pauses a cluster under the load of two bridges: every request is
// answered, /readyz fails, memory stays bounded, and work continues by itself.
func TestClusterPaused(t *testing.T) {
	nightly.Only(t, "it pauses a cluster; TestStoreAway of bridge has a store that is away")
	cluster := fdbtest.New(t, 1)
	server := testenv.NATS(t)
	daemons := bridgesOn(t, cluster, server, 2)
	before := pqd.Resident(t, daemons[0])
	peak := pqd.WatchMemory(t, daemons[0])
	b := newBook(t, server)
	b.run(4, func() {
		end := time.After(*pauseTime)
		cluster.Pause(t)
		for _, d := range daemons {
			awaitReadiness(t, d, http.StatusServiceUnavailable)
		}
		<-end
		b.mu.Lock()
		t.Logf("paused for %s: answers so far %v", *pauseTime, b.codes)
		b.mu.Unlock()
		cluster.Resume(t)
		resumed := time.Now()
		b.progress("the pause")
		t.Logf("pushes went on %s after it", time.Since(resumed).Round(time.Millisecond))
		for _, d := range daemons {
			awaitReadiness(t, d, http.StatusOK)
		}
	})
	most := peak()
	t.Logf("memory: %d MiB before, %d MiB at most", before>>20, most>>20)
	if most > 1<<30 {
		t.Errorf("pqd needed %d MiB", most>>20)
	}
	stopAll(t, cluster, daemons)
}

// awaitReadiness waits until /readyz answers with this code.
func awaitReadiness(t *testing.T, d *testenv.Process, status int) {
	t.Helper()
	for deadline := testenv.BeginWait(); ; {
		answer, err := (&http.Client{Timeout: testenv.Attempt()}).Get(d.HTTP + "/readyz")
		if err == nil {
			answer.Body.Close()
		}
		if err == nil && answer.StatusCode == status {
			return
		}
		if deadline.Over() {
			t.Fatalf("/readyz answers %+v, %v, expected %d", answer, err, status)
		}
	}
}
