package bridge_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

func (c *client) shown(id, body string) *nats.Msg {
	c.Helper()
	return c.pop("pq.jobs.get."+id, body)
}

// attempts returns the attempts that get shows of an item.
func (c *client) attempts(id string) (all []protocol.Attempt) {
	c.Helper()
	text := c.shown(id, `{"attempts":true}`).Header.Get("PQ-Attempts")
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		c.Fatalf("PQ-Attempts: %s: %v", text, err)
	}
	return all
}

func (c *client) listed(body string) (page protocol.Page) {
	c.Helper()
	m := c.ask("pq.jobs.list", body)
	if err := json.Unmarshal(m.Data, &page); err != nil {
		c.Fatalf("%s: %v, %v", m.Data, m.Header, err)
	}
	return page
}

// A plain -NAK leaves the delay to the queue, one that names a delay does not: not with nothing,
// and not with the least that nats.go can say.
func TestNackUnderABackoff(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.configure(`{"backoff":["1h","2h"],"attempts":16}`)
	id := c.push("pq.jobs.push", "x").ID
	lease := func() *nats.Msg { return c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m", "PQ-Wait", "10s") }
	for n, words := range []string{"-NAK 0s", `-NAK {"delay":0}`, `-NAK {"delay":0,"reason":"why not"}`, `-NAK {"delay":1}`} {
		m := lease()
		if got, want := m.Header.Get("PQ-Backoff"), []string{"1h0m0s", "2h0m0s"}[min(n, 1)]; got != want {
			t.Errorf("delivery %d: PQ-Backoff is %q, expected %s", n+1, got, want)
		}
		c.accepted(c.raw(m.Reply, words))
	}
	m := lease()
	if err := m.NakWithDelay(1); err != nil {
		t.Fatal(err)
	}
	bundle := c.popBundle("pq.jobs.pop.min", "", "PQ-Lease", "1m", "PQ-Bundle", "5", "PQ-Wait", "10s")
	if got := bundle[0].Header.Get("PQ-Backoff"); got != "2h0m0s" {
		t.Errorf("in a bundle PQ-Backoff is %q", got)
	}
	c.accepted(c.raw(bundle[0].Header.Get("PQ-Ack"), `-NAK {"reason":"it is closed"}`))
	delayed := c.shown(id, "")
	at, err := time.Parse(time.RFC3339Nano, delayed.Header.Get("PQ-Not-Before"))
	if left := time.Until(at); err != nil || left > 2*time.Hour || left < 2*time.Hour-testenv.Patience() {
		t.Errorf("a plain -NAK: back in %s, %v", left, err)
	}
	if delayed.Header.Get("PQ-Backoff") != "" || delayed.Header.Get("PQ-Attempts") != "6" {
		t.Errorf("get shows %v", delayed.Header)
	}
	if all := c.attempts(id); len(all) != 6 || all[2].Reason != "why not" || all[5].Reason != "it is closed" || all[5].N != 6 || all[5].Outcome != "nak" {
		t.Errorf("attempts %+v", all)
	}
	c.ask("pq.jobs.admin.config", `{"attempts":0}`)
}

// Holders say who they are, in a header or in the body. +NXT takes the name over, a repeated pop
// keeps the first one's, and pops that one transaction serves each keep their own.
func TestHolders(t *testing.T) {
	t.Parallel()
	c, db := slowly(t, faulty(t))
	holder := func(id string) string { return c.shown(id, "").Header.Get("PQ-Holder") }
	first, second, third := c.push("pq.jobs.push", "a").ID, c.push("pq.jobs.push", "b").ID, c.push("pq.jobs.push", "c").ID
	m := c.pop("pq.jobs.pop.min", `{"holder":"wörker 1"}`, "PQ-Lease", "1m", "Nats-Msg-Id", "once")
	if got := holder(first); got != "wörker 1" {
		t.Errorf("the holder is %q", got)
	}
	c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m", "Nats-Msg-Id", "once", "PQ-Holder", "another")
	if got := holder(first); got != "wörker 1" {
		t.Errorf("after a repetition the holder is %q", got)
	}
	m = c.pop(m.Reply, "+NXT")
	if got := holder(second); got != "wörker 1" {
		t.Errorf("after +NXT the holder is %q", got)
	}
	m = c.pop(m.Reply, "+NXT", "PQ-Holder", "worker 2")
	if got := holder(third); got != "worker 2" {
		t.Errorf("after +NXT with another one the holder is %q", got)
	}
	waits := c.send(m.Reply, "+NXT", "PQ-Wait", "100s")
	c.waiting("jobs", 1)
	late := c.push("pq.jobs.push", "d").ID
	m = c.next(waits)
	if got := holder(late); got != "worker 2" {
		t.Errorf("after +NXT that waited the holder is %q", got)
	}
	c.accepted(c.raw(m.Reply, "-NAK"))
	if got := holder(late); got != "" {
		t.Errorf("after -NAK the holder is %q", got)
	}
	c.pop("pq.jobs.pop.min", "")

	c.push("pq.jobs.push", "held up") // for the pop behind which the others gather
	for range 4 {
		c.push("pq.jobs.push", "e")
	}
	var pops []func() answers
	for _, name := range []string{"w1", "", "w3", "w4"} {
		header := []string{"PQ-Lease", "1m"}
		if name != "" {
			header = append(header, "PQ-Holder", name)
		}
		pops = append(pops, func() answers { return c.send("pq.jobs.pop.min", "", header...) })
	}
	held, all := c.together(db, pops...)
	c.next(held)
	for n, name := range []string{"w1", "", "w3", "w4"} {
		if got := holder(c.next(all[n]).Header.Get("PQ-Id")); got != name {
			t.Errorf("of pops in one transaction the holder is %q, expected %q", got, name)
		}
	}
	page := c.listed(`{"state":"leased","holder":"w3"}`)
	if len(page.Items) != 1 || page.Items[0].Holder != "w3" || page.Next != "" {
		t.Errorf("w3 holds %+v", page)
	}
}

// A list of what a holder has looks at a thousand leases, and goes on from there.
func TestListOfOneHolderIsBounded(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.pushPast(slices.Repeat([]fdbpq.NewItem{{Payload: []byte("x")}}, 1001)...)
	for range 2 {
		c.batch(c.send("pq.jobs.pop.min", "500", "PQ-Lease", "1h", "PQ-Holder", "w1"))
	}
	last := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h", "PQ-Holder", "w2").Header.Get("PQ-Id")
	page := c.listed(`{"state":"leased","holder":"w2"}`)
	if len(page.Items) != 0 || page.Next == "" {
		t.Fatalf("the first page has %d items, and then %q", len(page.Items), page.Next)
	}
	page = c.listed(fmt.Sprintf(`{"state":"leased","holder":"w2","after":%q}`, page.Next))
	if len(page.Items) != 1 || page.Items[0].ID != last || page.Next != "" {
		t.Errorf("the second page is %+v", page)
	}
	page = c.listed(`{"state":"leased","holder":"w1","limit":7}`)
	if len(page.Items) != 7 || page.Next != page.Items[6].ID {
		t.Errorf("a page of 7 has %d items, and then %q", len(page.Items), page.Next)
	}
}

// Attempts are listed, go with an import, and are dropped by a push.
func TestAttemptsTravel(t *testing.T) {
	t.Parallel()
	c := serve(t)
	id := c.push("pq.jobs.push", "x").ID
	for _, why := range []string{`<"quoted">`, "last"} {
		reason, _ := json.Marshal(why)
		c.accepted(c.raw(c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m", "PQ-Holder", "w").Reply, `-NAK {"reason":`+string(reason)+`}`))
	}
	want := c.attempts(id)
	if len(want) != 2 || want[0].Reason != `<"quoted">` || want[0].Holder != "w" || want[0].Start.IsZero() || want[0].End.Before(want[0].Start) {
		t.Fatalf("attempts %+v", want)
	}
	if page := c.listed(""); page.Items[0].Attempts != 2 || page.Items[0].LastAttempts != nil {
		t.Errorf("listed %+v", page.Items[0])
	}
	if page := c.listed(`{"attempts":true}`); page.Items[0].Attempts != 2 || !slices.Equal(page.Items[0].LastAttempts, want) {
		t.Errorf("listed %+v", page.Items[0])
	}
	full, plain := c.shown(id, `{"attempts":true}`), c.shown(id, "")
	if plain.Header.Get("PQ-Attempts") != "2" {
		t.Errorf("get shows %q", plain.Header.Get("PQ-Attempts"))
	}
	c.pop("pq.jobs.pop.min", "")
	c.acknowledged(c.askMsg(&nats.Msg{Subject: "pq.jobs.import", Header: full.Header, Data: full.Data}))
	if got := c.attempts(id); !slices.Equal(got, want) {
		t.Errorf("imported %+v, expected %+v", got, want)
	}
	c.pop("pq.jobs.pop.min", "")
	c.acknowledged(c.askMsg(&nats.Msg{Subject: "pq.jobs.import", Header: plain.Header, Data: plain.Data}))
	if got := c.attempts(id); got != nil {
		t.Errorf("imported with a number alone: %+v", got)
	}
	full.Header.Del("PQ-Priority")
	full.Header.Set("PQ-Holder", "w")
	full.Header.Set("PQ-Backoff", "1s")
	pushed := c.acknowledged(c.askMsg(&nats.Msg{Subject: "pq.jobs.push", Header: full.Header, Data: full.Data}))
	if got := c.shown(pushed.ID, `{"attempts":true}`).Header; got.Get("PQ-Attempts") != "" || got.Get("PQ-Holder") != "" || got.Get("PQ-Backoff") != "" {
		t.Errorf("pushed: %v", got)
	}
	for _, wrong := range []string{"x", "{}", `[{"n":1}]`, `[{"n":0,"outcome":"nak","end":"2030-01-01T00:00:00Z"}]`, `[{"n":1,"outcome":"nak"}] []`,
		`[{"n":1,"outcome":"nak","what":1}]`, "[" + strings.Repeat(" ", 8<<10) + "]"} {
		c.refused(c.raw("pq.jobs.import", "x", "PQ-Id", id, "PQ-Attempts", wrong), 400)
	}
}

// The most that an item remembers fits into the header, and back into an import.
func TestMostAttemptsFitAnImport(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.configure(`{"max_deliveries":0}`)
	id := c.push("pq.jobs.push", "x").ID
	for range 17 {
		c.accepted(c.raw(c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m", "PQ-Holder", strings.Repeat(`"`, 60)).Reply, `-NAK {"reason":"`+strings.Repeat(`\"`, 60)+`"}`))
	}
	shown := c.shown(id, `{"attempts":true}`)
	text := shown.Header.Get("PQ-Attempts")
	if n := len(c.attempts(id)); n != 16 || len(text) > 8<<10 {
		t.Fatalf("%d attempts in %d bytes", n, len(text))
	}
	c.pop("pq.jobs.pop.min", "")
	c.acknowledged(c.askMsg(&nats.Msg{Subject: "pq.jobs.import", Header: shown.Header, Data: shown.Data}))
	if got := c.shown(id, `{"attempts":true}`).Header.Get("PQ-Attempts"); got != text {
		t.Errorf("imported %s, expected %s", got, text)
	}
}

// Headers that only inform are left out where the answer has no room: neither the words of a
// worker nor a backoff make an item undeliverable.
func TestInformingHeadersNeedRoom(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.configure(`{"backoff":["1h"],"max_deliveries":0,"attempts":16}`)
	most := int(c.MaxPayload())
	popped := func(size int) *nats.Msg { // nil if no answer can carry the item
		c.Helper()
		c.pushPast(fdbpq.NewItem{Payload: make([]byte, size)})
		m := c.ask("pq.jobs.pop.min", "", "PQ-Lease", "1m", "PQ-Holder", strings.Repeat("h", 128))
		if m.Header.Get("PQ-Id") == "" {
			c.refused(m, 413)
			c.ask("pq.jobs.admin.purge", "")
			return nil
		}
		return m
	}
	fits, tooMuch := most-2000, most
	for tooMuch-fits > 1 {
		size := (fits + tooMuch) / 2
		if m := popped(size); m == nil {
			tooMuch = size
		} else {
			fits = size
			c.accepted(c.raw(m.Reply, "+ACK"))
		}
	}
	fits -= 32 // random ids have zeros, which take more bytes, or none
	m := popped(fits)
	id := m.Header.Get("PQ-Id")
	c.accepted(c.raw(m.Reply, `-NAK {"delay":0,"reason":"`+strings.Repeat("r", 200)+`"}`))
	for range 15 {
		m := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m", "PQ-Holder", strings.Repeat("h", 128))
		c.accepted(c.raw(m.Reply, `-NAK {"delay":0,"reason":"`+strings.Repeat("r", 200)+`"}`))
	}
	if got := c.shown(id, `{"attempts":true}`); len(got.Data) != fits || len(got.Header.Get("PQ-Attempts")) > 4 {
		t.Errorf("%d bytes, PQ-Attempts %q", len(got.Data), got.Header.Get("PQ-Attempts"))
	}
	if m := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m"); len(m.Data) != fits {
		t.Errorf("%d bytes were popped, %v", len(m.Data), m.Header)
	}
	if m := popped(most - 2000); m.Header.Get("PQ-Backoff") != "1h0m0s" {
		t.Errorf("with room: %v", m.Header)
	}
}
