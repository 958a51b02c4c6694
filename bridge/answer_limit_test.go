package bridge_test

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/testenv"
)

// serveWithin is serve on a server that lets messages of so many bytes pass.
func serveWithin(t *testing.T, maxPayload int32, options bridge.Options) *client {
	t.Helper()
	return serveWith(t, testenv.NATS(t, func(o *server.Options) { o.MaxPayload = maxPayload }), options)
}

// An item of the largest accepted size can be answered everywhere: with the longest names
// and numbers, leased, moved, dead and imported. A push with one byte more is refused.
func TestLargestItemIsAnswered(t *testing.T) {
	t.Parallel()
	for name, prefix := range map[string]string{"prefix": "pq", "longest prefix": strings.Repeat("p", 128)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serveWithin(t, 64<<10, bridge.Options{Prefix: prefix})
			queue := prefix + "." + strings.Repeat("q", 64)
			limit := object[struct{ Limits struct{ Payload int } }](c, prefix+"._sys.info", "").Limits.Payload
			low, high := strconv.Itoa(math.MinInt64), strconv.Itoa(math.MaxInt64)
			lease := []string{"PQ-Lease", "11h59m59.999999999s", "PQ-Band", "-9223372036854775807.." + high}
			header := "X: y\r\n"
			c.refused(c.ask(queue+".push", strings.Repeat("x", limit-len(header)+1), "X", "y"), 413)
			payload := strings.Repeat("x", limit-len(header))
			same := func(m *nats.Msg) *nats.Msg {
				t.Helper()
				if string(m.Data) != payload || m.Header.Get("X") != "y" {
					t.Fatalf("%d bytes, %v", len(m.Data), m.Header)
				}
				return m
			}
			id := c.push(queue+".push."+low, payload, "X", "y").ID
			c.ask(queue+".move."+id+"."+high, "")
			same(c.ask(queue+".peek.min", ""))
			same(c.ask(queue+".get."+id, ""))
			m := same(c.ask(queue+".pop.max", "", lease...))
			same(c.ask(queue+".get."+id, ""))
			c.accepted(c.raw(m.Reply, "+TERM "+strings.Repeat("r", 300)))
			m = same(c.ask(queue+"-dead.pop.max", "", lease...))
			c.accepted(c.raw(m.Reply, "-NAK 1h"))
			dead := same(c.ask(queue+"-dead.get."+m.Header.Get("PQ-Id"), ""))
			if got := len(dead.Header.Get("PQ-Dead-Reason")); got != 200 {
				t.Errorf("a reason of %d bytes", got)
			}
			back := prefix + "." + strings.Repeat("b", 64) + "-dead"
			dead.Header.Del("PQ-Not-Before")
			c.acknowledged(c.askMsg(&nats.Msg{Subject: back + ".import", Header: dead.Header, Data: dead.Data}))
			same(c.ask(back+".pop.min", "", lease...))
		})
	}
}

// An imported item whose dead-letter headers are longer than those made here must leave
// room for them.
func TestImportLeavesRoomForItsAnswer(t *testing.T) {
	t.Parallel()
	c := serve(t)
	id := c.push("pq.jobs.push.5", "x").ID
	long := strings.Repeat("t", 512)
	dead := []string{"PQ-Id", id, "PQ-Dead-Reason", long, "PQ-Origin", "jobs", "PQ-Origin-Id", long}
	c.refused(c.ask("pq.back.import", strings.Repeat("x", 1_046_900), dead...), 413)
	c.refused(c.ask("pq.back.pop.min", ""), 404, "unknown")
	most := 1_046_900
	for step := 1 << 10; step > 0; step /= 2 { // down to what is taken in
		for c.ask("pq.back.import", strings.Repeat("x", most-step), dead...).Header.Get("Nats-Service-Error-Code") == "413" {
			most -= step
		}
		c.ask("pq.back.admin.delete", "")
	}
	c.acknowledged(c.ask("pq.back.import", strings.Repeat("x", most-1), dead...))
	if m := c.pop("pq.back.pop.min", "", "PQ-Lease", "1h"); len(m.Data) != most-1 || m.Header.Get("PQ-Origin-Id") != long {
		t.Errorf("popped %d bytes, %v", len(m.Data), m.Header)
	}
}

