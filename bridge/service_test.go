package bridge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/testenv"
)

// endpointNames are the endpoints that discovery shows, in this order.
var endpointNames = []string{"push", "import", "pop", "peek", "ack", "info", "list", "get", "result", "keys", "key", "schedules", "schedule", "sources", "links", "link", "cancel", "remove", "move", "requeue", "revoke", "admin", "admin-key", "admin-schedule", "admin-source", "admin-link", "sys", "cluster"}

// The bridge answers discovery as a micro service does, with true counters.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	c := serve(t, bridge.Options{Version: "1.2.3", StoreName: "local:x"})
	for range 3 {
		c.push("pq.jobs.push", "x")
	}
	c.refused(c.ask("pq.jobs.push.secret", ""), 400)
	c.pop("pq.jobs.pop.min", "")
	c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h")
	c.refused(c.ask("pq.none.pop.min", ""), 404)
	c.send("pq.none.pop.min", "", "PQ-Wait", forever)
	c.waiting("none", 1)

	var id string
	for _, subject := range []string{"$SRV.PING", "$SRV.PING.pq"} {
		ping := object[micro.Ping](c, subject, "")
		if ping.Name != "pq" || ping.Version != "1.2.3" || ping.Type != micro.PingResponseType ||
			ping.Metadata["prefix"] != "pq" || ping.Metadata["store_id"] != c.env.Store.ID() || strings.Contains(fmt.Sprint(ping), "local:x") {
			t.Errorf("%s: %+v", subject, ping)
		}
		id = ping.ID
	}
	info := object[micro.Info](c, "$SRV.INFO.pq."+id, "")
	if info.ID != id || info.Type != micro.InfoResponseType || len(info.Endpoints) != len(endpointNames) || info.Endpoints[0].QueueGroup != "pq" {
		t.Errorf("%+v", info)
	}
	for i, name := range endpointNames[:min(len(endpointNames), len(info.Endpoints))] {
		if info.Endpoints[i].Name != name {
			t.Errorf("endpoint %d is %s, expected %s", i, info.Endpoints[i].Name, name)
		}
	}
	stats := object[micro.Stats](c, "$SRV.STATS.pq."+id, "")
	if stats.ID != id || stats.Type != micro.StatsResponseType || stats.Started.IsZero() || len(stats.Endpoints) != len(endpointNames) {
		t.Errorf("%+v", stats)
	}
	if ping := object[struct{ Started time.Time }](c, "$SRV.PING.pq", ""); !ping.Started.Equal(stats.Started) {
		t.Errorf("by PING the bridge started at %v, by STATS at %v", ping.Started, stats.Started)
	}
	endpoints := c.stats()
	push, pop := endpoints["push"], endpoints["pop"]
	if push.NumRequests != 4 || push.NumErrors != 1 || push.LastError != "400: Bad Request" || push.ProcessingTime <= 0 ||
		push.AverageProcessingTime != push.ProcessingTime/4 {
		t.Errorf("push: %+v", push)
	}
	if pop.NumRequests != 3 || pop.NumErrors != 0 || pop.LastError != "" {
		t.Errorf("pop: %+v", pop)
	}
	shown := c.queueStats()
	if q := shown["jobs"]; len(shown) != 1 || q.Ready != 1 || q.Leased != 1 || q.Oldest <= 0 {
		t.Errorf("%+v", shown)
	}
}

