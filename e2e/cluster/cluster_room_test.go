package cluster_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// drained is a cluster whose disks have no room for new items, and what is in it.
type drained struct {
	*testenv.Nodes
	nc *nats.Conn
}

// push pushes an item and returns the status, "" for success.
func (d *drained) push(t *testing.T, id string) (status string, reply *nats.Msg) {
	t.Helper()
	reply = pqd.AskServing(t, d.nc, "pq.jobs.push.1", id, "Nats-Msg-Id", id)
	return reply.Header.Get("Nats-Service-Error-Code"), reply
}

// accepts waits until pushes are accepted.
func (d *drained) accepts(t *testing.T, id string) {
	t.Helper()
	testenv.Await(t, "pushes are accepted", func() bool {
		status, _ := d.push(t, id)
		return status == ""
	})
}

// refuses waits until pushes are refused because of a disk, and takes an item out all the same.
func (d *drained) refuses(t *testing.T, why, known, next string) {
	t.Helper()
	var refused *nats.Msg
	testenv.Await(t, "pushes are refused", func() (is bool) {
		refused = pqd.AskServing(t, d.nc, "pq.others.push.1", "") // what is accepted until then is of another queue
		return refused.Header.Get("Nats-Service-Error-Code") == "429" && strings.Contains(refused.Header.Get("Nats-Service-Error"), why)
	})
	if reason := refused.Header.Get("PQ-Reason"); reason != "store_full" {
		t.Errorf("the reason is %q, expected store_full", reason)
	}
	if status, _ := d.push(t, "refused"); status != "429" {
		t.Errorf("a push was answered %q, expected 429", status)
	}
	if status, again := d.push(t, known); status != "" || !strings.Contains(string(again.Data), `"duplicate":true`) {
		t.Errorf("a repeated push was answered %+v %s, expected a duplicate", again.Header, again.Data)
	}
	lease := pqd.AskServing(t, d.nc, "pq.jobs.pop.min", "", "PQ-Lease", "1h")
	if string(lease.Data) != next {
		t.Fatalf("the pop was answered %+v %s, expected %s", lease.Header, lease.Data, next)
	}
	if settled := pqd.AskServing(t, d.nc, lease.Reply, "+ACK"); settled.Header.Get("Status") != "" {
		t.Errorf("the settlement was answered %+v", settled.Header)
	}
}

// restart starts a node again with another limit of its disk.
func (d *drained) restart(t *testing.T, p *testenv.Process, least string) {
	t.Helper()
	p.Stop(t)
	p.Change("PQ_MIN_FREE=" + least)
	p.Start(t)
}

// The disks of nodes are nearly full. While a majority of them has room, and the active one,
// pushes are accepted. Otherwise they are refused early, and what is there can be taken out.
func TestNodesOnNearlyFullDisks(t *testing.T) {
	t.Parallel()
	never := pqd.NearlyFull(t, t.TempDir())
	d := &drained{Nodes: testenv.NewNodes(t)}
	nc, err := nats.Connect(d.URL(), nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	d.nc = nc
	d.accepts(t, "first")
	d.accepts(t, "second")
	active := d.Active(t)
	others := slices.DeleteFunc(slices.Clone(d.All), func(p *testenv.Process) bool { return p == active })
	d.restart(t, others[0], never)
	d.accepts(t, "third")
	d.restart(t, others[1], never)
	d.refuses(t, "no majority", "second", "first")

	active.Stop(t) // one of the others is active now
	d.refuses(t, "PQ_MIN_FREE", "third", "second")
	active.Start(t)
	for _, p := range others {
		d.restart(t, p, "0")
	}
	d.accepts(t, "fourth")
	for _, want := range []string{"third", "fourth"} {
		if got := string(pqd.AskServing(t, d.nc, "pq.jobs.pop.min", "").Data); got != want {
			t.Errorf("popped %q, expected %q", got, want)
		}
	}
}

// Another stream takes nearly all that the account of the log may have: pushes are refused, and
// what is there can be taken out.
func TestFullAccount(t *testing.T) {
	t.Parallel()
	outside := testenv.NATS(t, testenv.AccountLimit(t, "80M"))
	s := &pqd.StreamStore{Outside: outside, Size: "64M", Work: t.TempDir(), Nc: outside.Connect(t)}
	s.Init(t)
	testenv.Daemon(t, s.Env("a")...)
	d := &drained{nc: s.Nc}
	d.accepts(t, "first")
	d.accepts(t, "second")
	api, err := js.New(s.Nc)
	if err != nil {
		t.Fatal(err)
	}
	other, err := api.CreateStream(t.Context(), js.StreamConfig{Name: "other", Subjects: []string{"other"}})
	if err != nil {
		t.Fatal(err)
	}
	for range 75 {
		if _, err := api.Publish(t.Context(), "other", make([]byte, 1<<20-1000)); err != nil {
			t.Fatal(err)
		}
	}
	d.refuses(t, "% full", "second", "first")
	if err := other.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.accepts(t, "third")
}
