package bridge_test

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/link"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// joined are a bridge at the edge with the queue orders, and one at the hub whose queue jobs takes from it.
type joined struct {
	edge, hub *client
	giver     atomic.Pointer[client] // whom the remote leads to
}

const taking = `{"remote":"edge","queue":"edge7.orders","link":"hub","batch":3}`

func joinSites(t *testing.T) *joined {
	t.Helper()
	at := chosen(nil)
	at.Prefix = "edge7"
	j := &joined{edge: serve(t, at)}
	j.giver.Store(j.edge)
	options := chosen(nil)
	options.Remotes = func() map[string]bridge.Remote {
		url := j.giver.Load().env.NATS.URL()
		return map[string]bridge.Remote{"edge": {
			Connect: func(o ...nats.Option) (*nats.Conn, error) { return dial(url, o) }, Identity: url,
			Take: map[string][]string{"edge7.orders": {"jobs"}, "edge7.none": {"jobs"}},
		}}
	}
	j.hub = serve(t, bridge.Hold(options, time.Millisecond))
	j.set()
	return j
}

// set makes the link.
func (j *joined) set() {
	j.edge.Helper()
	if l := object[protocol.Link](j.edge, "edge7.orders.admin.link.hub", fmt.Sprintf(`{"to":%q}`, j.hub.env.Store.ID())); l.State != "starting" {
		j.edge.Fatalf("the link is %+v", l)
	}
}

func (j *joined) push(texts ...string) {
	j.edge.Helper()
	for _, text := range texts {
		j.edge.push("edge7.orders.push", text)
	}
}

func (j *joined) pops(want ...string) {
	j.hub.Helper()
	for _, text := range want {
		if m := j.hub.pop("pq.jobs.pop.min", "", "PQ-Wait", forever); string(m.Data) != text {
			j.hub.Fatalf("popped %q with %v, expected %s", m.Data, m.Header, text)
		}
	}
}

func (j *joined) state(state, reason string) (s protocol.Source) {
	j.hub.Helper()
	testenv.Await(j.hub.TB, "the source is "+state+" "+reason, func() bool {
		s = object[protocol.Source](j.hub, "pq.jobs.admin.source.edge", "")
		return s.State == state && strings.Contains(s.Reason, reason)
	})
	return s
}

// again has the source ask at once, and not when its request or its pause is over.
func (j *joined) again() {
	j.hub.Helper()
	for _, verb := range []string{"pause", "resume"} {
		object[protocol.Source](j.hub, "pq.jobs.admin.source.edge."+verb, "")
	}
}

func (j *joined) shown() protocol.Link {
	j.edge.Helper()
	return object[protocol.Link](j.edge, "edge7.orders.admin.link.hub", "")
}

// asks is the request of a taker.
func (j *joined) asks(done int, batch string, header ...string) *nats.Msg {
	j.edge.Helper()
	return j.edge.ask("edge7.orders.link.hub", fmt.Sprintf(`{"taker":%q,"done":%d,"batch":%q,"max":2}`, j.hub.env.Store.ID(), done, batch), header...)
}

