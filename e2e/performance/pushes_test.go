//go:build fdb && benchfdb

package performance_test

import (
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/internal/testkit/fdbtest"
	"github.com/pqbridge/pqbridge/testenv"
)

func init() {
	kinds["pushes"] = func(t *testing.T, l task) work { return requests(t, l, "pq.jobs.push.5", payload) }
}

// One bridge serves pushes of more and more clients, beside as many clients that do bare
// sets. The bridge's batches grow with the load.
func TestPushes(t *testing.T) {
	cluster := fdbtest.New(t, 1)
	t.Logf("| %7s | %7s | %8s | %8s | %5s | %8s | %8s | %8s | %8s |", "clients", "on", "sets/s", "pushes/s", "ratio", "items/tx", "ms/tx", "p50", "p99")
	for _, clients := range []int{1, 16, 64, 256} {
		l := task{Kind: setKind, Clients: clients, Cluster: cluster.File, Prefix: fdbtest.Prefix(), Warm: warmTime, Time: measureTime}
		sets := sum(drive(t, l))
		server := testenv.NATS(t)
		d := testenv.Daemon(t, "NATS_URL="+server.URL(), cluster.Setting())
		for _, connections := range []int{1, clients} {
			l.Kind, l.URL, l.Connections = "pushes", server.URL(), connections
			pushes := sum(drive(t, l))
			batches := daemonMetric(t, d, `pq_batch_requests_count{kind="push"}`)
			t.Logf("| %7d | %7d | %8.0f | %8.0f | %5.2f | %8.1f | %8.2f | %8s | %8s |", clients, connections,
				float64(sets.Done)/measureTime.Seconds(), float64(pushes.Done)/measureTime.Seconds(), float64(pushes.Done)/float64(sets.Done),
				daemonMetric(t, d, `pq_batch_requests_sum{kind="push"}`)/batches, 1000*daemonMetric(t, d, `pq_transaction_seconds_sum{kind="push"}`)/batches,
				pushes.P50.Round(10*time.Microsecond), pushes.P99.Round(10*time.Microsecond))
		}
		d.Stop(t)
	}
}
