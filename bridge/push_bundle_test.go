package bridge_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
)

// frame writes an item as any program may: pairs are its headers.
func frame(payload string, pairs ...string) string {
	var headers strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(&headers, "%s: %s\r\n", pairs[i], pairs[i+1])
	}
	return fmt.Sprintf("%d %d\n%s%s\n", headers.Len(), len(payload), &headers, payload)
}

// bundleAck is the answer to a bundle of pushes.
type bundleAck struct {
	pubAck
	Items []pubAck `json:"items"`
}

// sendBundle pushes items in one message and returns the answer, whatever it is.
func (c *client) sendBundle(subject string, frames []string, header ...string) *nats.Msg {
	c.Helper()
	return c.raw(subject, strings.Join(frames, ""), append(header, "PQ-Bundle", fmt.Sprint(len(frames)))...)
}

// pushBundle pushes items in one message.
func (c *client) pushBundle(subject string, frames []string, header ...string) bundleAck {
	c.Helper()
	return c.bundled(c.sendBundle(subject, frames, header...), len(frames))
}

// bundled reads the answer to a bundle of n items.
func (c *client) bundled(m *nats.Msg, n int) bundleAck {
	c.Helper()
	var ack bundleAck
	if err := json.Unmarshal(m.Data, &ack); err != nil || ack.Error != nil || len(ack.Items) != n || m.Header != nil {
		c.Fatalf("answer to a bundle of %d: %s, %v, %v", n, m.Data, m.Header, err)
	}
	return ack
}

// refusedItem checks that a bundle was refused for the reason of one of its items; -1 is
// for none.
func (c *client) refusedItem(m *nats.Msg, code, item int, text string) {
	c.Helper()
	var answer struct {
		Error struct {
			Code        int
			Description string
			Item        *int
		}
	}
	err := json.Unmarshal(m.Data, &answer)
	e := answer.Error
	names := e.Item == nil && item < 0 || e.Item != nil && *e.Item == item && strings.HasPrefix(e.Description, fmt.Sprintf("item %d: ", item))
	if err != nil || e.Code != code || !names || !strings.Contains(e.Description, text) {
		c.Errorf("answer %s, %v: expected code %d, item %d, %q", m.Data, m.Header, code, item, text)
	}
	if got := m.Header.Get("Nats-Service-Error"); got != e.Description {
		c.Errorf("the header says %q, the body %q", got, e.Description)
	}
}

// A bundle pushes its items in their order, each with what a push may have.
func TestPushBundle(t *testing.T) {
	t.Parallel()
	c := serve(t)
	ack := c.pushBundle("pq.jobs.push", []string{
		frame("plain"),
		frame("urgent\n\x00", "PQ-Priority", "-7", "X-Mine", "1", "X-Mine", "2"),
		frame(""),
		frame("delayed", "PQ-Delay", "1h", "PQ-Priority", "-9"),
		frame("one a value", "PQ-Unique", "v"),
		frame("the same value", "PQ-Unique", "v"),
		"12 4\nX-Bare:yes \nbare", // a client that writes line feeds alone, and none behind the last payload
	}, "X-Of-The-Message", "1", "Nats-Expected-Stream", "jobs")
	if ack.Stream != "jobs" || ack.Type != "io.pq.v1.push_response" || ack.Seq != ack.Items[6].Seq || ack.Duplicate {
		t.Errorf("answer %+v", ack)
	}
	if !ack.Items[5].Duplicate || ack.Items[5].ID != ack.Items[4].ID || ack.Items[1].Priority != -7 {
		t.Errorf("results %+v", ack.Items)
	}
	if info := c.info("jobs"); info.Ready != 5 || info.Delayed != 1 {
		t.Errorf("the queue has %d items ready and %d delayed", info.Ready, info.Delayed)
	}
	for _, want := range []struct {
		of     int
		data   string
		header nats.Header
	}{
		{1, "urgent\n\x00", h("X-Mine", "1", "X-Mine", "2")},
		{0, "plain", h()},
		{2, "", h()},
		{4, "one a value", h()},
		{6, "bare", h("X-Bare", "yes")},
	} {
		m := c.pop("pq.jobs.pop.min", "")
		if string(m.Data) != want.data || m.Header.Get("PQ-Id") != ack.Items[want.of].ID || m.Header.Get("PQ-Priority") != fmt.Sprint(ack.Items[want.of].Priority) {
			t.Errorf("popped %q, %v: expected item %d", m.Data, m.Header, want.of)
		}
		for _, key := range []string{"X-Mine", "X-Bare", "X-Of-The-Message"} {
			if !slices.Equal(m.Header[key], want.header[key]) {
				t.Errorf("%q has the header %s: %q, expected %q", m.Data, key, m.Header[key], want.header[key])
			}
		}
	}
}

