package bridge_test

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/subjects"
	"github.com/pqbridge/pqbridge/testenv"
)

// A bridge that sheds load refuses a push on inboxes only, like every request.
func TestSheddingAnswersInboxesOnly(t *testing.T) {
	t.Parallel()
	c := serve(t)
	refuse := func(reply string) {
		t.Helper()
		if err := bridge.RefuseUnread(c.env.Bridge, c.env.Store.ID(), &nats.Msg{Subject: "pq.jobs.push", Reply: reply}); err != nil {
			t.Fatal(err)
		}
	}
	heard := c.hear(">")
	inbox := c.listen()
	if err := c.Flush(); err != nil { // before the bridge publishes on its own connection
		t.Fatal(err)
	}
	for _, reply := range []string{"", "orders.new", "pq.safe.admin.purge", "_INBOXES.x", "_INBOX." + c.env.Store.ID() + ".take.jobs"} {
		refuse(reply)
	}
	refuse(inbox.inbox)
	if m := c.next(inbox); m.Header.Get("Nats-Service-Error-Code") != "503" || len(m.Data) > 0 {
		t.Errorf("answer %v, %q: expected 503 and no body", m.Header, m.Data)
	}
	// The bridge has published in this order, and on one connection.
	for {
		m := c.next(heard)
		if m.Subject == inbox.inbox {
			break
		}
		if !strings.HasPrefix(m.Subject, "pq.jobs.event.error") {
			t.Errorf("heard %v on %s", m.Header, m.Subject)
		}
	}
}

// While the bridge handles nothing, a tenant's messages beyond those in line are refused unread, whatever they are, and say
// so as clients understand it. Other tenants are served, and no load is shed.
func TestFloodOfTenant(t *testing.T) {
	t.Parallel()
	g := &gated{entered: make(chan struct{}, 1), open: make(chan struct{})}
	c := serve(t, bridge.Options{Tracer: g, Exclusive: true, Tenants: func(string) bridge.Quotas { return bridge.Quotas{} }})
	held := c.send("pq.held.jobs.push.x", "")
	select {
	case <-g.entered:
	case <-testenv.Late():
		t.Fatal("the callback was not reached")
	}
	const room = 4096
	sub := c.listen()
	for range room {
		if err := c.PublishRequest("pq.flood.jobs.info", sub.inbox, nil); err != nil {
			t.Fatal(err)
		}
	}
	statuses := map[string]string{"info": "429", "nonsense": "429", "ack.a.b": "503", "push": "", "push.high": ""}
	refused := make(map[string]answers) // they come after a while
	for subject := range statuses {
		refused[subject] = c.send("pq.flood.jobs."+subject, strings.Repeat("x", 1<<19))
	}
	long := c.send("pq.flood.jobs.push", "", "A", strings.Repeat("x", 66_000))
	for subject, status := range statuses {
		m := c.refused(c.next(refused[subject]), 429, "busy")
		if got := m.Header.Get("Status"); got != status {
			t.Errorf("%s: status %q, expected %q", subject, got, status)
		}
		if strings.HasPrefix(subject, "push") && !strings.Contains(string(m.Data), `"code":429`) {
			t.Errorf("%s: %s", subject, m.Data)
		}
	}
	c.refused(c.next(long), 429, "busy")
	events := c.hear("pq.flood.jobs.event.error")
	if err := c.Publish("pq.flood.jobs.push.high", nil); err != nil {
		t.Fatal(err)
	}
	if m := c.next(events); !strings.Contains(string(m.Data), `"code":429`) {
		t.Errorf("event %s", m.Data)
	}
	neighbour := c.send("pq.calm.jobs.push", "x")
	if err := c.Publish("pq.flood.jobs.push", nil); err != nil { // which is refused behind it
		t.Fatal(err)
	}
	c.next(events)
	close(g.open)
	c.acknowledged(c.next(neighbour))
	c.refused(c.next(held), 400)
	for range room {
		c.refused(c.next(sub), 404)
	}
	registry := c.registry()
	if n := metric(t, registry, "pq_load_shedding_total"); n > 0 {
		t.Errorf("the bridge shed load %v times", n)
	}
	if got := unread(t, registry); got["flood"] != 8 || got["calm"] != 0 {
		t.Errorf("unread are %v", got)
	}
}