// Items come in their order, with what they are, to a queue of another store; what is said about them at the edge stays there.
func TestLink(t *testing.T) {
	t.Parallel()
	j := joinSites(t)
	pushed := j.edge.push("edge7.orders.push.7", "a", "PQ-Key", "k", "PQ-TTL", "1h", "PQ-Unique", "u", "Kind", "x", "Kind", "y")
	j.edge.push("edge7.orders.push.3", "first")
	made := object[protocol.Source](j.hub, "pq.jobs.admin.source.edge", taking)
	if made.Queue != "edge7.orders" || made.Link != "hub" || made.Stream != "" || made.Mode != "" || made.Start != nil || made.Batch != 3 {
		t.Errorf("made: %+v", made)
	}
	j.pops("first")
	m := j.hub.pop("pq.jobs.pop.min", "", "PQ-Wait", forever)
	if string(m.Data) != "a" || m.Header.Get("PQ-Priority") != "7" || m.Header.Get("PQ-Key") != "k" || fmt.Sprint(m.Header["Kind"]) != "[x y]" ||
		m.Header.Get("PQ-Source") != "edge" || m.Header.Get("PQ-Source-Id") != pushed.ID {
		t.Errorf("popped %q with %v", m.Data, m.Header)
	}
	j.push(numbers(1, 20)...)
	j.pops(numbers(1, 20)...)
	s := j.state("running", "")
	if s.Counts.Delivered != 22 || s.Seq == 0 || s.Last != 0 {
		t.Errorf("the source is %+v", s)
	}
	testenv.Await(t, "the edge has nothing any more", func() bool { return j.shown().Given == 22 })
	if l := j.shown(); l.State != "running" || l.Held != 0 || uint64(l.Batch) != s.Seq {
		t.Errorf("the link is %+v", l)
	}
	if page := object[protocol.LinksPage](j.edge, "edge7.orders.links", ""); len(page.Links) != 1 || page.Links[0].Name != "hub" {
		t.Errorf("page: %+v", page)
	}
	j.edge.push("edge7.orders.push", "ttl", "PQ-TTL", "1h")
	testenv.Await(t, "the item is there", func() bool { return j.hub.info("jobs").Ready == 1 })
	if m := j.hub.ask("pq.jobs.peek.min", ""); m.Header.Get("PQ-Source-Subject") != "" {
		t.Errorf("headers %v", m.Header)
	}
	stored := object[struct{ Items []protocol.Listed }](j.hub, "pq.jobs.list", "")
	if left := time.Until(stored.Items[0].Expires); left > time.Hour || left < time.Minute {
		t.Errorf("of the TTL %s are left", left)
	}
}

// A batch whose answer was lost comes again as it was; who asks as the taker did before gets nothing.
func TestLinkAnswerLost(t *testing.T) {
	t.Parallel()
	j := joinSites(t)
	j.push("a", "b", "c")
	first := j.asks(0, "")
	words := strings.Fields(first.Header.Get("PQ-Link-Batch"))
	if len(words) != 3 || words[0] != "1" || words[2] != "-" || first.Header.Get("PQ-Bundle") != "2" || first.Header.Get("PQ-Link-Giver") != j.edge.env.Store.ID() || first.Header.Get("PQ-Num-Pending") != "1" {
		t.Fatalf("answer with %v", first.Header)
	}
	if again := j.asks(0, ""); string(again.Data) != string(first.Data) || again.Header.Get("PQ-Link-Batch") != first.Header.Get("PQ-Link-Batch") {
		t.Errorf("again: %q with %v", again.Data, again.Header)
	}
	listed := object[struct{ Items []protocol.Listed }](j.edge, "edge7.orders.list", `{"state":"leased"}`).Items
	if len(listed) != 2 || !listed[0].Held || !listed[0].Due.IsZero() || listed[0].Holder != "link:hub" {
		t.Errorf("held: %+v", listed)
	}
	if i := object[info](j.edge, "edge7.orders.info", ""); i.Held != 2 || i.Leased != 2 || i.Ready != 1 {
		t.Errorf("info: %+v", i)
	}
	id := listed[0].ID
	if m := j.edge.ask("edge7.orders.get."+id, ""); m.Header.Get("PQ-Held") != "true" || m.Header.Get("PQ-Lease-Expires") != "" {
		t.Errorf("held: %v", m.Header)
	}
	for _, subject := range []string{"revoke." + id, "remove." + id, "move." + id + ".5", "requeue." + id, "admin.link.hub.delete"} {
		j.edge.refused(j.edge.ask("edge7.orders."+subject, ""), 409, "held")
	}
	stops := j.edge.hear("edge7.orders.event.link_stopped")
	j.edge.refused(j.asks(7, "x"), 409, "giver_behind")
	if m := j.edge.next(stops); !strings.Contains(string(m.Data), `"reason":"giver_behind"`) {
		t.Errorf("event %s", m.Data)
	}
	second := j.asks(1, words[1])
	if got := second.Header.Get("PQ-Link-Batch"); !strings.HasPrefix(got, "2 ") || !strings.HasSuffix(got, " "+words[1]) {
		t.Errorf("second: %v", second.Header)
	}
	j.edge.refused(j.asks(0, ""), 409, "taker_behind")
	if m := j.edge.ask("edge7.orders.link.hub", `{"taker":"another","done":0}`); !strings.Contains(m.Header.Get("Nats-Service-Error"), "another store") || strings.Contains(fmt.Sprint(m.Header), j.hub.env.Store.ID()) {
		t.Errorf("another one got %v", m.Header)
	}
	j.edge.refused(j.edge.ask("edge7.orders.link.hub", `{"taker":"another","done":0}`), 403)
	j.edge.refused(j.edge.ask("edge7.orders.link.hub", fmt.Sprintf(`{"taker":"t","done":0,"batch":%q}`, strings.Repeat("x", 8_000))), 400)
	j.edge.refused(j.edge.ask("edge7.orders.link.none", `{"taker":"t"}`), 404, "unknown")
	j.edge.refused(j.edge.ask("edge7.none.link.hub", `{"taker":"t"}`), 404, "unknown")
	third := strings.Fields(second.Header.Get("PQ-Link-Batch"))[1]
	j.edge.refused(j.asks(2, third), 404, "empty")
	if m := j.edge.ask("edge7.orders.info", ""); strings.Contains(string(m.Data), "held") {
		t.Errorf("nothing is held: %s", m.Data)
	}
	if deleted := object[protocol.LinkDeleted](j.edge, "edge7.orders.admin.link.hub.delete", ""); deleted.Returned != 0 {
		t.Errorf("deleted: %+v", deleted)
	}
}