// A bundle that cannot be pushed as a whole adds nothing, and its answer names the item.
// What was sent before and behind it is not concerned.
func TestBundleIsAllOrNothing(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.ask("pq.jobs.admin.config", `{"max_length":5,"result_bytes":300}`)
	c.push("pq.jobs.push", "leased", "PQ-Unique", "v")
	leased := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m")
	three := []string{frame("b"), frame("b"), frame("b")}
	for _, tc := range []struct {
		name   string
		frames []string
		code   int
		item   int
		text   string
	}{
		{"full", slices.Concat(three, three), 429, 3, "max_length"},
		{"leased", append(slices.Clone(three), frame("x", "PQ-Unique", "v", "PQ-On-Conflict", "replace")), 409, 3, "leased"},
		{"results", []string{frame("b"), frame("x", "PQ-Result-TTL", "1h")}, 429, 1, "no room for results"},
		{"hand-over", []string{frame("b"), frame("x", "PQ-Settle", leased.Reply)}, 403, 1, "hand_over"},
	} {
		before, bundle, behind := c.listen(), c.listen(), c.listen()
		c.sendOn(before, "pq.jobs.push", "before")
		c.sendOn(bundle, "pq.jobs.push", strings.Join(tc.frames, ""), "PQ-Bundle", fmt.Sprint(len(tc.frames)))
		c.sendOn(behind, "pq.jobs.push", "behind")
		c.acknowledged(c.next(before))
		c.refusedItem(c.next(bundle), tc.code, tc.item, tc.text)
		c.acknowledged(c.next(behind))
		for _, want := range []string{"before", "behind"} {
			if m := c.pop("pq.jobs.pop.min", ""); string(m.Data) != want {
				t.Errorf("%s: popped %q, expected %q", tc.name, m.Data, want)
			}
		}
		c.refused(c.ask("pq.jobs.pop.min", ""), 404)
	}
	c.ask("pq.jobs.admin.config", `{"hand_over":"jobs"}`)
	c.pushBundle("pq.jobs.push", append(slices.Clone(three), frame("next", "PQ-Settle", leased.Reply), frame("new", "PQ-Unique", "v")))
	c.lost(c.raw(leased.Reply, "+ACK"), "gone")
	if info := c.info("jobs"); info.Ready != 5 {
		t.Errorf("the queue has %d items, expected those of the bundle in place of the leased one", info.Ready)
	}
}

// sendOn sends a request whose answer arrives at a known place.
func (c *client) sendOn(to answers, subject, body string, header ...string) {
	c.Helper()
	if err := c.PublishMsg(&nats.Msg{Subject: subject, Reply: to.inbox, Data: []byte(body), Header: h(header...)}); err != nil {
		c.Fatal(err)
	}
}

// A full queue that evicts takes a bundle, and says which of its items it has not kept.
func TestBundleEvicts(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.ask("pq.jobs.admin.config", `{"max_length":2,"overflow":"evict"}`)
	ack := c.pushBundle("pq.jobs.push", []string{frame("a", "PQ-Priority", "9"), frame("b", "PQ-Priority", "1"), frame("c", "PQ-Priority", "2")})
	if !ack.Items[0].Evicted || ack.Items[1].Evicted || ack.Items[2].Evicted {
		t.Errorf("results %+v", ack.Items)
	}
	if got := string(c.pop("pq.jobs.pop.max", "").Data); got != "c" {
		t.Errorf("the last item is %q", got)
	}
}

// A bundle with an id is pushed once, and so is an item with one.
func TestRepeatedBundle(t *testing.T) {
	t.Parallel()
	c := serve(t)
	frames := []string{frame("a"), frame("b", "Nats-Msg-Id", "own"), frame("c", "PQ-Priority", "-1")}
	first := c.pushBundle("pq.jobs.push", frames, "Nats-Msg-Id", "bundle")
	again := c.pushBundle("pq.jobs.push", frames, "Nats-Msg-Id", "bundle")
	if first.Duplicate || !again.Duplicate {
		t.Errorf("first %+v, then %+v", first, again)
	}
	for i := range frames {
		if first.Items[i].Duplicate || !again.Items[i].Duplicate || first.Items[i].ID != again.Items[i].ID {
			t.Errorf("item %d: first %+v, then %+v", i, first.Items[i], again.Items[i])
		}
	}
	if ack := c.push("pq.jobs.push", "b", "Nats-Msg-Id", "own"); !ack.Duplicate || ack.ID != first.Items[1].ID {
		t.Errorf("an item of the bundle alone: %+v", ack)
	}
	other := c.pushBundle("pq.jobs.push", []string{frame("b", "Nats-Msg-Id", "own"), frame("d")}, "Nats-Msg-Id", "other")
	if other.Duplicate || !other.Items[0].Duplicate || other.Items[1].Duplicate {
		t.Errorf("a bundle with one item that is there: %+v", other)
	}
	if info := c.info("jobs"); info.Ready != 4 {
		t.Errorf("the queue has %d items, expected 4", info.Ready)
	}
}

