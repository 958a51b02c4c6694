package topologies_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/cases"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// sites are a hub and an edge, each with its pqd, and the link between them.
type sites struct {
	hub, edge *testenv.Process
	link      *testenv.Proxy
}

// throughHub is the address of the hub in the file of the edge.
const throughHub = "hub.example.com:7422"

// trusting has the user of an edge do what the page says for edges and a hub that trust each other.
func trusting(t *testing.T, pairs ...string) []string {
	t.Helper()
	const shared = `permissions: {publish: {deny: "pq.>"}, subscribe: {deny: "pq.>"}}`
	if !strings.Contains(pqd.Read(t, page), "`"+shared+"`") {
		t.Fatalf("%s does not say %s", page, shared)
	}
	return append([]string{`permissions: {
    publish: ["hub.pq.jobs.push", "hub.pq.jobs.push.*", "edge7.pq.*.event.*", "_INBOX.>"]
    subscribe: ["edge7.pq.>", "_INBOX.edge7.>"]
  }`, shared}, pairs...)
}

// embeddedSites are sites without any server but those inside pqd.
func embeddedSites(t *testing.T) sites {
	var s sites
	s.hub = with(t, file(t, "hub.conf", trusting(t, "0.0.0.0:7422", "127.0.0.1:-1")...), "PQ_SITE=hub")
	s.link = testenv.NewProxy(t, "nats://"+listensFor(t, s.hub, "leafnode"))
	s.edge = with(t, file(t, "edge.conf", throughHub, s.link.URL()[len("nats://"):], "  deny_imports: [\"pq.>\"], deny_exports: [\"pq.>\"] # pqd's own server adds this line by itself\n", ""), "PQ_SITE=edge7")
	return s
}

// outsideSites are sites with servers of their own.
func outsideSites(t *testing.T) sites {
	var s sites
	hub := natsServer(t, file(t, "hub.conf", trusting(t, "0.0.0.0:7422", "127.0.0.1:-1")...))
	s.link = testenv.NewProxy(t, "nats://"+leafAddress(t, hub))
	edge := natsServer(t, file(t, "edge.conf", throughHub, s.link.URL()[len("nats://"):]))
	s.hub, s.edge = beside(t, hub, "PQ_SITE=hub"), beside(t, edge, "PQ_SITE=edge7")
	return s
}

// A hub and an edge with the default prefix serve their own clients, and each other's by the name of the site.
func TestLeafNodes(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) sites{"servers of pqd": embeddedSites, "servers outside": outsideSites} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			hub, edge := s.hub.Connect(t, asPqd()), s.edge.Connect(t, asPqd())
			joined(t, edge, "hub.pq")
			joined(t, hub, "edge7.pq")
			for _, tc := range []struct {
				name, prefix string
				client       *nats.Conn
			}{
				{"at-hub-", "pq", hub}, {"at-edge-", "pq", edge},
				{"from-edge-", "hub.pq", edge}, {"from-hub-", "edge7.pq", hub},
			} {
				t.Run(tc.name, func(t *testing.T) {
					cases.Run(t, cases.File, "go", tc.prefix, tc.name, tc.client, &cases.Go{NC: tc.client})
				})
			}
			at := map[*nats.Conn][]string{hub: {"at-hub-", "from-edge-"}, edge: {"at-edge-", "from-hub-"}}
			for nc, want := range at {
				var got []string
				for _, queue := range queues(t, nc, "pq") {
					if run := beginning.FindString(queue); !slices.Contains(got, run) {
						got = append(got, run)
					}
				}
				if !slices.Equal(slices.Sorted(slices.Values(got)), want) {
					t.Errorf("a site has the queues of the runs %q, expected %q", got, want)
				}
			}
			worker := s.hub.Connect(t, nats.UserInfo("worker", passwords["WORKER_PASSWORD"]), nats.CustomInboxPrefix("_INBOX.worker"))
			pqd.Push(t, edge, "jobs", 1, "x")
			item := pqd.Request(t, worker, "edge7.pq.jobs.pop.min", "", "PQ-Lease", "1m")
			if m := pqd.Request(t, worker, item.Reply, "+ACK"); !testenv.IsItem(item) || m.Header.Get("Status") != "" {
				t.Errorf("the worker at the hub gets %v from the edge, and settles: %v", item.Header, m.Header)
			}
			for _, p := range []*testenv.Process{s.edge, s.hub} {
				p.Stop(t)
			}
		})
	}
}

