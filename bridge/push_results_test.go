package bridge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/protocol"
)

// An item that asks for its result shows for how long that is kept, as a time that its queue keeps: alone, in a list, where an
// import has put it, and to the programs that pop it.
func TestResultTTLTravels(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for _, tc := range []struct{ asked, kept string }{
		{"1ns", "1m0s"}, {"1m", "1m0s"}, {"60.5s", "10m0s"}, {"10m", "10m0s"}, {"11m", "1h0m0s"}, {"60m", "1h0m0s"}, {"61m", "6h0m0s"}, {"6h", "6h0m0s"},
		{"6h0m0.000000001s", "24h0m0s"}, {"24h", "24h0m0s"}, {"25h", "168h0m0s"}, {"168h", "168h0m0s"},
	} {
		id := c.push("pq.jobs.push", "x", "PQ-Result-TTL", tc.asked).ID
		bundled := c.pushBundle("pq.bundled.push", []string{frame("y", "PQ-Result-TTL", tc.asked)}).Items[0].ID
		if got := c.ask("pq.bundled.get."+bundled, ""); got.Header.Get("PQ-Result-TTL") != tc.kept {
			t.Errorf("%s in a bundle: get answers %v, expected %s", tc.asked, got.Header, tc.kept)
		}
		got := c.ask("pq.jobs.get."+id, "")
		c.push("pq.imported.import", "x", "PQ-Id", id, "PQ-Result-TTL", got.Header.Get("PQ-Result-TTL"))
		for _, queue := range []string{"jobs", "imported"} {
			if got := c.ask("pq."+queue+".get."+id, ""); !slices.Equal(got.Header["PQ-Result-TTL"], []string{tc.kept}) {
				t.Errorf("%s in %s: get answers %v, expected %s", tc.asked, queue, got.Header, tc.kept)
			}
			page := strictly[protocol.Page](t, c.ask("pq."+queue+".list", "").Data)
			if len(page.Items) != 1 || page.Items[0].ResultTTL.String() != tc.kept {
				t.Errorf("%s in %s: the list has %+v, expected %s", tc.asked, queue, page.Items, tc.kept)
			}
			for _, m := range []string{"peek.min", "pop.min"} {
				if m := c.pop("pq."+queue+"."+m, ""); !slices.Equal(m.Header["PQ-Result-TTL"], []string{tc.kept}) {
					t.Errorf("%s in %s: a pop or peek shows %v", tc.asked, queue, m.Header)
				}
			}
		}
		c.pop("pq.bundled.pop.min", "")
	}
	id := c.push("pq.jobs.push", "asks for nothing").ID
	got, list := c.ask("pq.jobs.get."+id, ""), string(c.ask("pq.jobs.list", "").Data)
	if got.Header["PQ-Result-TTL"] != nil || strings.Contains(list, "result_ttl") {
		t.Errorf("an item that asks for nothing: get answers %v, the list is %s", got.Header, list)
	}
}

// Whoever has an item learns whether anybody asks for its result, however it was popped. An item that does not ask has no header more.
func TestPopsShowWhetherAResultIsAsked(t *testing.T) {
	t.Parallel()
	c := serve(t)
	lease := []string{"PQ-Lease", "1h"}
	ways := map[string]func(n int) []*nats.Msg{
		"peek": func(int) []*nats.Msg {
			return []*nats.Msg{c.pop("pq.jobs.peek.min", ""), c.pop("pq.jobs.peek.max", "")}
		},
		"peeked": func(n int) []*nats.Msg { return c.popBundle("pq.jobs.peek.min", "", "PQ-Bundle", fmt.Sprint(n)) },
		"pop":    func(int) []*nats.Msg { return []*nats.Msg{c.pop("pq.jobs.pop.min", ""), c.pop("pq.jobs.pop.min", "")} },
		"lease": func(int) []*nats.Msg {
			return []*nats.Msg{c.pop("pq.jobs.pop.min", "", lease...), c.pop("pq.jobs.pop.min", "", lease...)}
		},
		"batch": func(n int) []*nats.Msg {
			return c.batch(c.send("pq.jobs.pop.min", "", append(lease, "PQ-Batch", fmt.Sprint(n))...))
		},
		"bundle": func(n int) []*nats.Msg {
			return c.popBundle("pq.jobs.pop.min", "", append(lease, "PQ-Bundle", fmt.Sprint(n))...)
		},
		"next": func(int) []*nats.Msg {
			first := c.pop("pq.jobs.pop.min", "", lease...)
			return []*nats.Msg{first, c.raw(first.Reply, "+NXT")}
		},
		"repeated": func(int) []*nats.Msg {
			again := append(lease, "Nats-Msg-Id", "again", "PQ-Bundle", "2")
			c.popBundle("pq.jobs.pop.min", "", again...)
			return c.popBundle("pq.jobs.pop.min", "", again...)
		},
		"delivered again": func(int) []*nats.Msg {
			for _, end := range []string{"min", "max"} {
				c.accepted(c.raw(c.pop("pq.jobs.pop."+end, "", lease...).Reply, "-NAK"))
			}
			return c.popBundle("pq.jobs.pop.min", "", append(lease, "PQ-Bundle", "2")...)
		},
	}
	for name, get := range ways {
		c.push("pq.jobs.push.1", "asks", "PQ-Result-TTL", "1h")
		c.push("pq.jobs.push.2", "asks for nothing")
		items := get(2)
		if len(items) != 2 || items[0].Header.Get("PQ-Result-TTL") != "1h0m0s" || items[1].Header["PQ-Result-TTL"] != nil {
			t.Errorf("%s: %v", name, items)
		}
		c.ask("pq.jobs.admin.purge", "")
	}
}