// A bundle that is malformed is refused unread, with the item that is wrong.
func TestMalformedBundles(t *testing.T) {
	t.Parallel()
	c := serve(t)
	long := strings.Repeat("x", 1020)
	for _, tc := range []struct {
		body   string
		header []string
		code   int
		item   int
		text   string
	}{
		{"", []string{"PQ-Bundle", "1"}, 400, 0, "the message ends here"},
		{frame("a"), []string{"PQ-Bundle", "0"}, 400, -1, "expected 1 to 1000"},
		{frame("a"), []string{"PQ-Bundle", "x"}, 400, -1, "expected an integer"},
		{frame("a"), []string{"PQ-Bundle", "1", "PQ-Bundle", "1"}, 400, -1, "expected once"},
		{frame("a"), []string{"PQ-Bundle", "1001"}, 413, -1, "allowed are 1000"},
		{frame("a"), []string{"PQ-Bundle", "2"}, 400, 1, "the message ends here"},
		{frame("a") + frame("b"), []string{"PQ-Bundle", "1"}, 400, -1, "6 bytes follow item 0"},
		{frame("a") + "0 9\nb\n", []string{"PQ-Bundle", "2"}, 400, 1, "the message has 2 more"},
		{"9 0\nb\n", []string{"PQ-Bundle", "1"}, 400, 0, "the message has 2 more"},
		{"9223372036854775807 9223372036854775807\nb\n", []string{"PQ-Bundle", "1"}, 400, 0, ""},
		{"0 1\nabc\n", []string{"PQ-Bundle", "1"}, 400, 0, "followed by \"bc"},
		{"0 01\na\n", []string{"PQ-Bundle", "1"}, 400, 0, "such as 0 13"},
		{"-1 1\na\n", []string{"PQ-Bundle", "1"}, 400, 0, "such as 0 13"},
		{"1\na\n", []string{"PQ-Bundle", "1"}, 400, 0, "such as 0 13"},
		{"0  1\na\n", []string{"PQ-Bundle", "1"}, 400, 0, "such as 0 13"},
		{"3 0\na:b\n", []string{"PQ-Bundle", "1"}, 400, 0, "line feed behind it"},
		{"4 0\na b\n\n", []string{"PQ-Bundle", "1"}, 400, 0, "such as Name: value"},
		{frame("a", "a b", "c"), []string{"PQ-Bundle", "1"}, 400, 0, "no spaces"},
		{frame("a", "X", "c\rd"), []string{"PQ-Bundle", "1"}, 400, 0, "carriage return"},
		{frame("a") + frame("b", "PQ-Priority", "x"), []string{"PQ-Bundle", "2"}, 400, 1, "expected an integer"},
		{frame("a") + frame("b", "PQ-Timeout", "5s"), []string{"PQ-Bundle", "2"}, 400, 1, "is none of a push"},
		{frame("a") + frame("b", "PQ-Bundle", "5"), []string{"PQ-Bundle", "2"}, 400, 1, "is none of a push"},
		{frame("a") + frame("b", "PQ-TTL", "5s", "PQ-TTL", "5s"), []string{"PQ-Bundle", "2"}, 400, 1, "expected once"},
		{frame("a") + frame("b", "PQ-Result-TTL", "169h"), []string{"PQ-Bundle", "2"}, 400, 1, "expected more than 0s, up to 168h0m0s"},
		{frame("a"), []string{"PQ-Bundle", "1", "PQ-Result-TTL", "1h"}, 400, -1, "among the headers of each item"},
		{frame("a") + frame("b", "Nats-Msg-Id", "1", "Nats-Msg-Id", "2"), []string{"PQ-Bundle", "2"}, 400, 1, "expected once"},
		{frame("a") + frame("b", "Nats-TTL", "5s"), []string{"PQ-Bundle", "2"}, 400, 1, "use PQ-TTL"},
		{frame("a") + frame("b", "PQ-Delay", "1s", "PQ-Not-Before", "2030-01-02T15:04:05Z"), []string{"PQ-Bundle", "2"}, 400, 1, "expected one of them"},
		{frame("a") + frame("b", "PQ-On-Conflict", "keep"), []string{"PQ-Bundle", "2"}, 400, 1, "without PQ-Unique"},
		{frame("a", "Nats-Msg-Id", strings.Repeat("x", 1025)), []string{"PQ-Bundle", "1"}, 400, 0, "allowed are 1024"},
		{frame("a"), []string{"PQ-Bundle", "1", "Nats-Msg-Id", long + "x"}, 400, -1, "allowed are 1020"},
		{frame("a"), []string{"PQ-Bundle", "1", "PQ-Priority", "1"}, 400, -1, "among the headers of each item"},
		{frame("a"), []string{"PQ-Bundle", "1", "Nats-Expected-Stream", "mails"}, 400, -1, "the queue is jobs"},
		{frame("a", strings.Repeat("X-Many: 1\r\n", 1000)+"X", "1"), []string{"PQ-Bundle", "1"}, 413, 0, "1000"},
		{frame("a", "X", strings.Repeat("x", 64<<10)), []string{"PQ-Bundle", "1"}, 413, 0, "allowed are 65536"},
	} {
		c.refusedItem(c.raw("pq.jobs.push", tc.body, tc.header...), tc.code, tc.item, tc.text)
	}
	// The right to push with one priority is no right to push with others.
	c.refusedItem(c.sendBundle("pq.jobs.push.5", []string{frame("a"), frame("b", "PQ-Priority", "4")}), 400, 1, "the subject says 5")
	c.refused(c.ask("pq.jobs.pop.min", ""), 404, "unknown")
	ack := c.pushBundle("pq.jobs.push.5", []string{frame("a"), frame("b", "PQ-Priority", "5")}, "Nats-Msg-Id", long)
	if ack.Items[0].Priority != 5 || ack.Items[1].Priority != 5 {
		t.Errorf("results %+v", ack.Items)
	}
}