// A request waits for items; one that is late gets what is out.
func TestLinkWaits(t *testing.T) {
	t.Parallel()
	j := joinSites(t)
	j.edge.push("edge7.orders.push", "a")
	id := strings.Fields(j.asks(0, "").Header.Get("PQ-Link-Batch"))[1]
	ask := fmt.Sprintf(`{"taker":%q,"done":1,"batch":%q}`, j.hub.env.Store.ID(), id)
	one := j.edge.send("edge7.orders.link.hub", ask, "PQ-Wait", forever)
	j.edge.ask("edge7.orders.admin.link.hub.pause", "")
	testenv.Await(t, "the request waits", func() bool { return object[info](j.edge, "edge7.orders.info", "").Waiting == 1 })
	j.push("b")
	if m := j.edge.refused(j.edge.ask("edge7.orders.link.hub", ask), 404, "paused"); m.Header.Get("Nats-Service-Error") != "the link hub of queue orders is paused" {
		t.Errorf("a paused link: %v", m.Header)
	}
	j.edge.ask("edge7.orders.admin.link.hub.resume", "")
	got := j.edge.next(one)
	if items := frameTexts(t, got); !slices.Equal(items, []string{"b"}) {
		t.Errorf("got %q", items)
	}
	if late := j.edge.ask("edge7.orders.link.hub", ask); string(late.Data) != string(got.Data) {
		t.Errorf("a late one got %q", late.Data)
	}
	ask = fmt.Sprintf(`{"taker":%q,"done":2,"batch":%q}`, j.hub.env.Store.ID(), strings.Fields(got.Header.Get("PQ-Link-Batch"))[1])
	object[protocol.Link](j.edge, "edge7.orders.admin.link.hub", `{"paused":true}`)
	one = j.edge.send("edge7.orders.link.hub", ask, "PQ-Wait", forever)
	testenv.Await(t, "the request waits", func() bool { return object[info](j.edge, "edge7.orders.info", "").Waiting == 1 })
	j.push("c")
	j.edge.refused(j.edge.ask("edge7.orders.link.hub", ask), 404, "paused")
	object[protocol.Link](j.edge, "edge7.orders.admin.link.hub", `{"paused":false}`) // as good as resume
	got = j.edge.next(one)
	if items := frameTexts(t, got); !slices.Equal(items, []string{"c"}) {
		t.Errorf("got %q", items)
	}
	j.edge.refused(j.edge.ask("edge7.orders.link.hub", fmt.Sprintf(`{"taker":%q,"done":3,"batch":%q}`, j.hub.env.Store.ID(), strings.Fields(got.Header.Get("PQ-Link-Batch"))[1]), "PQ-Wait", "10ms"), 408)
}

