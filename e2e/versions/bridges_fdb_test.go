//go:build fdb

package versions_test

import (
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv/fdb"
	"github.com/pqbridge/pqbridge/internal/storecheck"
	"github.com/pqbridge/pqbridge/internal/testkit/fdbtest"
	"github.com/pqbridge/pqbridge/internal/testkit/history"
	"github.com/pqbridge/pqbridge/testenv"
)

// Three bridges serve one store on FoundationDB, and each is the earlier program or this one, at random: they sweep for
// each other, pass requests on, and tell each other of pushes.
func TestVersionsOfBridges(t *testing.T) {
	rounds(t, func(t *testing.T, x *turns) {
		cluster, server := fdbtest.New(t, 1), testenv.NATS(t)
		var bridges []*testenv.Process
		var programs []string
		for range 3 {
			program := x.program()
			programs = append(programs, program)
			bridges = append(bridges, testenv.DaemonOf(t, program, "NATS_URL="+server.URL(), "PQ_STORE=fdb:"+cluster.File))
		}
		start := func(t testing.TB, i int) {
			programs[i] = x.next(programs[i])
			bridges[i].Runs(programs[i])
			bridges[i].Start(t)
		}
		moment := func() { <-time.After(time.Duration(x.random.Int64N(int64(2 * time.Second)))) }
		change := func(t testing.TB) (what string) {
			one, process := x.random.IntN(len(bridges)), cluster.Processes[0]
			switch x.random.IntN(7) {
			case 0, 1:
				what = "kills"
				bridges[one].Kill(t)
				moment()
				start(t, one)
			case 2:
				what = "stops"
				bridges[one].Stop(t)
				start(t, one)
			case 3:
				what = "rolling restarts"
				for i := range bridges {
					bridges[i].Stop(t)
					start(t, i)
				}
			case 4:
				what = "pauses"
				bridges[one].Pause(t)
				moment()
				bridges[one].Resume(t)
			case 5:
				what = "kills of all bridges"
				for _, p := range bridges {
					p.Kill(t)
				}
				for i := range bridges {
					start(t, i)
				}
			case 6:
				what = "kills of fdbserver"
				process.Kill(t)
				process.Start(t)
			}
			return what
		}
		load{url: server.URL(), bridges: history.Several, slack: 1500 * time.Millisecond, queues: 4, workers: 4, steps: 60, changes: 6, change: change}.run(t, x)
		for _, p := range bridges {
			p.Stop(t)
		}
		checkShared(t, cluster)
	})
}

// checkShared looks for damage in a store on FoundationDB.
func checkShared(t *testing.T, cluster *fdbtest.Cluster) {
	t.Helper()
	db, err := fdb.Open(cluster.File, fdb.Options{OpenTimeout: testenv.Patience()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	store, err := fdbpq.Open(t.Context(), db, fdbpq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if problems, err := storecheck.Check(t.Context(), store); err != nil || len(problems) > 0 {
		t.Errorf("check the store: %v %v", problems, err)
	}
}
