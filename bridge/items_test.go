package bridge_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/testenv"
)

// page is the answer of list.
type page struct {
	Items []struct {
		ID         string
		Priority   int64
		State      string
		Deliveries int64
		Pushed     time.Time
		Due        time.Time
		Size       int64
		Headers    nats.Header
		Body       []byte
		Preview    []byte
	}
	Next string
}

func (p *page) ids() (all []string) {
	for _, item := range p.Items {
		all = append(all, item.ID)
	}
	return all
}

func TestList(t *testing.T) {
	t.Parallel()
	c := serve(t)
	var want []string
	for i := range 250 {
		want = append(want, c.push("pq.jobs.push.1", strconv.Itoa(i), "X-N", strconv.Itoa(i)).ID)
	}
	delayed := c.push("pq.jobs.push.0", "d", "PQ-Delay", "1h")
	c.push("pq.jobs.push.-1", "l")
	leased := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h")

	first := object[page](c, "pq.jobs.list", "")
	if !slices.Equal(first.ids(), want[:100]) || first.Next != want[99] {
		t.Errorf("the first page has %d items, next %s", len(first.Items), first.Next)
	}
	item := first.Items[7]
	if item.Priority != 1 || item.State != "ready" || item.Size != int64(len("7")+len("X-N: 7\r\n")) || item.Headers.Get("X-N") != "7" ||
		item.Body != nil || time.Since(item.Pushed) > testenv.Patience() || !item.Due.IsZero() {
		t.Errorf("%+v", item)
	}
	var all []string
	after := ""
	for {
		body := `{"limit":99,"bodies":true}`
		if after != "" {
			body = fmt.Sprintf(`{"limit":99,"bodies":true,"after":%q,"state":"ready"}`, after)
		}
		p := object[page](c, "pq.jobs.list", body)
		for _, item := range p.Items {
			if string(item.Body) != strconv.Itoa(len(all)) {
				t.Fatalf("item %d: %q", len(all), item.Body)
			}
			all = append(all, item.ID)
		}
		if after = p.Next; after == "" {
			break
		}
	}
	if !slices.Equal(all, want) {
		t.Errorf("%d items were listed", len(all))
	}
	p := object[page](c, "pq.jobs.list", `{"state":"delayed"}`)
	if len(p.Items) != 1 || p.Items[0].ID != delayed.ID || time.Until(p.Items[0].Due) < 59*time.Minute {
		t.Errorf("%+v", p)
	}
	p = object[page](c, "pq.jobs.list", `{"state":"leased"}`)
	if len(p.Items) != 1 || p.Items[0].ID != leased.Header.Get("PQ-Id") || p.Items[0].Deliveries != 1 {
		t.Errorf("%+v", p)
	}
	c.push("pq.bands.push.-5", "x")
	middle, last := c.push("pq.bands.push.0", "x").ID, c.push("pq.bands.push.5", "x").ID
	for body, want := range map[string][]string{
		`{"min":0,"max":0}`: {middle},
		`{"min":-4}`:        {middle, last},
		`{"max":-6}`:        nil,
		fmt.Sprintf(`{"min":1,"after":%q}`, middle):                               {last},
		fmt.Sprintf(`{"max":4,"after":%q}`, middle):                               nil,
		fmt.Sprintf(`{"max":-1,"after":%q}`, last):                                nil,
		`{"min":-9223372036854775808,"max":0,"limit":2,"after":"` + middle + `"}`: nil,
	} {
		if p := object[page](c, "pq.bands.list", body); !slices.Equal(p.ids(), want) || p.Next != "" {
			t.Errorf("%s: %v, next %q, expected %v", body, p.ids(), p.Next, want)
		}
	}
	ann := c.push("pq.bands.push.7", "x", "PQ-Key", "ann").ID
	first = object[page](c, "pq.bands.list", `{"key":"ann","limit":1}`)
	c.push("pq.bands.push.6", "x", "PQ-Key", "anna")
	ann0 := c.push("pq.bands.push.0", "x", "PQ-Key", "ann").ID
	for body, want := range map[string][]string{
		`{"key":"ann"}`:                               {ann0, ann},
		`{"key":"ann","state":"ready","min":1}`:       {ann},
		`{"key":"ann","after":"` + ann0 + `"}`:        {ann},
		`{"key":"ann","after":"` + last + `"}`:        {ann},
		`{"key":"an"}`:                                nil,
		`{"key":"ann","max":6,"after":"` + ann + `"}`: nil,
	} {
		if p := object[page](c, "pq.bands.list", body); !slices.Equal(p.ids(), want) || p.Next != "" {
			t.Errorf("%s: %v, next %q, expected %v", body, p.ids(), p.Next, want)
		}
	}
	if !slices.Equal(first.ids(), []string{ann}) || first.Next != "" {
		t.Errorf("%+v", first)
	}
	if p := object[page](c, "pq.bands.list", `{"max":0,"limit":1}`); p.Next == "" {
		t.Error("there is no page behind the first one of a band")
	}
	c.refused(c.ask("pq.none.list", ""), 404, "unknown")
	large := c.push("pq.previews.push", strings.Repeat("\xff", 40_000)).ID
	c.push("pq.previews.push", "0123456789")
	c.push("pq.previews.push", "", "X-Header", "value")
	begun := object[page](c, "pq.previews.list", `{"preview":7}`)
	if len(begun.Items) != 3 || begun.Items[0].ID != large || string(begun.Items[0].Preview) != "\xff\xff\xff\xff\xff\xff\xff" ||
		string(begun.Items[1].Preview) != "0123456" || begun.Items[1].Size != 10 || begun.Items[1].Body != nil || begun.Items[2].Preview == nil {
		t.Errorf("%+v", begun)
	}
	if begun = object[page](c, "pq.previews.list", `{"preview":1024}`); string(begun.Items[1].Preview) != "0123456789" {
		t.Errorf("%+v", begun)
	}
	c.push("pq.empty.push", "")
	if m := c.ask("pq.empty.list", `{"bodies":true}`); !strings.Contains(string(m.Data), `"body":""`) {
		t.Errorf("the list of an empty item is %s", m.Data)
	}
}

