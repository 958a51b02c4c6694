package cluster_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// Two pqd keep a store in a stream of a NATS server that is there: pqd init makes it,
// and nobody else does. When one ends, the other one goes on.
func TestStoreInStream(t *testing.T) {
	t.Parallel()
	s := pqd.NewStreamStore(t, "64M")
	early := testenv.Launch(t, s.Env("a")...)
	early.AwaitLog(t, "no such log")
	early.AwaitLog(t, "the stream has one replica")
	early.Stop(t)

	nodes, active, _ := s.Pair(t)
	s.Ask(t, "pq.jobs.push.1", "kept")
	active.Stop(t)
	nodes.Active(t, active)
	s.Ask(t, "pq.jobs.push.2", "after")
	for _, want := range []string{"kept", "after"} {
		if got := string(s.Ask(t, "pq.jobs.pop.min", "").Data); got != want {
			t.Errorf("popped %q, expected %q", got, want)
		}
	}
}

// The active pqd hands over on request: a pop that waits is refused with 503, the other
// pqd serves, all that shows the cluster says so, and what is due later is due no later than the takeover took.
func TestStepDown(t *testing.T) {
	t.Parallel()
	s := pqd.NewStreamStore(t, "64M")
	nodes, _, _ := s.Pair(t)
	s.Ask(t, "pq.jobs.push.1", "kept")
	before := s.Status(t)
	if !slices.ContainsFunc(before.Members, func(m protocol.Member) bool { return m.Role == protocol.RoleActive }) {
		t.Errorf("no member is active: %+v", before)
	}
	taken, err := s.Nc.SubscribeSync("pq._sys.event.active")
	if err != nil {
		t.Fatal(err)
	}
	s.Ask(t, "pq.empty.admin.config", "{}")
	answers := make(chan *nats.Msg, 1) // a subscription of another kind hides what has status 503
	waits, err := s.Nc.ChanSubscribe(s.Nc.NewInbox(), answers)
	if err != nil {
		t.Fatal(err)
	}
	wait := nats.NewMsg("pq.empty.pop.min")
	wait.Reply = waits.Subject
	wait.Header.Set("PQ-Wait", "90s")
	if err := s.Nc.PublishMsg(wait); err != nil {
		t.Fatal(err)
	}
	testenv.Await(t, "the pop waits", func() bool {
		var info protocol.Info
		return json.Unmarshal(s.Ask(t, "pq.empty.info", "").Data, &info) == nil && info.Waiting == 1
	})

	c, err := client.New(s.Nc, client.Timeout(testenv.Patience()), client.RetryFor(time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	var refusal *client.Error
	if _, err := c.StepDown(t.Context(), "nowhere"); !errors.As(err, &refusal) || refusal.Code != 400 {
		t.Errorf("stepping down for a node that is not there: %v", err)
	}
	var later protocol.PushResponse
	if err := json.Unmarshal(s.Ask(t, "pq.later.push", "", protocol.HeaderDelay, "24h").Data, &later); err != nil {
		t.Fatal(err)
	}
	due := func() time.Time {
		at, err := time.Parse(time.RFC3339, s.Ask(t, "pq.later.get."+later.ID, "").Header.Get(protocol.HeaderNotBefore))
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	var done *protocol.SteppedDown
	var began, dueBefore time.Time
	testenv.Await(t, "the active pqd hears the other one", func() bool {
		began, dueBefore = time.Now(), due()
		done, err = c.StepDown(t.Context(), "")
		return !errors.As(err, &refusal) || refusal.Code != 503 && refusal.Code != 504 // on a busy machine the other one is late
	})
	if err != nil || done.Node == done.Successor || done.Epoch == 0 {
		t.Fatalf("stepping down: %+v, %v", done, err)
	}
	var refused *nats.Msg
	select {
	case refused = <-answers:
	case <-testenv.Late():
		t.Fatal("the waiting pop has no answer")
	}
	if refused.Header.Get("Nats-Service-Error-Code") != "503" || !strings.Contains(refused.Header.Get("Nats-Service-Error"), "another pqd takes over") {
		t.Errorf("the waiting pop was answered %+v", refused)
	}
	var now protocol.ActiveEvent
	for now.Epoch <= done.Epoch { // takeovers of a busy machine come before
		event, err := taken.NextMsg(testenv.Patience())
		if err == nil {
			err = json.Unmarshal(event.Data, &now)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if moved, took := due().Sub(dueBefore), time.Since(began); moved > took {
		t.Errorf("a takeover within %v moved what is due by %v", took, moved)
	}
	if now.Node != done.Successor {
		t.Errorf("the event is %+v, expected node %s", now, done.Successor)
	}
	stepped := nodes.All[slices.IndexFunc(nodes.All, func(p *testenv.Process) bool { return p.Node() == done.Node })]
	nodes.Active(t, stepped)
	if got := string(s.Ask(t, "pq.jobs.pop.min", "").Data); got != "kept" {
		t.Errorf("popped %q, expected the item", got)
	}
	var info protocol.System
	if err := json.Unmarshal(s.Ask(t, "pq._sys.info", "").Data, &info); err != nil || info.Cluster == nil {
		t.Fatalf("_sys.info has no cluster: %+v, %v", info, err)
	}
	self := info.Cluster.Members[0]
	if self.Node != done.Successor || self.Role != protocol.RoleActive || self.Epoch != now.Epoch || self.Version == "" || len(info.Cluster.Members) != 2 {
		t.Errorf("_sys.info says %+v", info.Cluster)
	}
	stepped.AwaitReady(t) // as a follower

	// Alone, the other one does not step down: nothing would serve.
	stepped.Stop(t)
	testenv.Await(t, "the other one is missed", func() bool {
		_, err := c.StepDown(t.Context(), "")
		return errors.As(err, &refusal) && refusal.Code == 503 && strings.Contains(refusal.Description, "no other pqd can take over")
	})
	var whole *client.Cluster
	testenv.Await(t, "the cluster is shown", func() bool {
		whole, err = c.Cluster(t.Context())
		return err == nil && len(whole.Members) == 2 && whole.Members[0].Role == protocol.RoleActive
	})
	if whole.Members[0].Node != done.Successor || whole.Members[1].Heard == 0 {
		t.Errorf("the cluster is %+v", whole)
	}
	s.Ask(t, "pq.jobs.push.1", "still there")
}

// Nobody else has the log on disk, so it fills up. At 90 % pushes are refused, while pops
// and settlements go on. When another pqd is there, the log forgets, and pushes go on.
func TestFullLog(t *testing.T) {
	t.Parallel()
	nightly.Only(t, "TestFullLog of kv/cluster has the bound, and TestFullStoreRecognizesItems of bridge the refusal")
	s := pqd.NewStreamStore(t, "64M") // the smallest
	s.Init(t)
	testenv.Daemon(t, s.Env("a")...)
	s.Ask(t, "pq.jobs.admin.config", `{"dedup_window":"1h"}`) // the usual window may end while a busy machine fills the log
	const most = 64 << 20
	body := strings.Repeat("x", 1000<<10)
	var refused *nats.Msg
	pushed := 0
	for refused == nil {
		answer := s.Ask(t, "pq.jobs.push.1", body, "Nats-Msg-Id", strconv.Itoa(pushed))
		switch code := answer.Header.Get("Nats-Service-Error-Code"); code {
		case "":
			pushed++
		case "429":
			refused = answer
		default:
			t.Fatalf("push %d: %+v", pushed, answer.Header)
		}
		if pushed > most/len(body) {
			t.Fatal("more was pushed than the log has room for")
		}
	}
	if reason := refused.Header.Get("PQ-Reason"); reason != "store_full" {
		t.Errorf("the reason is %q, expected store_full", reason)
	}
	if again := s.Ask(t, "pq.jobs.push.1", body, "Nats-Msg-Id", "0"); !strings.Contains(string(again.Data), `"duplicate":true`) {
		t.Errorf("a repeated push was answered %+v %s, expected a duplicate", again.Header, again.Data)
	}
	if s.Status(t).Log.Bytes < most/10*8 {
		t.Errorf("pushes are refused at %+v", s.Status(t).Log)
	}
	lease := s.Ask(t, "pq.jobs.pop.min", "", "PQ-Lease", "1h")
	settled, err := s.Nc.Request(lease.Reply, []byte("+ACK"), testenv.Patience())
	if err != nil || settled.Header.Get("Status") != "" {
		t.Errorf("the settlement was answered %+v, %v", settled, err)
	}
	if batch := s.Ask(t, "pq.jobs.pop.min", ""); len(batch.Data) != len(body) {
		t.Errorf("the pop was answered %+v", batch)
	}
	testenv.Daemon(t, s.Env("b")...)
	testenv.Await(t, "pushes are accepted again", func() bool {
		answer := s.Ask(t, "pq.jobs.push.1", body)
		return answer.Header.Get("Nats-Service-Error-Code") == ""
	})
	var info protocol.Info
	if err := json.Unmarshal(s.Ask(t, "pq.jobs.info", "").Data, &info); err != nil || info.Ready < int64(pushed-1) { // two were popped, at least one was pushed
		t.Errorf("%s items are ready (%v), expected %d or more", strconv.FormatInt(info.Ready, 10), err, pushed-1)
	}
}

// The NATS server of the only pqd is cut off from the two others. pqd goes to one of them,
// and serves there: it takes as long as an election does.
func TestServerCutOff(t *testing.T) {
	t.Parallel()
	if *pqd.Ops == 0 {
		t.Skip("no -pq.ops: NATS takes half a minute for this")
	}
	servers := testenv.NewCluster(t)
	env := []string{
		"NATS_URL=" + servers.URL(), "PQ_STORE=jetstream:pq?sync=always&max_bytes=64M", "PQ_UNPROTECTED=log",
		"PQ_NODE=a", "PQ_DATA=" + t.TempDir(),
	}
	if code, _, stderr := testenv.Run(t, env, "init"); code != 0 {
		t.Fatalf("pqd init ended with exit code %d: %s", code, stderr)
	}
	testenv.Daemon(t, env...)
	at := func() (i int) {
		return slices.IndexFunc(servers.Servers, func(s *testenv.Server) bool {
			all, err := s.Server().Connz(&server.ConnzOptions{})
			return err == nil && slices.ContainsFunc(all.Conns, func(c *server.ConnInfo) bool { return c.Name == "pqd log" })
		})
	}
	first := at()
	nc := servers.Servers[(first+1)%3].Connect(t)
	push := func(text string) {
		t.Helper()
		testenv.Await(t, text+" is pushed", func() bool {
			m := nats.NewMsg("pq.jobs.push.1")
			m.Data = []byte(text)
			m.Header.Set("Nats-Msg-Id", text)
			reply, err := nc.RequestMsg(m, testenv.Attempt())
			return err == nil && reply.Header.Get("Nats-Service-Error") == ""
		})
	}
	push("before")
	servers.Isolate(first)
	began := time.Now()
	push("after")
	t.Logf("pushes were accepted again after %s", time.Since(began).Round(time.Second))
	if at() == first {
		t.Error("pqd is still at the server that is cut off")
	}
	for _, want := range []string{"before", "after"} {
		if m, err := nc.Request("pq.jobs.pop.min", nil, testenv.Patience()); err != nil || string(m.Data) != want {
			t.Errorf("popped %+v, %v, expected %q", m, err, want)
		}
	}
	servers.Join(first)
}