// An item that was not pushed through a bridge, and that no answer can carry, stays in
// the queue.
func TestItemTooLargeToAnswerStays(t *testing.T) {
	t.Parallel()
	c := serve(t)
	id, err := fdbpq.ParseID(c.push("pq.other.push.5", "x").ID)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("t", 512)
	queue := c.env.Store.Queue("jobs")
	session := c.env.Store.Session()
	defer session.Release()
	if err := session.Update(t.Context(), func(tx kv.Tx) error {
		_, err := queue.Import(tx, fdbpq.Import{
			ID: id, Priority: 5, Payload: make([]byte, 1_046_900), Pushed: time.Now(),
			Dead: &fdbpq.DeadLetter{Reason: long, Origin: long, OriginID: long},
		})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"pop.min", "pop.max", "peek.min", "get." + id.String()} {
		c.refused(c.ask("pq.jobs."+verb, ""), 413)
	}
	c.refused(c.ask("pq.jobs.pop.min", "", "PQ-Lease", "1h"), 413)
	c.refused(c.raw("pq.jobs.pop.min", "5"), 413)
	c.refused(c.ask("pq.jobs.pop.min", "", "Nats-Msg-Id", "once"), 413)
	if info := c.info("jobs"); info.Ready != 1 || info.Leased != 0 {
		t.Errorf("%+v", info)
	}
	if m := c.ask("pq.jobs.remove."+id.String(), ""); m.Header.Get("Nats-Service-Error") != "" {
		t.Errorf("remove: %v", m.Header)
	}
}

// Every item is listed, however long it is in JSON: parts that do not fit are left out,
// and the items behind it follow.
func TestListOfHeadersThatGrow(t *testing.T) {
	t.Parallel()
	c := serveWithin(t, 64<<10, bridge.Options{})
	grows := strings.Repeat("\x01", 20_000) // \u0001 in JSON
	first := c.push("pq.jobs.push.1", "first", "X", grows).ID
	c.push("pq.jobs.push.2", "second", "X", grows)
	c.push("pq.jobs.push.3", "third", "X", "y")
	last := c.push("pq.jobs.push.4", "last").ID
	dead := []string{"PQ-Dead-Reason", "r", "PQ-Origin", "x", "PQ-Origin-Id", strings.Repeat("\x01", 500)}
	for _, bodies := range []string{"true", "false"} {
		var bodyOf, headers []string
		after := ""
		for {
			p := object[page](c, "pq.jobs.list", `{"bodies":`+bodies+after+`}`)
			for _, item := range p.Items {
				bodyOf = append(bodyOf, string(item.Body))
				headers = append(headers, item.Headers.Get("X"))
				if large := item.Priority < 3; large != (item.Headers == nil) {
					t.Errorf("%d: headers %v", item.Priority, item.Headers)
				}
			}
			if p.Next == "" {
				break
			}
			after = `,"after":"` + p.Next + `"`
		}
		want := []string{"", "", "third", "last"}
		if bodies == "false" {
			want = make([]string, 4)
		}
		if !slices.Equal(bodyOf, want) || !slices.Equal(headers, []string{"", "", "y", ""}) {
			t.Errorf("listed %q, %q", bodyOf, headers)
		}
	}
	if m := c.pop("pq.jobs.get."+first, ""); m.Header.Get("X") != grows {
		t.Errorf("get answers a header of %d bytes", len(m.Header.Get("X")))
	}
	// The rest must fit even into the smallest messages.
	tiny := serveWithin(t, 2<<10, bridge.Options{})
	tiny.acknowledged(tiny.ask("pq.dead.import", "", append(dead, "PQ-Id", last)...))
	if p := object[page](tiny, "pq.dead.list", ""); len(p.Items) != 1 || p.Items[0].ID != last {
		t.Errorf("listed %+v", p)
	}
}

// The same holds for a server with a very small max_payload.
func TestSmallestMaxPayload(t *testing.T) {
	t.Parallel()
	c := serveWithin(t, 2<<10, bridge.Options{})
	c.refused(c.ask("pq.jobs.push", strings.Repeat("x", 1900)), 413)
	c.push("pq.jobs.push", strings.Repeat("x", 1024))
	if m := c.pop("pq.jobs.pop.min", ""); len(m.Data) != 1024 {
		t.Errorf("popped %d bytes", len(m.Data))
	}
}