// A bundle whose transaction or whose answer would be too large is refused, and the error
// says what is allowed.
func TestBundleLimits(t *testing.T) {
	t.Parallel()
	c := serve(t)
	frames := make([]string, 1000)
	for i := range frames {
		frames[i] = frame(fmt.Sprint(i), "PQ-Priority", fmt.Sprint(-i))
	}
	if ack := c.pushBundle("pq.jobs.push", frames); ack.Items[999].Priority != -999 {
		t.Errorf("the last result: %+v", ack.Items[999])
	}
	if got := string(c.pop("pq.jobs.pop.min", "").Data); got != "999" {
		t.Errorf("popped %s", got)
	}
	for i := range frames {
		frames[i] = frame(fmt.Sprint(i), "PQ-Unique", fmt.Sprint(i, strings.Repeat("x", 1000)))
	}
	c.refusedItem(c.sendBundle("pq.jobs.push", frames), 413, -1, "allowed are 9200000")

	c = serveWithin(t, 16<<10, bridge.Options{})
	for n := 1; ; n++ {
		some := slices.Repeat([]string{frame("", "PQ-Priority", "-1000000000000000000")}, n)
		answer := c.sendBundle("pq.jobs.push", some)
		if len(answer.Header) > 0 {
			c.refusedItem(answer, 413, -1, fmt.Sprintf("room for the answer to %d", n-1))
			break
		}
		c.bundled(answer, n)
	}
}

// Many items count as many: for the limit of requests, in the statistics, and among the
// pushes that were lost.
func TestBundlesAreCounted(t *testing.T) {
	t.Parallel()
	c := serve(t, bridge.Options{Exclusive: true, Limits: bridge.Limits{Requests: 5}})
	frames := slices.Repeat([]string{frame("a")}, 5)
	c.pushBundle("pq.jobs.push", frames)
	c.inFlight("work", 0) // it may leave the gate behind its answer
	six := append(frames, frame("b"))
	c.refusedItem(c.sendBundle("pq.jobs.push", six), 429, -1, "this bridge takes 5")
	c.inFlight("work", 0)
	c.pushBundle("pq.jobs.push", frames) // nothing of the refused one is in flight
	c.inFlight("work", 0)
	events := c.hear("pq.jobs.event.error")
	if err := c.PublishMsg(&nats.Msg{Subject: "pq.jobs.push", Data: []byte(strings.Join(six, "")), Header: h("PQ-Bundle", "6")}); err != nil {
		t.Fatal(err)
	}
	var event struct{ Count, Code int }
	if err := json.Unmarshal(c.next(events).Data, &event); err != nil || event.Count != 6 || event.Code != 429 {
		t.Errorf("event %+v, %v", event, err)
	}
	c.inFlight("work", 0)
	m := c.metrics()
	for name, want := range map[string]float64{
		"pq_requests_total{code=200,verb=push}": 10, "pq_requests_total{code=429,verb=push}": 12, "pq_pushes_lost_total{}": 6,
		"pq_batch_requests{kind=push}": 2,
	} {
		if m[name] != want {
			t.Errorf("%s is %v, expected %v", name, m[name], want)
		}
	}
	if rate := c.info("jobs").Rates["push"]; rate < 9.0/60 {
		t.Errorf("the rate of pushes is %v a second, although 10 were pushed", rate)
	}
}