// onItsWay is how long a request that a cut may have lost is waited for, before it is sent again.
func onItsWay() time.Duration { return testenv.Times(300 * time.Millisecond) }

// joined waits until a site is reached by its name.
func joined(t *testing.T, nc *nats.Conn, prefix string) {
	t.Helper()
	joinedBy(t, nc, prefix+"._sys.info")
}

// joinedBy waits until a request is answered.
func joinedBy(t *testing.T, nc *nats.Conn, subject string) {
	t.Helper()
	testenv.Await(t, subject+" is answered", func() bool {
		m, err := nc.Request(subject, nil, onItsWay())
		return err == nil && m.Header.Get("Status") != "503"
	})
}

// queues are those under a prefix.
func queues(t *testing.T, nc *nats.Conn, prefix string) []string {
	t.Helper()
	var list struct{ Queues []string }
	m := pqd.Request(t, nc, prefix+"._sys.list", `{"limit":1000}`)
	if err := json.Unmarshal(m.Data, &list); err != nil {
		t.Fatal(err)
	}
	return list.Queues
}

// beginning is what the queues of a run of the cases have in common.
var beginning = regexp.MustCompile(`^\D+`)

// While the link is cut, each site goes on. What one sends to the other then or at the moment of a cut is there
// once, and a lease outlives the cut.
func TestLeafNodeCut(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) sites{"servers of pqd": embeddedSites, "servers outside": outsideSites} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			hub, edge := s.hub.Connect(t, asPqd()), s.edge.Connect(t, asPqd())
			joined(t, edge, "hub.pq")
			joined(t, hub, "edge7.pq")
			pqd.PushMsg(t, edge, "hub.pq.long.push", "a long task")
			leased := pqd.Request(t, edge, "hub.pq.long.pop.min", "", "PQ-Lease", "1h")
			if !testenv.IsItem(leased) {
				t.Fatalf("%v %s", leased.Header, leased.Data)
			}
			cut(t, s.link, edge, hub)
			s.link.Block(false)
			joined(t, edge, "hub.pq")
			if m := pqd.Request(t, edge, leased.Reply, "+ACK"); m.Header.Get("Status") != "" {
				t.Errorf("the lease is lost: %v", m.Header)
			}
			acrossCuts(t, edge, "hub.pq", s.link)
			acrossCuts(t, hub, "edge7.pq", s.link)
		})
	}
}

// cut cuts the link, and looks at what goes on meanwhile.
func cut(t *testing.T, link *testenv.Proxy, edge, hub *nats.Conn) {
	t.Helper()
	link.Block(true)
	for subject, nc := range map[string]*nats.Conn{"hub.pq._sys.info": edge, "edge7.pq._sys.info": hub} {
		testenv.Await(t, subject+" is not reached", func() bool {
			_, err := nc.Request(subject, nil, onItsWay())
			return errors.Is(err, nats.ErrNoResponders)
		})
	}
	for _, nc := range []*nats.Conn{edge, hub} {
		pqd.Push(t, nc, "alone", 1, "while the link is cut")
		item := pqd.Lease(t, nc, "alone", "1m")
		if m := pqd.Request(t, nc, item.Reply, "+ACK"); m.Header.Get("Status") != "" {
			t.Errorf("a settlement while the link is cut: %v", m.Header)
		}
		pqd.ExpectEmpty(t, nc, "alone")
	}
}

// acrossCuts has a client push to another site, and pop there, while the link is cut again and again. It repeats what
// has no answer, with the same id. Each item is pushed once, and delivered once.
func acrossCuts(t *testing.T, nc *nats.Conn, prefix string, links ...*testenv.Proxy) {
	t.Helper()
	repeatedly(t, nc, prefix, "across", links...)
}

