package bridge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// eachResult is what became of an item, as the answer to its own message says it, or as the answer to a bundle does.
type eachResult struct {
	Seq       int64
	Duplicate bool
	ID        string
	Priority  int64
	Evicted   bool
	Error     *struct {
		Code        int
		ErrCode     int `json:"err_code"`
		Description string
		Reason      string
	}
}

// shown is a result without its id, which differs between stores.
func (r eachResult) shown() string {
	if e := r.Error; e != nil {
		return fmt.Sprintf("%d %d %s %q", e.Code, e.ErrCode, e.Reason, e.Description)
	}
	return fmt.Sprintf("%d at %d, duplicate %t, evicted %t", r.Seq, r.Priority, r.Duplicate, r.Evicted)
}

// each pushes a bundle item by item.
func (c *client) each(subject string, frames []string, header ...string) []eachResult {
	c.Helper()
	return c.eachOf(c.sendBundle(subject, frames, append(header, "PQ-Each", "true")...), len(frames))
}

// eachOf reads the answer to a bundle of n items that were pushed one by one.
func (c *client) eachOf(m *nats.Msg, n int) []eachResult {
	c.Helper()
	var answer struct {
		Type, Stream string
		Seq          int64
		Duplicate    bool
		Error        *struct{}
		Items        []eachResult
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil || answer.Type != "io.pq.v1.push_response" || answer.Error != nil || len(answer.Items) != n || m.Header != nil {
		c.Fatalf("answer to a bundle of %d: %s, %v, %v", n, m.Data, m.Header, err)
	}
	last, added, known := int64(0), false, false
	for _, r := range answer.Items {
		if r.Error == nil {
			last, added, known = r.Seq, added || !r.Duplicate, known || r.Duplicate
		}
	}
	if answer.Seq != last || answer.Duplicate != (known && !added) {
		c.Errorf("the answer says %d, %t of all: %s", answer.Seq, answer.Duplicate, m.Data)
	}
	return answer.Items
}

// alone pushes the item of a frame in a message of its own.
func (w *wire) alone(subject, of string) (r eachResult) {
	w.Helper()
	line, rest, _ := strings.Cut(of, "\n")
	first, _, _ := strings.Cut(line, " ")
	headers, err := strconv.Atoi(first)
	if err != nil {
		w.Fatal(err)
	}
	m := w.ask(subject, "NATS/1.0\r\n"+rest[:headers]+"\r\n", strings.TrimSuffix(rest[headers:], "\n"))
	if err := json.Unmarshal(m.Data, &r); err != nil {
		w.Fatalf("%q: %s, %v: %v", of, m.Data, m.Header, err)
	}
	if r.Error != nil {
		r.Error.Reason = m.Header.Get("PQ-Reason")
	}
	return r
}

// Each item of a bundle is pushed or refused as it would be in a message of its own, whatever becomes of the others.
func TestEachAsAlone(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1100)
	for name, tc := range map[string]struct {
		config  string
		subject string // pq.jobs.push
		before  []string
		frames  []string
		refused int
	}{
		"headers": {frames: []string{
			frame("a"), frame("b", "PQ-Priority", "high"), frame("c", "PQ-Timeout", "5s"), frame("e", "PQ-Each", "true"),
			frame("f", "PQ-TTL", "5s", "PQ-TTL", "5s"), frame("g", "Nats-TTL", "5s"), frame("h", "PQ-Delay", "1s", "PQ-Not-Before", "2030-01-02T15:04:05Z"),
			frame("i", "PQ-On-Conflict", "keep"), frame("j", "Nats-Msg-Id", long), frame("k", "Nats-Expected-Stream", "mails"), frame("l", "PQ-Settle", "none"),
			frame("m", "a b", "c"), frame("o", "PQ-Key", long), frame("p", "PQ-Weight", "5"), frame("q", "PQ-Priority", "-3"),
		}, refused: 13},
		"subject":       {subject: "pq.jobs.push.5", frames: []string{frame("a"), frame("b", "PQ-Priority", "4"), frame("c", "PQ-Priority", "5")}, refused: 1},
		"too large":     {frames: []string{frame("a"), frame(strings.Repeat("x", 63<<10+1)), frame("c")}, refused: 1},
		"full":          {config: `{"max_length":3}`, frames: slices.Repeat([]string{frame("a")}, 64), refused: 61},
		"full of bytes": {config: `{"max_bytes":1100}`, frames: []string{frame("a"), frame(strings.Repeat("x", 600)), frame("c"), frame("d")}, refused: 2},
		"remembered":    {config: `{"dedup_limit":1}`, frames: []string{frame("a", "Nats-Msg-Id", "1"), frame("b", "Nats-Msg-Id", "2"), frame("c")}, refused: 1},
		"results":       {config: `{"result_bytes":300}`, frames: []string{frame("a"), frame("b", "PQ-Result-TTL", "1h"), frame("c", "PQ-Result-TTL", "200h"), frame("d")}, refused: 2},
		"ids": {before: []string{frame("a", "Nats-Msg-Id", "1")}, frames: []string{
			frame("b", "Nats-Msg-Id", "2"), frame("a", "Nats-Msg-Id", "1"), frame("b", "Nats-Msg-Id", "2"),
			frame("c", "Nats-Msg-Id", "3", "PQ-Delay", "x"), frame("c", "Nats-Msg-Id", "3"),
		}, refused: 1},
		"one a value": {before: []string{frame("a", "PQ-Unique", "u", "PQ-Priority", "5")}, frames: []string{
			frame("b", "PQ-Unique", "v"), frame("c", "PQ-Unique", "v", "PQ-On-Conflict", "keep"),
			frame("d", "PQ-Unique", "u", "PQ-On-Conflict", "raise", "PQ-Priority", "-1"), frame("e", "PQ-Unique", "u", "PQ-On-Conflict", "replace"),
			frame("f", "PQ-Unique", "u", "PQ-On-Conflict", "replace", "PQ-Key", "k"),
			frame("g", "PQ-Unique", "w", "PQ-On-Conflict", "x"), frame("h", "PQ-Unique", "w"),
		}, refused: 2},
		"all are refused": {config: `{"max_length":1}`, before: []string{frame("a")}, frames: []string{frame("b"), frame("c", "PQ-Priority", "x")}, refused: 2},
		"all are known":   {before: []string{frame("a", "Nats-Msg-Id", "1")}, frames: []string{frame("a", "Nats-Msg-Id", "1"), frame("a", "Nats-Msg-Id", "1")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := bridge.Options{Exclusive: true}
			bundled, singly := serveWithin(t, 64<<10, options), serveWithin(t, 64<<10, options)
			w := singly.wire()
			subject := tc.subject
			if subject == "" {
				subject = "pq.jobs.push"
			}
			for _, c := range []*client{bundled, singly} {
				c.ask("pq.jobs.admin.config", "{"+strings.Trim(tc.config, "{}")+"}")
				for _, one := range tc.before {
					c.each("pq.jobs.push", []string{one})
				}
			}
			refused := 0
			for i, got := range bundled.each(subject, tc.frames) {
				want := w.alone(subject, tc.frames[i])
				if got.shown() != want.shown() {
					t.Errorf("item %d: %s, alone %s", i, got.shown(), want.shown())
				}
				if want.Error != nil {
					refused++
				}
			}
			if refused != tc.refused {
				t.Errorf("%d items are refused, expected %d", refused, tc.refused)
			}
			for {
				got, want := bundled.ask("pq.jobs.pop.min", ""), singly.ask("pq.jobs.pop.min", "")
				if string(got.Data) != string(want.Data) {
					t.Fatalf("the next item is %q, alone %q", got.Data, want.Data)
				}
				if got.Header.Get("PQ-Id") == "" {
					break
				}
			}
		})
	}
}