// A tenant that sends more than twice its rate, and far too many at all, floods the bridge.
func TestFloodBeyondRate(t *testing.T) {
	nightly.Only(t, "TestFloods says who floods, and TestFloodOfTenant what becomes of a flood")
	t.Parallel()
	c, rate := withRate(t)
	rate.becomes(10)
	registry, sub := c.registry(), c.listen()
	for late := testenv.BeginWait(); unread(t, registry)["flood"] == 0; {
		if late.Over() {
			t.Fatal("all messages are read")
		}
		for _, subject := range []string{"info", "nonsense", "ack.a.b"} {
			for range 500 {
				if err := c.PublishRequest("pq.flood.jobs."+subject, sub.inbox, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range 1500 {
			c.next(sub) // each is answered
		}
	}
	c.push("pq.calm.jobs.push", "x")
	if n := unread(t, registry)["calm"]; n > 0 {
		t.Errorf("%v messages of another tenant are refused unread", n)
	}
}

// unread are the messages of tenants that were refused unread.
func unread(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]float64)
	for _, f := range families {
		if f.GetName() == "pq_tenant_unread_total" {
			for _, m := range f.Metric {
				found[m.Label[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	return found
}

// Refusals are sent in their order, a few before the server has got those before.
func TestRefusals(t *testing.T) {
	t.Parallel()
	const many, atOnce = 4096, 32
	flushed, done := 0, make(chan struct{})
	do, _ := bridge.NewRefusals(func() { flushed++ })
	entered, open := make(chan struct{}), make(chan struct{})
	do(func() {
		close(entered)
		<-open
	})
	<-entered
	var sent []int
	for i := range many {
		do(func() { sent = append(sent, i) })
	}
	do(func() { close(done) })
	close(open)
	select {
	case <-done:
	case <-testenv.Late():
		t.Fatal("not all are sent")
	}
	for i, n := range sent {
		if i != n {
			t.Fatalf("number %d is sent as number %d", n, i)
		}
	}
	if len(sent) != many || flushed != many/atOnce {
		t.Errorf("%d are sent, and %d times the server had them", len(sent), flushed)
	}
}

// A refusal of what was not read is sent after a pause. Those without room are left out.
func TestRefusalsAfterAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const pause, room = 2 * time.Second, 100
		_, after := bridge.NewRefusals(func() {})
		var sent atomic.Int64
		for round := range 2 {
			sent.Store(0)
			for range room + 10 {
				after(pause, room, func() { sent.Add(1) })
			}
			<-time.After(pause - 1)
			early := sent.Load()
			<-time.After(1)
			synctest.Wait()
			if got := sent.Load(); early != 0 || got != room {
				t.Errorf("round %d: %d are sent before the pause is over, and %d in all", round, early, got)
			}
		}
	})
}

// A request names its reply subject, and the answer is published with the bridge's
// rights. A request whose reply subject is no inbox is neither done nor answered.
func TestOnlyInboxesAreAnswered(t *testing.T) {
	t.Parallel()
	diary := newDiary()
	c := serve(t, bridge.Options{Logger: slog.New(diary)})
	c.push("pq.jobs.push", "there", "X-Mine", "1")
	c.push("pq.work.push", "leased")
	ack := c.pop("pq.work.pop.min", "", "PQ-Lease", "1h").Reply
	lost := c.hear("pq.*.event.error")
	heard := c.hear(">")
	for _, reply := range []string{
		"orders.new", "pq.safe.admin.purge", "pq.jobs.event.dead", "_INBOX", "_INBOXES.x", "_INBOX_mine.x", "_R.x",
		"_INBOX." + c.env.Store.ID() + ".take.jobs", // where bridges talk
	} {
		for _, subject := range []string{
			"pq.jobs.pop.min", "pq.jobs.peek.min", "pq.jobs.info", "pq.jobs.list", "pq.jobs.admin.purge", "pq.jobs.pish", "pq._sys.list",
			"pq.jobs.push", "pq.jobs.import", "pq.jobs.push.x", ack, "$SRV.PING", "$SRV.INFO.pq", "$SRV.STATS.pq",
		} {
			for _, body := range []string{"", "5"} {
				if err := c.PublishRequest(subject, reply, []byte(body)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if info := c.info("jobs"); info.Ready != 1 || info.Leased != 0 {
		t.Errorf("%+v", info)
	}
	if info := c.info("work"); info.Leased != 1 {
		t.Errorf("%+v", info)
	}
	if m := c.next(lost); !strings.Contains(string(m.Data), `"queue":"jobs","code":403`) || !strings.Contains(string(m.Data), "expected an inbox") {
		t.Errorf("the event of lost pushes is %s", m.Data)
	}
	said := 0
	for len(diary.lines) > 0 {
		if strings.Contains(<-diary.lines, "refused a request") {
			said++
		}
	}
	if said == 0 {
		t.Error("no line is about refused requests")
	}
	for len(heard.came) > 0 {
		m := c.next(heard)
		if m.Header != nil || strings.HasPrefix(string(m.Data), "{") && !strings.Contains(m.Subject, ".event.error") && !strings.HasPrefix(m.Subject, c.inboxes()) {
			t.Errorf("heard %q, %v on %s", m.Data, m.Header, m.Subject)
		}
	}
}

// The line of an answer has the reply subject, and for a leased item the subject that settles it. A server ends the
// connection of a bridge whose line is longer than its max_control_line.
func TestLongReplySubjects(t *testing.T) {
	t.Parallel()
	diary := newDiary()
	c := serve(t, bridge.Options{Logger: slog.New(diary)})
	queue := strings.Repeat("q", subjects.MaxQueue) + "-dead"
	push, pop := "pq."+queue+".push", "pq."+queue+".pop.min"
	c.push(push, "x")
	inbox := func(bytes int) string {
		reply := c.NewRespInbox() + "."
		return reply + strings.Repeat("x", bytes-len(reply))
	}
	ask := func(subject, reply string) {
		t.Helper()
		if err := c.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Header: h("PQ-Lease", "1h")}); err != nil {
			t.Fatal(err)
		}
	}
	for _, bytes := range []int{subjects.MaxReply + 1, 3000, 3500, 3950} {
		ask(pop, inbox(bytes))
		if info := c.info(queue); info.Ready != 1 || info.Leased != 0 {
			t.Fatalf("%d bytes: %+v", bytes, info)
		}
	}
	said := 0
	for len(diary.lines) > 0 {
		if line := <-diary.lines; strings.Contains(line, "refused a request") && strings.Contains(line, " queue="+queue+" ") {
			said++
		}
	}
	if said != 4 {
		t.Errorf("%d lines about refused requests to the queue, expected 4", said)
	}
	lost := c.hear("pq.*.event.error")
	if err := c.PublishRequest(push, inbox(3500), nil); err != nil {
		t.Fatal(err)
	}
	if m := c.next(lost); !strings.Contains(string(m.Data), `"code":403`) || !strings.Contains(string(m.Data), "has 3500 bytes: expected at most 1024") {
		t.Errorf("the event of a lost push is %s", m.Data)
	}
	longest := c.hear(inbox(subjects.MaxReply))
	ask(pop, longest.inbox)
	c.accepted(c.raw(c.next(longest).Reply, "+ACK"))
	for _, tokens := range []string{"c." + strings.Repeat("t", subjects.MaxToken+1), strings.Repeat("c", subjects.MaxToken+1) + ".t"} {
		c.refused(c.raw("pq."+queue+".ack."+tokens, "+ACK"), 403)
	}
}

// inboxes is the prefix of the client's own inboxes.
func (c *client) inboxes() string {
	inbox := c.NewRespInbox()
	return inbox[:strings.LastIndexByte(inbox, '.')+1]
}

// A bridge also answers on the patterns in its options, but never below its prefix.
func TestReplySubjects(t *testing.T) {
	t.Parallel()
	c := serve(t, bridge.Options{ReplySubjects: []string{"app.*.replies", "mine.>", "one"}})
	ask := func(subject, reply string) *nats.Msg {
		t.Helper()
		at := c.hear(reply)
		if err := c.PublishRequest(subject, reply, nil); err != nil {
			t.Fatal(err)
		}
		return c.next(at)
	}
	for _, reply := range []string{"app.1.replies", "mine.a", "mine.a.b", "one", "_INBOX.x"} {
		c.refused(ask("pq.jobs.info", reply), 404)
		if m := ask("$SRV.PING.pq", reply); !strings.Contains(string(m.Data), `"name":"pq"`) {
			t.Errorf("%s: %q", reply, m.Data)
		}
	}
	before := c.stats()["info"].NumErrors
	for _, reply := range []string{"app.1.2.replies", "app.1", "app.1.replies.2", "app..replies", "mine", "one.two", "onetwo", "app.1.other"} {
		if err := c.PublishRequest("pq.jobs.info", reply, nil); err != nil {
			t.Fatal(err)
		}
		c.refused(c.ask("pq.jobs.list", ""), 404) // arrives behind it
		if after := c.stats()["info"]; after.NumErrors != before+1 {
			t.Errorf("a request to be answered at %s was done", reply)
		}
		before++
	}
	for _, bad := range []string{"", "a..b", ">.a", "a b"} {
		if b, err := bridge.Start(t.Context(), c.env.NATS.Connect(t), c.env.Store, bridge.Options{ReplySubjects: []string{bad}}); err == nil {
			c.drain(b)
			t.Errorf("a bridge answers at %q", bad)
		}
	}
}

// Requests from another account have a reply subject of the server, which is no inbox.
// Leases and batches work, and PQ-Ack settles.
func TestAcrossAccounts(t *testing.T) {
	t.Parallel()
	queues, app := server.NewAccount("QUEUES"), server.NewAccount("APP")
	env := &testenv.Bridged{Store: testenv.Store(t)}
	env.NATS = testenv.NATS(t, func(o *server.Options) {
		o.Accounts = []*server.Account{queues, app}
		o.Users = []*server.User{{Username: "bridge", Password: "b", Account: queues}, {Username: "app", Password: "a", Account: app}}
		if err := queues.AddServiceExportWithResponse("pq.>", server.Streamed, nil); err != nil {
			t.Fatal(err)
		}
		if err := app.AddServiceImport(queues, "pq.>", ""); err != nil {
			t.Fatal(err)
		}
	})
	var err error
	nc := env.NATS.Connect(t, append(bridge.ConnectOptions(nil), nats.UserInfo("bridge", "b"))...)
	if env.Bridge, err = bridge.Start(t.Context(), nc, env.Store, bridge.Options{}); err != nil {
		t.Fatal(err)
	}
	c := &client{TB: t, Conn: env.NATS.Connect(t, nats.UserInfo("app", "a")), env: env}
	t.Cleanup(func() { c.drain(env.Bridge) })
	for _, body := range []string{"a", "b", "c"} {
		c.push("pq.jobs.push", body)
	}
	m := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h")
	c.accepted(c.raw(m.Header.Get("PQ-Ack"), "+ACK"))
	if items := c.batch(c.send("pq.jobs.pop.min", "5")); len(items) != 2 {
		t.Errorf("%d items in a batch", len(items))
	}
}

// Discovery answers inboxes alone: what it says goes nowhere with the bridge's rights.
func TestDiscoveryAnswersInboxes(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for _, question := range []string{"$SRV.PING", "$SRV.INFO.pq", "$SRV.STATS.pq"} {
		for _, elsewhere := range []string{"orders.new", "pq.jobs.event.dead", "pq.jobs.admin.purge"} {
			heard := c.hear(elsewhere)
			if err := c.PublishRequest(question, elsewhere, nil); err != nil {
				t.Fatal(err)
			}
			c.ask(question, "") // answered behind it
			select {
			case m := <-heard.came:
				t.Errorf("%s: answered on %s with %s", question, m.Subject, m.Data)
			default:
			}
		}
	}
}