// repeatedly does so with a queue.
func repeatedly(t *testing.T, nc *nats.Conn, prefix, queue string, links ...*testenv.Proxy) {
	t.Helper()
	const items, every = 30, 10
	repeated := 0
	ask := func(subject, id, body string) *nats.Msg {
		for late := testenv.BeginWait(); !late.Over(); repeated++ {
			m := nats.NewMsg(subject)
			m.Data = []byte(body)
			m.Header.Set("Nats-Msg-Id", id)
			answer, err := nc.RequestMsg(m, onItsWay())
			if err == nil && answer.Header.Get("Status") != "503" && answer.Header.Get("Nats-Service-Error-Code") != "504" {
				return answer
			}
		}
		t.Fatalf("%s %s has no answer", subject, id)
		return nil
	}
	across := func(i int) {
		if i%every != 0 {
			return
		}
		// The request is on its way, and its answer does not come.
		for _, link := range links {
			release := link.HoldAnswers()
			go func() {
				<-time.After(time.Duration(i%3) * time.Millisecond)
				link.Cut()
				release()
			}()
		}
	}
	var want []string
	for i := range items {
		body := strconv.Itoa(i)
		want = append(want, body)
		across(i)
		if m := ask(prefix+"."+queue+".push", "push "+body, body); !testenv.IsAck(m) {
			t.Fatalf("push %s: %v %s", body, m.Header, m.Data)
		}
	}
	if repeated == 0 {
		t.Error("no cut had a request repeated")
	}
	var got []string
	for i := range items {
		across(i)
		m := ask(prefix+"."+queue+".pop.min", "pop "+strconv.Itoa(i), "")
		if !testenv.IsItem(m) {
			t.Fatalf("pop %d: %v %s", i, m.Header, m.Data)
		}
		got = append(got, string(m.Data))
	}
	if !slices.Equal(got, want) {
		t.Errorf("popped %q", got)
	}
	if m := ask(prefix+"."+queue+".pop.min", "the last", ""); m.Header.Get("Status") != "404" {
		t.Errorf("an item is left, or is there twice: %v %s", m.Header, m.Data)
	}
}

// While the pqd of a site is stopped, its clients' requests go to no other site.
func TestRequestsStayAtTheirSite(t *testing.T) {
	t.Parallel()
	s := outsideSites(t)
	hub := s.hub.Connect(t, asPqd())
	edge := s.edge.Connect(t, asPqd())
	joined(t, edge, "hub.pq")
	s.edge.Stop(t)
	for _, subject := range []string{"pq.jobs.push", "pq.jobs.pop.min", "pq._sys.list", "edge7.pq.jobs.push"} {
		if m, err := edge.Request(subject, []byte("x"), testenv.Patience()); !errors.Is(err, nats.ErrNoResponders) {
			t.Errorf("%s: %v, %v, expected no responders", subject, m, err)
		}
	}
	if got := queues(t, hub, "pq"); len(got) > 0 {
		t.Errorf("the hub has the queues %q", got)
	}
	s.edge.Start(t)
	edge = s.edge.Connect(t, asPqd())
	pqd.Push(t, edge, "jobs", 1, "x")
	joined(t, hub, "edge7.pq")
	if got := queues(t, hub, "edge7.pq"); !slices.Equal(got, []string{"jobs"}) {
		t.Errorf("the edge has the queues %q", got)
	}
}

// Events of a site stay there, and have its name elsewhere.
func TestEventsOfSites(t *testing.T) {
	t.Parallel()
	s := outsideSites(t)
	hub, edge := s.hub.Connect(t, asPqd()), s.edge.Connect(t, asPqd())
	joined(t, hub, "edge7.pq")
	heard := make(chan *nats.Msg, 100)
	for _, subject := range []string{"pq.*.event.*", "*.pq.*.event.*"} {
		if _, err := hub.ChanSubscribe(subject, heard); err != nil {
			t.Fatal(err)
		}
	}
	if err := hub.FlushTimeout(testenv.Patience()); err != nil {
		t.Fatal(err)
	}
	testenv.Await(t, "the event is heard", func() bool {
		pqd.Push(t, edge, "jobs", 1, "x")
		item := pqd.Lease(t, edge, "jobs", "1m")
		pqd.Request(t, edge, item.Reply, "+TERM broken")
		return len(heard) > 0
	})
	for len(heard) > 0 {
		if m := <-heard; m.Subject != "edge7.pq.jobs.event.dead" {
			t.Errorf("the hub hears %s", m.Subject)
		}
	}
}