// A bridge refuses to serve beside one with the same prefix and another store,
// which would get a share of every queue.
func TestRefusesToSplitQueues(t *testing.T) {
	t.Parallel()
	c := serve(t, bridge.Options{StoreName: "local:first"})
	start := func(o bridge.Options, mine bool) (*bridge.Bridge, error) {
		store := c.env.Store
		if !mine {
			store = testenv.Store(t)
		}
		return bridge.Start(t.Context(), c.env.NATS.Connect(t, bridge.ConnectOptions(nil)...), store, o)
	}
	_, err := start(bridge.Options{StoreName: "local:second", Exclusive: true}, false)
	if err == nil || !strings.Contains(err.Error(), "local:second") || !strings.Contains(err.Error(), c.env.Store.ID()) {
		t.Errorf("a second store was accepted: %v", err)
	}
	for name, tc := range map[string]struct {
		options bridge.Options
		mine    bool
	}{
		"another prefix": {bridge.Options{Prefix: "other", Exclusive: true}, false},
		"the same store": {bridge.Options{Exclusive: true}, true},
	} {
		b, err := start(tc.options, tc.mine)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		c.drain(b)
	}
	// A service of the same name that is no bridge.
	if _, err := c.Subscribe("$SRV.INFO.pq", func(m *nats.Msg) {
		body, _ := json.Marshal("hello")
		m.Respond(body)
	}); err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	b, err := start(bridge.Options{Exclusive: true}, true)
	if err != nil {
		t.Fatal(err)
	}
	c.drain(b)
	c.push("pq.jobs.push", "x")
}

// metrics returns what all metrics say now, by name and labels except the label of the store. It reads the store.
func (c *client) metrics() map[string]float64 {
	c.Helper()
	return c.gather(c.env.Bridge.Collector())
}

// own returns what the metrics of the bridge itself say now.
func (c *client) own() map[string]float64 {
	c.Helper()
	return c.gather(bridge.OwnCollector(c.env.Bridge))
}

func (c *client) gather(from prometheus.Collector) map[string]float64 {
	c.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(from); err != nil {
		c.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		c.Fatal(err)
	}
	values := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				if l.GetName() != "store" {
					labels = append(labels, l.GetName()+"="+l.GetValue())
				}
			}
			key := f.GetName() + "{" + strings.Join(labels, ",") + "}"
			values[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return values
}