// A bundle is refused as a whole when its frames cannot be told from each other, and then nothing of it was pushed.
func TestEachMalformed(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for _, tc := range []struct {
		body   string
		header []string
		code   int
		item   int
		text   string
	}{
		{frame("a"), []string{"PQ-Bundle", "1", "PQ-Each", "yes"}, 400, -1, `PQ-Each is "yes": expected true`},
		{frame("a"), []string{"PQ-Bundle", "1", "PQ-Each", "true", "PQ-Each", "true"}, 400, -1, "expected true"},
		{frame("a"), []string{"PQ-Bundle", "2", "PQ-Each", "true"}, 400, 1, "the message ends here"},
		{frame("a") + "0 9\nb\n", []string{"PQ-Bundle", "2", "PQ-Each", "true"}, 400, 1, "the message has 2 more"},
		{frame("a") + frame("b"), []string{"PQ-Bundle", "1", "PQ-Each", "true"}, 400, -1, "6 bytes follow item 0"},
		{frame("a"), []string{"PQ-Bundle", "1", "PQ-Each", "true", "PQ-Priority", "1"}, 400, -1, "among the headers of each item"},
		{frame("a"), []string{"PQ-Bundle", "1001", "PQ-Each", "true"}, 413, -1, "allowed are 1000"},
	} {
		c.refusedItem(c.raw("pq.jobs.push", tc.body, tc.header...), tc.code, tc.item, tc.text)
	}
	c.refused(c.raw("pq.jobs.push", "a", "PQ-Each", "true"), 400)
	c.refused(c.ask("pq.jobs.pop.min", ""), 404, "unknown")
}