// A page always fits into the server's max_payload.
func TestListOfLargeItems(t *testing.T) {
	t.Parallel()
	c := serve(t)
	var want []string
	for range 5 {
		want = append(want, c.push("pq.jobs.push", string(make([]byte, 300_000))).ID)
	}
	want = append(want, c.push("pq.jobs.push", string(make([]byte, 1_000_000))).ID)
	var all []string
	body := `{"bodies":true}`
	for {
		p := object[page](c, "pq.jobs.list", body)
		if len(p.Items) == 0 {
			t.Fatal("an empty page")
		}
		for _, item := range p.Items {
			if withBody := item.Size < 1_000_000; (int64(len(item.Body)) == item.Size) != withBody {
				t.Errorf("item of %d bytes has a body of %d", item.Size, len(item.Body))
			}
			all = append(all, item.ID)
		}
		if p.Next == "" {
			break
		}
		body = fmt.Sprintf(`{"bodies":true,"after":%q}`, p.Next)
	}
	if !slices.Equal(all, want) {
		t.Errorf("%d items were listed", len(all))
	}
}

// An item is found by its id in every state.
func TestItemByID(t *testing.T) {
	t.Parallel()
	c := serve(t)
	ack := c.push("pq.jobs.push.3", "x", "X-Mine", "1", "PQ-Delay", "1h")
	get := func(state string, priority int64) *nats.Msg {
		t.Helper()
		m := c.ask("pq.jobs.get."+ack.ID, "")
		if string(m.Data) != "x" || m.Header.Get("PQ-State") != state || m.Header.Get("X-Mine") != "1" ||
			m.Header.Get("PQ-Id") != ack.ID || m.Header.Get("PQ-Priority") != fmt.Sprint(priority) || m.Reply != "" {
			t.Errorf("%s: %q, %v", state, m.Data, m.Header)
		}
		return m
	}
	at, err := time.Parse(time.RFC3339Nano, get("delayed", 3).Header.Get("PQ-Not-Before"))
	if left := time.Until(at); err != nil || left > time.Hour || left < 59*time.Minute {
		t.Errorf("not before %s, %v", at, err)
	}
	second := c.push("pq.jobs.push.3", "y")
	moved := func(id string, priority int64) {
		t.Helper()
		if got := object[pubAck](c, fmt.Sprintf("pq.jobs.move.%s.%d", id, priority), ""); got.ID != id || got.Priority != priority {
			t.Errorf("%+v", got)
		}
	}
	moved(ack.ID, -7)
	get("delayed", -7)
	ack = c.push("pq.jobs.push.3", "x", "X-Mine", "1")
	get("ready", 3)
	moved(ack.ID, 2)
	get("ready", 2)
	m := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h")
	if m.Header.Get("PQ-Id") != ack.ID {
		t.Errorf("%v", m.Header)
	}
	if get("leased", 2).Header.Get("PQ-Lease-Expires") == "" {
		t.Error("a lease without an end")
	}
	moved(ack.ID, 4) // when it comes back
	c.accepted(c.raw(m.Reply, "-NAK"))
	get("ready", 4)
	m = c.pop("pq.jobs.pop.max", "", "PQ-Lease", "1h")
	if removed := object[pubAck](c, "pq.jobs.remove."+ack.ID, ""); removed.ID != ack.ID || removed.Priority != 4 {
		t.Errorf("%+v", removed)
	}
	c.lost(c.raw(m.Reply, "+ACK"), "gone")
	for _, verb := range []string{"get." + ack.ID, "remove." + ack.ID, "move." + ack.ID + ".5"} {
		c.refused(c.ask("pq.jobs."+verb, ""), 404, "unknown")
		c.refused(c.ask("pq.none."+verb, ""), 404, "unknown")
	}
	if m := c.pop("pq.jobs.pop.min", ""); m.Header.Get("PQ-Id") != second.ID {
		t.Errorf("%v", m.Header)
	}
}