// The metrics agree with the requests and with each other.
func TestMetrics(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.push("pq.jobs.push", "x")
	c.refused(c.ask("pq.jobs.push", "", "PQ-X", "1"), 400)
	// An answer may arrive before it has been counted.
	var values map[string]float64
	testenv.Await(t, "both are counted", func() bool {
		values = c.metrics()
		return values["pq_request_seconds{verb=push}"] == 2 && values["pq_requests_in_flight{kind=work}"] == 0
	})
	for key, want := range map[string]float64{
		"pq_requests_total{code=200,verb=push}":   1,
		"pq_requests_total{code=400,verb=push}":   1,
		"pq_request_seconds{verb=push}":           2,
		"pq_batch_requests{kind=push}":            1,
		"pq_transaction_seconds{kind=push}":       1,
		"pq_requests_in_flight{kind=work}":        0,
		"pq_bytes_in_flight{}":                    0,
		"pq_waiters{}":                            0,
		"pq_pushes_lost_total{}":                  0,
		"pq_queue_items{queue=jobs,state=ready}":  1,
		"pq_queue_items{queue=jobs,state=leased}": 0,
	} {
		if got, ok := values[key]; !ok || got != want {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
}

// The number of series is bounded, however many queues there are and whatever clients
// send.
func TestMetricsAreBounded(t *testing.T) {
	t.Parallel()
	c := serve(t)
	const most = 1000
	err := c.env.Store.Session().Update(t.Context(), func(tx kv.Tx) error {
		for i := range most + 100 {
			if _, err := c.env.Store.Queue("queue-"+strconv.Itoa(i)).Configure(tx, []byte(`{}`)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	series := func() (all, queues int) {
		shown := make(map[string]bool)
		metrics := c.metrics()
		for key := range metrics {
			if name, label, is := strings.Cut(key, "{queue="); is && !strings.HasSuffix(name, "_total") { // the store was asked about it
				queue, _, _ := strings.Cut(strings.TrimSuffix(label, "}"), ",")
				shown[queue] = true
			}
		}
		return len(metrics), len(shown)
	}
	for _, subject := range []string{"pq.jobs.x", "pq.jobs.push.x", "pq._x.push"} {
		c.refused(c.ask(subject, ""), 400)
	}
	before, queues := series()
	for late := testenv.BeginWait(); queues < most && !late.Over(); {
		before, queues = series() // a busy store shows what it can in time
	}
	if queues != most || before > 34*most {
		t.Errorf("%d series of %d queues, expected up to 34 for each of %d", before, queues, most)
	}
	if shown := len(c.queueStats()); shown > 200 {
		t.Errorf("STATS shows %d queues, expected 200 at most", shown)
	}
	for i := range 100 {
		name := strconv.Itoa(i)
		c.refused(c.ask("pq.jobs.x"+name, ""), 400)
		c.refused(c.ask("pq.jobs.push.x"+name, ""), 400)
		c.refused(c.ask("pq._x"+name+".push", "", "PQ-"+name, name), 400)
	}
	if after, _ := series(); after != before {
		t.Errorf("%d series, and %d after more of the same", before, after)
	}
}

// diary is a log whose lines a test can wait for.
type diary struct {
	slog.Handler
	lines chan string
}

func newDiary() diary { return diary{slog.DiscardHandler, make(chan string, 1<<12)} }

func (d diary) Enabled(context.Context, slog.Level) bool { return true }

func (d diary) Handle(_ context.Context, r slog.Record) error {
	text := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	d.lines <- text
	return nil
}

// await returns the next line with this text.
func (d diary) await(t testing.TB, text string) string {
	t.Helper()
	late := testenv.Late()
	for {
		select {
		case line := <-d.lines:
			if strings.Contains(line, text) {
				return line
			}
		case <-late:
			t.Fatalf("nothing was logged about %s", text)
		}
	}
}

// solo is a bridge on a store of its own that cannot be shared.
type solo struct {
	nc     *nats.Conn
	bridge *bridge.Bridge
	store  *fdbpq.Store
	diary  diary
}

// alone starts a bridge that connects to the first of the servers and knows
// the others.
func alone(t *testing.T, servers ...*testenv.Server) *solo {
	t.Helper()
	s := &solo{store: testenv.Store(t), diary: newDiary()}
	log := slog.New(s.diary)
	var others []string
	for _, server := range servers {
		others = append(others, server.URL())
	}
	options := append(bridge.ConnectOptions(log), nats.DontRandomize(), func(o *nats.Options) error {
		o.Servers = others
		return nil
	})
	s.nc = servers[0].Connect(t, options...)
	var err error
	s.bridge, err = bridge.Start(t.Context(), s.nc, s.store, bridge.Options{Exclusive: true, StoreName: "local:" + t.Name(), Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.drain(t)
		for t.Failed() && len(s.diary.lines) > 0 {
			t.Logf("%s logged %s", s.store.ID(), <-s.diary.lines)
		}
	})
	return s
}

func (s *solo) drain(t *testing.T) { (&client{TB: t}).drain(s.bridge) }

// Of two bridges with different stores on one server, the one that started later goes on
// standby until the other one has gone.
func TestStandbyAfterReconnect(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name       string
		elderMoves bool
	}{
		{"the younger one comes", false},
		{"the elder one comes", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			left, right := testenv.NATS(t), testenv.NATS(t)
			var elder, younger *solo
			if tc.elderMoves {
				elder = alone(t, left, right)
				younger = alone(t, right)
			} else {
				elder = alone(t, right)
				younger = alone(t, left, right)
			}
			c := &client{TB: t, Conn: right.Connect(t)}
			var waiter answers
			if tc.elderMoves {
				c.env = &testenv.Bridged{NATS: right, Store: younger.store, Bridge: younger.bridge}
				waiter = c.send("pq.jobs.pop.min", "", "PQ-Wait", "100s")
				c.waiting("jobs", 1)
			}
			left.Shutdown()
			line := younger.diary.await(t, "on standby")
			if !strings.HasPrefix(line, "ERROR") || !strings.Contains(line, elder.store.ID()) || !strings.Contains(line, younger.store.ID()) {
				t.Errorf("logged %s", line)
			}
			if tc.elderMoves {
				c.refused(c.next(waiter), 409)
				elder.diary.await(t, "a bridge that started later serves beside this one")
			}
			if err := younger.bridge.Ready(); err == nil || !strings.Contains(err.Error(), elder.store.ID()) {
				t.Errorf("ready: %v", err)
			}
			if err := elder.bridge.Ready(); err != nil {
				t.Error(err)
			}
			served := func(by *solo, n int) {
				t.Helper()
				for i := range n {
					c.push("pq.jobs.push", strconv.Itoa(i))
				}
				for i := range n {
					if m := c.pop("pq.jobs.pop.min", ""); string(m.Data) != strconv.Itoa(i) {
						t.Fatalf("popped %q, expected %d", m.Data, i)
					}
				}
				if list := object[struct{ Total int }](c, "pq._sys.list", ""); list.Total != 1 {
					t.Errorf("%d queues", list.Total)
				}
				if info := object[struct {
					StoreID string `json:"store_id"`
				}](c, "pq._sys.info", ""); info.StoreID != by.store.ID() {
					t.Errorf("served by store %s, expected %s", info.StoreID, by.store.ID())
				}
			}
			served(elder, 20)

			elder.drain(t)
			up := younger.nc.StatusChanged(nats.CONNECTED) // it may serve again before it has reconnected
			if err := younger.nc.ForceReconnect(); err != nil {
				t.Fatal(err)
			}
			await(t, up, "the younger one connects again")
			younger.diary.await(t, "serving again")
			if err := younger.bridge.Ready(); err != nil {
				t.Error(err)
			}
			served(younger, 20)
			sub := c.send("pq.jobs.pop.min", "", "PQ-Wait", "100s")
			c.waiting("jobs", 1)
			c.push("pq.jobs.push", "for who waits")
			if m := c.next(sub); string(m.Data) != "for who waits" {
				t.Errorf("%q, %v", m.Data, m.Header)
			}
		})
	}
}

// A bridge on standby drains like any other.
func TestDrainsOnStandby(t *testing.T) {
	t.Parallel()
	left, right := testenv.NATS(t), testenv.NATS(t)
	elder := alone(t, right)
	younger := alone(t, left, right)
	held := (&client{TB: t, Conn: left.Connect(t)}).lease("held")
	left.Shutdown()
	younger.diary.await(t, "on standby")
	elder.drain(t)
	c := &client{TB: t, Conn: right.Connect(t)}
	c.raw(held.Reply, "+ACK") // by the server, or by the bridge if that has come back
	younger.drain(t)
	if err := younger.bridge.Ready(); err == nil {
		t.Error("ready after it has ended")
	}
}

// A copy of an embedded store is another store although it has the same id: a restored
// backup does not serve beside its original.
func TestCopyOfAStoreIsARival(t *testing.T) {
	t.Parallel()
	server := testenv.NATS(t)
	original := alone(t, server)
	start := func(exclusive bool) (*bridge.Bridge, error) {
		return bridge.Start(t.Context(), server.Connect(t, bridge.ConnectOptions(nil)...), original.store, bridge.Options{Exclusive: exclusive, StoreName: "local:copy"})
	}
	_, err := start(true)
	if err == nil || !strings.Contains(err.Error(), "with a copy of this store") || !strings.Contains(err.Error(), original.store.ID()) {
		t.Errorf("a bridge on a copy started beside the original: %v", err)
	}
	// A bridge on a shared store with the same id is no rival.
	shared, err := start(false)
	if err != nil {
		t.Fatal(err)
	}
	original.drain(t)
	(&client{TB: t}).drain(shared)
	copied, err := start(true)
	if err != nil {
		t.Fatalf("a bridge on a copy, after the original has gone: %v", err)
	}
	(&client{TB: t}).drain(copied)
}
