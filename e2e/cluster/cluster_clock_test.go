package cluster_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/clock"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// A takeover makes no lease, delay or TTL shorter, and none longer than the takeover takes. The clocks of all nodes are wrong,
// each in its own way, and jump before a takeover, during it and behind it.
func TestTakeoversUnderWrongClocks(t *testing.T) {
	nightly.Only(t, "fdbpq has takeovers: TestTakeoversMoveNoDueTime")
	t.Parallel()
	nodes := testenv.NodesOf(t, slices.Repeat([]string{clock.Program(t)}, 3), clock.File(t))
	random := pqd.Seeded(t)
	set := func(but *testenv.Process) {
		for _, p := range nodes.All {
			if p != but {
				clock.Set(t, p, time.Duration(random.Int64N(int64(2*time.Hour)))-time.Hour)
			}
		}
	}
	nc, err := nats.Connect(nodes.URL(), nats.MaxReconnects(-1), nats.Timeout(testenv.Patience()))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	x := &pqd.NodeFaults{Nodes: nodes, Random: random}
	faults := []struct {
		what string
		do   func(active *testenv.Process)
	}{
		{"SIGKILL", func(active *testenv.Process) {
			active.Kill(t)
			set(active)
			nodes.Active(t, active)
			active.Start(t)
		}},
		{"SIGSTOP", func(active *testenv.Process) {
			active.Pause(t)
			set(active)
			nodes.Active(t, active)
			active.Resume(t)
		}},
		{"pq cluster step-down", func(*testenv.Process) {
			set(nil)
			x.StepDown(t)
			nodes.Active(t)
		}},
	}
	for n, fault := range slices.Concat(faults, faults) {
		set(nil)
		active := nodes.Active(t)
		times := pqd.BeginTimes(t, nc, fmt.Sprint("takeover-", n), 8*time.Second)
		began := time.Now()
		fault.do(active)
		took := time.Since(began)
		set(nil)
		t.Logf("%s of %s: %s is active, after %s", fault.what, active.Node(), nodes.Active(t).Node(), took)
		times.Last()
		// Due items wait for three more seconds, so that acknowledgements come first.
		times.Come(took + 3*time.Second + testenv.Times(2*time.Second))
		times.Last()
	}
}