// frameTexts are the payloads of a batch.
func frameTexts(t *testing.T, m *nats.Msg) (all []string) {
	t.Helper()
	for rest := m.Data; len(rest) > 0; {
		var payload []byte
		var err error
		if _, payload, rest, err = protocol.NextFrame(rest); err != nil {
			t.Fatal(err)
		}
		all = append(all, string(payload))
	}
	if n := strconv.Itoa(len(all)); m.Header.Get("PQ-Bundle") != n {
		t.Fatalf("%s items with %v", n, m.Header)
	}
	return all
}

// A batch has as many items as its answer carries. One that was made when it had room for more stays out, and is refused.
func TestLinkFitsIntoItsAnswer(t *testing.T) {
	t.Parallel()
	const most = 16 << 10
	options := chosen(nil)
	options.Prefix = "edge7"
	c := serveWithin(t, most, options)
	j := &joined{edge: c, hub: c}
	ask := func(done int, batch string) *nats.Msg {
		return c.ask("edge7.orders.link.hub", fmt.Sprintf(`{"taker":"hub","done":%d,"batch":%q}`, done, batch))
	}
	c.ask("edge7.orders.admin.link.hub", `{"to":"hub"}`)
	var sizes, got []int
	for i := range 60 {
		size := 1 + (i*397)%3000
		if i%20 == 10 {
			size = most - 1<<10
		}
		sizes = append(sizes, size)
		c.push(fmt.Sprint("edge7.orders.push.", i), strings.Repeat("x", size))
	}
	done, batch := 0, ""
	for len(got) < len(sizes) {
		m := ask(done, batch)
		if bytes := m.Size() - len(m.Subject) - len(m.Reply); bytes > most {
			t.Errorf("an answer of %d bytes", bytes)
		}
		for _, text := range frameTexts(t, m) {
			got = append(got, len(text))
		}
		done, batch = done+1, strings.Fields(m.Header.Get("PQ-Link-Batch"))[1]
	}
	if !slices.Equal(got, sizes) {
		t.Errorf("got %v, pushed %v", got, sizes)
	}
	for range 3 {
		j.push(strings.Repeat("y", most/2))
	}
	session := c.env.Store.Session()
	defer session.Release()
	err := session.Update(t.Context(), func(tx kv.Tx) error {
		_, err := link.New(c.env.Store).Give(tx, c.env.Store.Queue("orders"), "hub", link.Ask{Taker: "hub", Done: int64(done), Batch: batch, Items: fdbpq.Selection{Limit: 10}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	stops := c.hear("edge7.orders.event.link_stopped")
	c.refused(ask(done, batch), 413)
	if m := c.next(stops); !strings.Contains(string(m.Data), "max_payload") {
		t.Errorf("event %s", m.Data)
	}
}

// What stops the taker, and how a person has it go on.
func TestLinkStops(t *testing.T) {
	t.Parallel()
	j := joinSites(t)
	j.push("a")
	if m := j.hub.ask("pq.jobs.admin.source.edge", `{"remote":"edge","queue":"edge7.others","link":"hub"}`); !strings.Contains(m.Header.Get("Nats-Service-Error"), `lets queue "jobs" take no items of "edge7.others"`) {
		t.Errorf("a queue that is not allowed: %v", m.Header)
	}
	object[protocol.Source](j.hub, "pq.jobs.admin.source.edge", taking)
	j.pops("a")
	j.state("running", "")
	testenv.Await(t, "the edge has nothing any more", func() bool { return j.shown().Given == 1 })
	stops := j.hub.hear("pq.jobs.event.source_stopped")
	object[protocol.LinkDeleted](j.edge, "edge7.orders.admin.link.hub.delete", `{"force":true}`)
	j.again()
	j.state("failing", "has no link hub")
	j.set()
	j.push("b", "c")
	j.again()
	j.state("stopped", "giver_behind")
	if m := j.hub.next(stops); !strings.Contains(string(m.Data), "giver_behind") {
		t.Errorf("event %s", m.Data)
	}
	j.hub.refused(j.hub.ask("pq.jobs.admin.source.edge.resume", `{"from_seq":1}`), 400)
	object[protocol.Source](j.hub, "pq.jobs.admin.source.edge.resume", `{"accept":true}`)
	j.pops("b", "c")
	s := j.state("running", "")
	if s.Seq != 1 {
		t.Errorf("after the giver's number was accepted: %+v", s)
	}
	j.push("d")
	j.pops("d")
}

// The largest item that the edge takes is one at the hub, too, if the servers have the same limits: it has no room for where it comes from.
func TestLinkTakesTheLargestItem(t *testing.T) {
	t.Parallel()
	j := joinSites(t)
	size := 1 << 20
	for ; ; size -= 8 {
		m := j.edge.ask("edge7.orders.push", strings.Repeat("x", size))
		if m.Header.Get("Nats-Service-Error") == "" && !strings.Contains(string(m.Data), `"error"`) {
			break
		}
		if size < 1<<19 {
			t.Fatalf("no item is accepted: %.300s, %v", m.Data, m.Header)
		}
	}
	j.push("small")
	object[protocol.Source](j.hub, "pq.jobs.admin.source.edge", taking)
	if m := j.hub.pop("pq.jobs.pop.min", "", "PQ-Wait", forever); len(m.Data) != size || m.Header.Get("PQ-Source") != "" {
		t.Errorf("popped %d bytes of %d with %v", len(m.Data), size, m.Header)
	}
	if m := j.hub.pop("pq.jobs.pop.min", "", "PQ-Wait", forever); string(m.Data) != "small" || m.Header.Get("PQ-Source") != "edge" {
		t.Errorf("popped %q with %v", m.Data, m.Header)
	}
}

// Another store answers under the giver's prefix, with a link of the same name: the source stops, whatever that one says.
// A person has it go on with either.
func TestLinkOfAnotherGiver(t *testing.T) {
	t.Parallel()
	j := joinSites(t)
	first, at := j.edge, chosen(nil)
	at.Prefix = "edge7"
	second := serve(t, at)
	j.push("a", "b", "c", "d")
	object[protocol.Source](j.hub, "pq.jobs.admin.source.edge", taking)
	j.pops("a", "b", "c", "d")
	testenv.Await(t, "the edge has nothing any more", func() bool { return j.shown().Given == 4 })

	j.edge = second
	j.push("e", "f")
	j.giver.Store(second)
	j.state("failing", "has no link hub")
	j.set()
	if s := j.state("stopped", "giver_replaced"); !strings.Contains(s.Reason, second.env.Store.ID()) || s.Seq == 0 {
		t.Errorf("stopped: %+v", s)
	}
	if l := j.shown(); l.Batch != 0 {
		t.Errorf("the other one has given something: %+v", l)
	}
	object[protocol.Source](j.hub, "pq.jobs.admin.source.edge.resume", `{"accept":true}`)
	j.pops("e", "f")
	testenv.Await(t, "the other edge has nothing any more", func() bool { return j.shown().Given == 2 })

	j.edge = first
	j.push("g")
	j.giver.Store(first)
	j.state("stopped", "giver_replaced")
	object[protocol.Source](j.hub, "pq.jobs.admin.source.edge.resume", `{"accept":true}`)
	j.pops("g")
	j.push("h")
	j.pops("h")
	if m := j.hub.ask("pq.jobs.pop.min", ""); m.Header.Get("Status") != "404" {
		t.Errorf("one more: %q", m.Data)
	}
}

// Where the edge has the hub's prefix, and its server is joined with the hub's, the hub's own bridge may get the request. It gives
// nothing. When the edge's serves it, the source goes on.
func TestLinkOfOnePrefix(t *testing.T) {
	t.Parallel()
	atHub, atEdge := joinedServers(t)
	start := func(srv *testenv.Server, remotes func() map[string]bridge.Remote) *client {
		env := &testenv.Bridged{NATS: srv, Store: testenv.Store(t)}
		var err error
		env.Bridge, err = bridge.Start(t.Context(), srv.Connect(t, bridge.ConnectOptions(nil)...),
			env.Store, bridge.Hold(bridge.Options{Exclusive: true, Remotes: remotes}, time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		c := &client{TB: t, Conn: srv.Connect(t), env: env}
		t.Cleanup(func() { c.drain(env.Bridge) })
		return c
	}
	hub := start(atHub, func() map[string]bridge.Remote {
		return map[string]bridge.Remote{"edge": {
			Connect: func(o ...nats.Option) (*nats.Conn, error) { return dial(atEdge.URL(), o) },
			Take:    map[string][]string{"pq.orders": {"jobs"}},
		}}
	})
	j := &joined{hub: hub}
	hub.push("pq.orders.push", "of the hub")
	object[protocol.Source](hub, "pq.jobs.admin.source.edge", `{"remote":"edge","queue":"pq.orders","link":"hub"}`)
	j.state("failing", "has no link hub")
	object[protocol.Link](hub, "pq.orders.admin.link.hub", `{"to":"another"}`)
	j.again()
	j.state("failing", "another store")
	atEdge.Restart(t, func(o *server.Options) { o.LeafNode.Remotes = nil })
	edge := start(atEdge, nil)
	edge.push("pq.orders.push", "of the edge")
	object[protocol.Link](edge, "pq.orders.admin.link.hub", fmt.Sprintf(`{"to":%q}`, hub.env.Store.ID()))
	j.again()
	j.pops("of the edge")
	if m := hub.ask("pq.orders.pop.min", ""); string(m.Data) != "of the hub" {
		t.Errorf("the hub's own queue has %q", m.Data)
	}
}

// A batch is out when somebody lowers the server's max_payload: it comes in parts. An item that no answer carries waits until it is
// raised again.
func TestLinkOfALoweredMaxPayload(t *testing.T) {
	t.Parallel()
	j := joinSites(t)
	texts := []string{strings.Repeat("x", 9<<10), strings.Repeat("y", 9<<10), strings.Repeat("z", 19<<10)}
	j.push(texts...)
	j.hub.ask("pq.jobs.admin.config", `{"max_length":1}`)
	object[protocol.Source](j.hub, "pq.jobs.admin.source.edge", taking)
	j.state("blocked", "full")
	j.edge.env.NATS.Restart(t, func(o *server.Options) { o.MaxPayload = 18 << 10 })
	j.pops(texts[0], texts[1])
	j.state("failing", "max_payload of the two servers is 18432")
	j.edge.env.NATS.Restart(t, func(o *server.Options) { o.MaxPayload = 1 << 20 })
	j.again()
	j.pops(texts[2])
	testenv.Await(t, "the edge has nothing any more", func() bool {
		s := object[protocol.Source](j.hub, "pq.jobs.admin.source.edge", "")
		return s.Counts.Delivered == 3 && s.Seq == 1
	})
}

// The hub's server carries less than the edge's, and closes a leaf node that brings it more. The taker says how much that is: batches are
// smaller, and one that is out comes in parts.
func TestLinkThroughASmallerServer(t *testing.T) {
	t.Parallel()
	at := chosen(nil)
	at.Prefix = "edge7"
	edge := serveWith(t, testenv.NATS(t, func(o *server.Options) { o.LeafNode.Host, o.LeafNode.Port = "127.0.0.1", -1 }), at)
	varz, err := edge.env.NATS.Server().Varz(nil)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &url.URL{Scheme: "nats-leaf", Host: net.JoinHostPort(varz.LeafNode.Host, strconv.Itoa(varz.LeafNode.Port))}
	var through atomic.Pointer[string] // the server that the remote leads to
	direct := edge.env.NATS.URL()
	through.Store(&direct)
	options := chosen(nil)
	options.Remotes = func() map[string]bridge.Remote {
		url := *through.Load()
		return map[string]bridge.Remote{"edge": {
			Connect: func(o ...nats.Option) (*nats.Conn, error) { return dial(url, o) }, Identity: url,
			Take: map[string][]string{"edge7.orders": {"jobs"}},
		}}
	}
	small := testenv.NATS(t, func(o *server.Options) {
		o.MaxPayload = 16 << 10
		o.LeafNode.Remotes = []*server.RemoteLeafOpts{{URLs: []*url.URL{leaf}}}
	})
	hub := serveWith(t, small, bridge.Hold(options, time.Millisecond))
	j := &joined{edge: edge, hub: hub}
	j.set()
	var texts []string
	for i := range 100 {
		texts = append(texts, fmt.Sprintf("%03d%s", i, strings.Repeat("x", 1000)))
	}
	j.push(texts[:50]...)
	hub.ask("pq.jobs.admin.config", `{"max_length":1}`)
	object[protocol.Source](hub, "pq.jobs.admin.source.edge", `{"remote":"edge","queue":"edge7.orders","link":"hub","batch":1000}`)
	j.state("blocked", "full")
	if l := j.shown(); l.Held != 50 {
		t.Errorf("the link is %+v", l)
	}
	object[protocol.Source](hub, "pq.jobs.admin.source.edge.pause", "")
	url := small.URL()
	through.Store(&url)
	hub.ask("pq.jobs.admin.config", `{"max_length":1000}`)
	object[protocol.Source](hub, "pq.jobs.admin.source.edge.resume", "")
	j.push(texts[50:]...)
	j.pops(texts...)
	testenv.Await(t, "the edge has nothing any more", func() bool { return j.shown().Given == 100 })
	if s := j.state("running", ""); s.Counts.Delivered != 100 || s.Seq < 5 {
		t.Errorf("the source is %+v", s)
	}
	if n := edge.env.NATS.Server().NumLeafNodes(); n != 1 {
		t.Errorf("%d leaf nodes are connected", n)
	}
}

// An item that is too large for the hub, and that a person passes over there, is a dead letter of the edge.
func TestLinkLeavesAnItemThatIsTooLarge(t *testing.T) {
	t.Parallel()
	at := chosen(nil)
	at.Prefix = "edge7"
	j := &joined{edge: serve(t, at)}
	options := chosen(nil)
	options.Remotes = func() map[string]bridge.Remote {
		return map[string]bridge.Remote{"edge": {
			Connect: func(o ...nats.Option) (*nats.Conn, error) { return dial(j.edge.env.NATS.URL(), o) },
			Take:    map[string][]string{"edge7.orders": {"jobs"}},
		}}
	}
	j.hub = serveWith(t, testenv.NATS(t, func(o *server.Options) { o.MaxPayload = 16 << 10 }), bridge.Hold(options, time.Millisecond))
	j.set()
	large := strings.Repeat("x", 100<<10)
	j.push("a", large, "c")
	object[protocol.Source](j.hub, "pq.jobs.admin.source.edge", taking)
	j.state("stopped", "poisoned: item 2 of batch 1")
	object[protocol.Source](j.hub, "pq.jobs.admin.source.edge.resume", `{"skip":true}`)
	j.pops("a", "c")
	if m := j.edge.pop("edge7.orders-dead.pop.min", "", "PQ-Wait", forever); string(m.Data) != large || !strings.HasPrefix(m.Header.Get("PQ-Dead-Reason"), "link hub: ") {
		t.Errorf("the dead letter has %d bytes, and %v", len(m.Data), m.Header)
	}
	testenv.Await(t, "the edge has given the others", func() bool { return j.shown().Given == 2 && j.shown().Held == 0 })
	if s := j.state("running", ""); s.Counts.Poisoned != 1 || s.Counts.Delivered != 2 {
		t.Errorf("the source is %+v", s)
	}
	for _, left := range []string{`1`, `[0]`, `["a"]`, `[1.5]`, `[1001]`, `[[1]]`, `{}`, `null`, `[` + strings.Repeat("1,", 1000) + `1]`} {
		j.edge.refused(j.edge.ask("edge7.orders.link.hub", fmt.Sprintf(`{"taker":%q,"done":0,"left":%s}`, j.hub.env.Store.ID(), left)), 400)
	}
}