// An edge whose user is that of the file serves the hub's workers, pushes to the queue that it may, and has its events heard. With
// the same login a hostile server hears none of the others and changes nothing of theirs.
func TestEdgeReachesItsOwnAlone(t *testing.T) {
	t.Parallel()
	hub := natsServer(t, file(t, "hub.conf", "0.0.0.0:7422", "127.0.0.1:-1"))
	link := strings.TrimPrefix("nats://"+leafAddress(t, hub), "nats://")
	server := natsServer(t, file(t, "edge.conf", throughHub, link))
	atHub, atEdge := beside(t, hub, "PQ_SITE=hub"), beside(t, server, "PQ_SITE=edge7")
	there := atHub.Connect(t, asPqd())
	joined(t, there, "edge7.pq")
	here := atEdge.Connect(t, asPqd(), nats.CustomInboxPrefix("_INBOX.edge7"))
	pqd.PushMsg(t, here, "hub.pq.jobs.push", "from the edge")
	if got := pqd.Drain(t, there, "jobs"); len(got) != 1 || got[0] != "from the edge" {
		t.Errorf("the hub has %q", got)
	}
	worker := atHub.Connect(t, nats.UserInfo("worker", passwordOf("worker")), nats.CustomInboxPrefix("_INBOX.worker"))
	events, err := there.SubscribeSync("edge7.pq.*.event.*")
	if err == nil {
		err = there.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	testenv.Await(t, "the event is heard", func() bool {
		pqd.Push(t, here, "jobs", 1, "x")
		item := pqd.Request(t, worker, "edge7.pq.jobs.pop.min", "", "PQ-Lease", "1m")
		if m := pqd.Request(t, worker, item.Reply, "+TERM broken"); m.Header.Get("Status") != "" {
			t.Fatalf("the worker settles: %v", m.Header)
		}
		_, err := events.NextMsg(onItsWay())
		return err == nil
	})

	evil := natsServer(t, file(t, "edge.conf", throughHub, link, `deny_imports: ["pq.>"], deny_exports: ["pq.>"]`, "", "server_name: edge7", "server_name: evil"))
	nc, err := nats.Connect(evil.ClientURL(), asPqd(), nats.CustomInboxPrefix("_INBOX.edge7"))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	heard, err := nc.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	joinedBy(t, nc, "hub.pq.jobs.push") // what it may do is there, so all of the link is
	for _, subject := range []string{"hub.pq._sys.info", "hub.pq.jobs.pop.min", "hub.pq.jobs.admin.purge", "hub.pq.other.push", "pq.jobs.push", "pq._sys.list", "$SRV.PING.pq"} {
		if m, err := nc.Request(subject, nil, onItsWay()); err == nil {
			t.Errorf("a hostile edge asks %s: %v %s", subject, m.Header, m.Data)
		}
	}
	pqd.Push(t, there, "jobs", 1, "secret")
	if got := pqd.Drain(t, there, "jobs"); !slices.Contains(got, "secret") {
		t.Errorf("the hub has %q", got)
	}
	joinedBy(t, nc, "hub.pq.jobs.push") // behind what it might have heard
	for n, _, _ := heard.Pending(); n > 0; n-- {
		m, err := heard.NextMsg(testenv.Patience())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(m.Data), "secret") || strings.HasPrefix(m.Subject, "_INBOX.") && !strings.HasPrefix(m.Subject, "_INBOX.edge7.") {
			t.Errorf("a hostile edge hears %s: %s", m.Subject, m.Data)
		}
	}
}
