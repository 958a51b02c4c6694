package cluster_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// stream is the log of the store pq, in its first generation.
const stream = "PQ_pq_1"

// routeFaults has something happen between the NATS servers that replicate the log of some
// pqd, and waits until the servers are one cluster again.
type routeFaults struct {
	*pqd.Campaign
	servers *testenv.Cluster
	nodes   *testenv.Nodes
}

// newRouteFaults starts pqd at the first servers of a cluster.
func newRouteFaults(t *testing.T, count int) *routeFaults {
	t.Helper()
	x := &routeFaults{servers: testenv.NewCluster(t), nodes: &testenv.Nodes{}}
	dir := t.TempDir()
	env := func(i int) []string {
		return []string{
			"NATS_URL=" + x.servers.Servers[i].URL(), "PQ_STORE=jetstream:pq?sync=always&max_bytes=64M", "PQ_UNPROTECTED=log",
			fmt.Sprint("PQ_NODE=", i), fmt.Sprint("PQ_DATA=", dir, "/", i),
		}
	}
	testenv.Await(t, "there is a stream", func() bool { // the leader has found all servers then
		code, _, _ := testenv.Run(t, env(0), "init")
		return code == 0
	})
	for i := range count {
		x.nodes.All = append(x.nodes.All, testenv.Daemon(t, env(i)...))
	}
	x.Campaign = &pqd.Campaign{
		URL: x.servers.URL(), Random: pqd.Seeded(t), Faults: make(map[string]int),
		Attempt: 10 * time.Second, // elections take half of that
	}
	next := 0
	x.Fault = func(t testing.TB) string {
		next++
		what := routeTroubles[(next-1)%len(routeTroubles)]
		x.happen(t, what)
		return what
	}
	return x
}

// routeTroubles are all that happen. The first ones take moments.
var routeTroubles = []string{"the leader steps down", "a follower is cut off", "the leader is cut off", "all are cut off", "the active pqd is cut off"}

func (x *routeFaults) happen(t testing.TB, what string) {
	t.Helper()
	leader := x.servers.StreamLeader(t, stream)
	var cut []int
	switch what {
	case "the leader steps down":
		x.stepDown(t, leader, (leader+1)%len(x.servers.Servers))
		return
	case "a follower is cut off":
		cut = []int{(leader + 1 + x.Random.IntN(2)) % len(x.servers.Servers)}
	case "the leader is cut off":
		cut = []int{leader}
	case "all are cut off":
		cut = []int{0, 1, 2}
	case "the active pqd is cut off":
		active := x.nodes.Active(t)
		for i, p := range x.nodes.All {
			if p == active {
				cut = []int{i}
			}
		}
	default:
		t.Fatalf("what is %q?", what)
	}
	for _, i := range cut {
		x.servers.Isolate(i)
	}
	<-time.After(time.Duration(x.Random.Int64N(int64(routeCut))))
	for _, i := range cut {
		x.servers.Join(i)
	}
	x.servers.AwaitLeader(t)
}

// routeCut is the longest cut: in about half of the cuts the others elect a leader.
const routeCut = 12 * time.Second

// stepDown has another server lead the log.
func (x *routeFaults) stepDown(t testing.TB, from, to int) {
	t.Helper()
	nc := x.servers.Servers[from].Connect(t)
	defer nc.Close()
	preferred := fmt.Sprintf(`{"placement":{"preferred":%q}}`, x.servers.Servers[to].Server().Name())
	_, _ = nc.Request("$JS.API.STREAM.LEADER.STEPDOWN."+stream, []byte(preferred), time.Second) // the caller looks
}

// Whatever the leader of the log and the routes between its servers do, nothing
// acknowledged is lost, nothing comes twice, no lease overlaps another, nothing is passed
// over. -pq.ops sets how long it lasts, and cuts routes; without it only leaders change.
func TestClusterRoutes(t *testing.T) {
	t.Parallel()
	x := newRouteFaults(t, 3)
	if *pqd.Ops == 0 {
		x.Fault = func(t testing.TB) string {
			leader := x.servers.StreamLeader(t, stream)
			x.stepDown(t, leader, (leader+1)%len(x.servers.Servers))
			return "the leader steps down"
		}
		x.Long(t, "long", 4, 25, 10, 30, 50)
		return
	}
	for done, round := 0, 0; done < *pqd.Ops && !t.Failed(); round++ {
		const workers, steps = 16, 100
		done += x.Long(t, fmt.Sprint("r", round), workers, steps, x.Moments(len(routeTroubles), workers*steps)...)
		t.Logf("%d operations, faults: %v", done, x.Faults)
	}
}