// A repeated bundle adds nothing twice: what was pushed is a duplicate, what was refused is pushed when it may.
func TestEachRepeated(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		id     func(i int) []string
		header []string
	}{
		"ids of the items":    {id: func(i int) []string { return []string{"Nats-Msg-Id", fmt.Sprint(i)} }},
		"an id of the bundle": {id: func(int) []string { return nil }, header: []string{"Nats-Msg-Id", "bundle"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serve(t)
			c.ask("pq.jobs.admin.config", `{"max_length":3}`)
			var frames []string
			for i := range 6 {
				frames = append(frames, frame(fmt.Sprint(i), tc.id(i)...))
			}
			first, again := c.each("pq.jobs.push", frames, tc.header...), c.each("pq.jobs.push", frames, tc.header...)
			for i := range first {
				one, two := first[i], again[i]
				if taken := i < 3; one.Duplicate || (one.Error == nil) != taken || two.Duplicate != taken || (two.Error == nil) != taken || one.ID != two.ID {
					t.Errorf("item %d: %s, then %s", i, one.shown(), two.shown())
				}
			}
			c.ask("pq.jobs.admin.config", `{"max_length":0}`)
			for i, third := range c.each("pq.jobs.push", frames, tc.header...) {
				if third.Error != nil || third.Duplicate != (i < 3) {
					t.Errorf("item %d where there is room: %s", i, third.shown())
				}
			}
			if n := c.info("jobs").Ready; n != 6 {
				t.Errorf("%d items are ready, expected 6", n)
			}
		})
	}
}

