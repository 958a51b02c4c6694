package bridge_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/subjects"
	"github.com/pqbridge/pqbridge/testenv"
)

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