// A push that adds no item leaves the item that is there as it was, and a push without the header asks for nothing.
func TestFirstPushDecidesAboutTheResult(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for _, tc := range []struct{ first, second []string }{
		{[]string{"Nats-Msg-Id", "1", "PQ-Result-TTL", "1h"}, []string{"Nats-Msg-Id", "1", "PQ-Result-TTL", "24h"}},
		{[]string{"Nats-Msg-Id", "2", "PQ-Result-TTL", "1h"}, []string{"Nats-Msg-Id", "2"}},
		{[]string{"Nats-Msg-Id", "3"}, []string{"Nats-Msg-Id", "3", "PQ-Result-TTL", "24h"}},
		{[]string{"PQ-Unique", "4", "PQ-Result-TTL", "1h"}, []string{"PQ-Unique", "4", "PQ-On-Conflict", "replace", "PQ-Result-TTL", "24h"}},
		{[]string{"PQ-Unique", "5"}, []string{"PQ-Unique", "5", "PQ-On-Conflict", "raise", "PQ-Priority", "-5", "PQ-Result-TTL", "24h"}},
	} {
		first := c.push("pq.jobs.push", "x", tc.first...)
		before := c.ask("pq.jobs.get."+first.ID, "").Header["PQ-Result-TTL"]
		if again := c.push("pq.jobs.push", "y", tc.second...); !again.Duplicate || again.ID != first.ID {
			t.Errorf("%v, then %v: %+v, expected the item %s", tc.first, tc.second, again, first.ID)
		}
		if after := c.ask("pq.jobs.get."+first.ID, "").Header["PQ-Result-TTL"]; !slices.Equal(before, after) || (len(after) == 1) != slices.Contains(tc.first, "1h") {
			t.Errorf("%v, then %v: the item asks for %v, and then for %v", tc.first, tc.second, before, after)
		}
	}
}

// While the results of a queue, and items that ask for theirs, take the bytes that results may take, it refuses pushes that ask for one,
// and nothing else.
func TestNoRoomForResults(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.ask("pq.jobs.admin.config", `{"result_bytes":1280}`) // four results
	var asked []string
	for i := range 4 {
		asked = append(asked, c.push("pq.jobs.push", "x", "PQ-Result-TTL", "1h", "Nats-Msg-Id", string(rune('0'+i))).ID)
	}
	for range 3 {
		c.pop("pq.jobs.pop.min", "")
	}
	if i := c.info("jobs"); i.Results != 3 || i.ResultsBytes != 960 {
		t.Errorf("info has %d results of %d bytes, expected 3 of 960", i.Results, i.ResultsBytes)
	}
	text := "no room for results: the queue's result_bytes is 1280; its results take 960, its items that ask for theirs 320, and one more takes 320"
	refused := c.ask("pq.jobs.push", "x", "PQ-Result-TTL", "1h")
	c.refusedPush(refused, 429, "results")
	if got := refused.Header.Get("Nats-Service-Error"); got != text {
		t.Errorf("the error says %q, expected %q", got, text)
	}
	bundle := []string{frame("a"), frame("b", "PQ-Result-TTL", "1h"), frame("c")}
	whole := c.sendBundle("pq.jobs.push", bundle)
	c.refusedItem(whole, 429, 1, text)
	c.refusedPush(whole, 429, "results")
	each := c.each("pq.jobs.push", bundle)
	if e := each[1].Error; e == nil || e.Code != 429 || e.Reason != "results" || each[0].Error != nil || each[2].Error != nil {
		t.Errorf("each on its own: %+v, expected that one is refused", each)
	}
	if again := c.push("pq.jobs.push", "x", "PQ-Result-TTL", "1h", "Nats-Msg-Id", "3"); !again.Duplicate || again.ID != asked[3] {
		t.Errorf("a push that was done before: %+v, expected the item %s", again, asked[3])
	}
	c.push("pq.jobs.push", "asks for nothing")
	c.push("pq.other.push", "in another queue", "PQ-Result-TTL", "1h")
	c.push("pq.jobs.import", "x", "PQ-Id", asked[0], "PQ-Result-TTL", "1h") // takes the place of its result
	c.refusedPush(c.ask("pq.jobs.push", "x", "PQ-Result-TTL", "1h"), 429, "results")
	c.ask("pq.jobs.admin.purge", "")
	c.push("pq.jobs.push", "x", "PQ-Result-TTL", "1h")
	asked[3] = c.push("pq.jobs.push", "x", "PQ-Result-TTL", "1h").ID
	c.refusedPush(c.ask("pq.jobs.push", "x", "PQ-Result-TTL", "1h"), 429, "results")

	// An item that has asked leaves its result all the same.
	c.ask("pq.jobs.admin.config", `{"result_bytes":1}`)
	c.refusedPush(c.ask("pq.jobs.push", "x", "PQ-Result-TTL", "1h"), 429, "results")
	object[protocol.Changed](c, "pq.jobs.remove."+asked[3], "")
	id, err := fdbpq.ParseID(asked[3])
	if err != nil {
		t.Fatal(err)
	}
	if err := c.env.Store.View(t.Context(), func(r kv.Reader) error {
		result, err := c.env.Store.Queue("jobs").Result(r, id)
		if err == nil && (result == nil || result.Finish != fdbpq.FinishRemoved) {
			t.Errorf("the result is %+v, expected that of an item that was removed", result)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