// A refused item makes neither the others of its bundle nor those of other messages run again.
func TestEachRunsOnce(t *testing.T) {
	t.Parallel()
	db := &triedDB{DB: faulty(t)}
	c, slow := slowly(t, db, bridge.Options{Exclusive: true})
	c.push("pq.jobs.push", "leased", "PQ-Unique", "v")
	c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m")
	bundle := frame("a") + frame("b", "PQ-Unique", "v", "PQ-On-Conflict", "replace") + frame("c", "PQ-Priority", "x") + frame("d")
	c.inFlight("work", 0)
	release := slow.blockNext()
	first := c.send("pq.jobs.push", "first")
	slow.awaitBlocked(c)
	all := []answers{c.send("pq.jobs.push", "before"), c.send("pq.jobs.push", bundle, "PQ-Bundle", "4", "PQ-Each", "true"), c.send("pq.jobs.push", "behind")}
	c.inFlight("work", 7)
	tried := db.tried.Load()
	release()
	c.acknowledged(c.next(first))
	c.acknowledged(c.next(all[0]))
	results := c.eachOf(c.next(all[1]), 4)
	c.acknowledged(c.next(all[2]))
	for i, code := range []int{0, 409, 400, 0} {
		if e := results[i].Error; (e == nil) != (code == 0) || e != nil && e.Code != code {
			t.Errorf("item %d: %s, expected %d", i, results[i].shown(), code)
		}
	}
	if n := db.tried.Load() - tried; n != 2 {
		t.Errorf("%d transactions were tried, expected the first one and one with all others", n)
	}
	var order []string
	for range 5 {
		order = append(order, string(c.pop("pq.jobs.pop.min", "").Data))
	}
	if got := strings.Join(order, " "); got != "first before a d behind" {
		t.Errorf("popped %s", got)
	}
}

// Where pushes follow one another, the items of a bundle wait for those that are under way, and keep their order.
func TestEachInTurn(t *testing.T) {
	t.Parallel()
	c, db := slowly(t, faulty(t), bridge.Options{})
	c.ask("pq.jobs.admin.config", `{"strict":true}`)
	release := c.underWay(db, c.NewInbox()+".1", "first")
	inbox := c.NewInbox()
	own := c.hear(inbox + ".*")
	c.sendOn(answers{inbox: inbox + ".1"}, "pq.jobs.push", frame("second")+frame("wrong", "PQ-Priority", "x")+frame("third"), "PQ-Bundle", "3", "PQ-Each", "true")
	c.unanswered(own)
	release()
	if results := c.eachOf(c.next(own), 3); results[0].Error != nil || results[1].Error == nil || results[2].Error != nil {
		t.Errorf("results %+v", results)
	}
	c.inOrder("first", "second", "third")
}

// triedDB counts the attempts at transactions that change jobs.
type triedDB struct {
	kv.DB
	tried atomic.Int64
}

func (db *triedDB) Update(ctx context.Context, fn func(kv.Tx) error) error {
	return db.DB.Update(ctx, func(tx kv.Tx) error {
		noticed := &noticed{Tx: tx}
		err := fn(noticed)
		if noticed.jobs {
			db.tried.Add(1)
		}
		return err
	})
}

// While the store takes nothing, a bundle of which it has nothing is refused as a whole, as any push. It recognizes the
// items that it has.
func TestEachWhileTheStoreTakesNothing(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	db := faulty(t)
	c := serveOn(t, db, bridge.Options{Exclusive: true, Room: roomUnless(&full)})
	known := c.push("pq.jobs.push", "known", "Nats-Msg-Id", "a")
	with := []string{frame("new", "Nats-Msg-Id", "b"), frame("known", "Nats-Msg-Id", "a"), frame("new")}
	without := []string{frame("new", "Nats-Msg-Id", "b"), frame("new")}
	wrong := []string{frame("new"), frame("wrong", "PQ-Priority", "x")}
	send := func(frames []string) *nats.Msg { return c.sendBundle("pq.jobs.push", frames, "PQ-Each", "true") }
	full.Store(true)
	c.refusedItem(c.refused(send(without), 429, "store_full"), 429, -1, "no room")
	c.refusedItem(c.refused(send(without[1:]), 429, "store_full"), 429, -1, "no room")
	results := c.eachOf(send(with), 3)
	if r := results[1]; r.Error != nil || !r.Duplicate || r.ID != known.ID {
		t.Errorf("the item that is there: %s", r.shown())
	}
	for _, r := range []eachResult{results[0], results[2], c.eachOf(send(wrong), 2)[0]} {
		if r.Error == nil || r.Error.Code != 429 || r.Error.Reason != "store_full" || r.Error.Description != "no room" {
			t.Errorf("a new item: %s", r.shown())
		}
	}
	full.Store(false)
	db.Disconnect()
	c.refused(send(without), 503)
	if r := c.eachOf(send(wrong), 2); r[0].Error == nil || r[0].Error.Code != 503 || r[1].Error == nil || r[1].Error.Code != 400 {
		t.Errorf("without a store: %+v", r)
	}
	db.Reconnect()
	if n := c.info("jobs").Ready; n != 1 {
		t.Errorf("%d items are ready, expected the known one", n)
	}
}

// A tenant gets what fits into its quotas, in order.
func TestEachWithinQuotas(t *testing.T) {
	t.Parallel()
	c := serve(t, bridge.Options{Exclusive: true, Tenants: func(tenant string) bridge.Quotas {
		return map[string]bridge.Quotas{"items": {Items: 3}, "bytes": {Bytes: 3 * (10 + 512)}, "queues": {Queues: 1}}[tenant]
	}})
	c.push("pq.queues.a.push", "x")
	for reason, taken := range map[string]int{"quota_items": 3, "quota_bytes": 3, "quota_queues": 0} {
		queue := "pq." + strings.TrimPrefix(reason, "quota_") + ".jobs"
		for i, r := range c.each(queue+".push", slices.Repeat([]string{frame("ten bytes.")}, 64)) {
			if e := r.Error; (e == nil) != (i < taken) || e != nil && (e.Code != 429 || e.Reason != reason) {
				t.Errorf("%s, item %d: %s", reason, i, r.shown())
			}
		}
	}
}

// The answer to a bundle whose items are all refused fits into the server's max_payload, if need be without the texts.
func TestEachAnswerFits(t *testing.T) {
	t.Parallel()
	c := serveWithin(t, 32<<10, bridge.Options{})
	wrong := frame("x", "PQ-Timeout", "5s")
	text := c.each("pq.jobs.push", []string{wrong})[0].Error.Description
	most := 0
	for n := 32 << 10 / 100; most == 0; n-- {
		if m := c.sendBundle("pq.jobs.push", slices.Repeat([]string{wrong}, n), "PQ-Each", "true"); len(m.Header) == 0 {
			most = n
		} else {
			c.refusedItem(m, 413, -1, "room for the answer to")
		}
	}
	if len(text)*most < 32<<10 {
		t.Fatalf("%d times %q fits", most, text)
	}
	for i, r := range c.each("pq.jobs.push", append(slices.Repeat([]string{wrong}, most-1), frame("y"))) {
		if (r.Error == nil) != (i == most-1) || r.Error != nil && (r.Error.Code != 400 || r.Error.Description != "Bad Request") {
			t.Errorf("item %d of %d: %s", i, most, r.shown())
		}
	}
}

// Each item is counted with what became of it, and lost where nobody is answered.
func TestEachIsCounted(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.ask("pq.jobs.admin.config", `{"max_length":2}`)
	events := c.hear("pq.jobs.event.error")
	frames := []string{frame("a"), frame("b", "PQ-Priority", "x"), frame("c"), frame("d")}
	c.each("pq.jobs.push", frames)
	c.inFlight("work", 0)
	if err := c.PublishMsg(&nats.Msg{Subject: "pq.jobs.push", Data: []byte(strings.Join(frames, "")), Header: h("PQ-Bundle", "4", "PQ-Each", "true")}); err != nil {
		t.Fatal(err)
	}
	var event struct{ Count, Code int }
	if err := json.Unmarshal(c.next(events).Data, &event); err != nil || event.Count != 1 || event.Code != 400 {
		t.Errorf("event %+v, %v", event, err)
	}
	c.inFlight("work", 0)
	m, want := c.metrics(), map[string]float64{
		"pq_requests_total{code=200,verb=push}": 2, "pq_requests_total{code=400,verb=push}": 2, "pq_requests_total{code=429,verb=push}": 4, "pq_pushes_lost_total{}": 4,
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if m[name] != want[name] {
			t.Errorf("%s is %v, expected %v", name, m[name], want[name])
		}
	}
}
