package bridge_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
)

// bulk asks for a page of a bulk operation.
func (c *client) bulk(subject, body string) (answer protocol.BulkAnswer) {
	c.Helper()
	m := c.raw(subject, body)
	if err := json.Unmarshal(m.Data, &answer); err != nil || m.Header.Get("Nats-Service-Error-Code") != "" {
		c.Fatalf("%s %s: %v, %s", subject, body, m.Header, m.Data)
	}
	return answer
}

// bodies returns the payloads of the items of a queue in a state, with their priorities.
func (c *client) bodies(queue, state string) (shown []string) {
	c.Helper()
	var page protocol.Page
	m := c.ask("pq."+queue+".list", `{"bodies":true,"state":"`+state+`"}`)
	if err := json.Unmarshal(m.Data, &page); err != nil {
		c.Fatal(err)
	}
	for _, item := range page.Items {
		shown = append(shown, fmt.Sprintf("%s:%d", item.Body, item.Priority))
	}
	return shown
}

func (c *client) has(queue, state string, want ...string) {
	c.Helper()
	if got := c.bodies(queue, state); strings.Join(got, " ") != strings.Join(want, " ") {
		c.Errorf("%s items of %s are %q, expected %q", state, queue, got, want)
	}
}

// Each field of a filter chooses the items that it says.
func TestBulkFilters(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.push("pq.jobs.push.1", "a", "Season", "autumn", "Tree", "oak")
	c.push("pq.jobs.push.2", "b", "Season", "summer", "Season", "autumn", "PQ-Key", "k")
	between := c.pop("pq.jobs.peek.max", "").Header.Get("Nats-Time-Stamp")
	c.push("pq.jobs.push.3", "c", "season", "autumn")
	c.push("pq.jobs.push.4", "d", "Season", "autumnal", "PQ-Key", "other")
	c.push("pq.jobs.push.5", "e", "Season", "autumn", "PQ-Delay", "1h")
	c.push("pq.jobs.push.0", strings.Repeat("f", 100_000), "Tree", "elm", "Big", strings.Repeat("x", 10_000))
	c.push("pq.jobs.push.-1", "g", "season", "spring")
	failed := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h")
	c.accepted(c.raw(failed.Reply, `-NAK {"reason":"timeout"}`))
	for _, step := range []struct {
		where string
		want  int
	}{
		{`{"header":{"Season":"autumn"}}`, 2},
		{`{"header":{"Season":"autumn*"}}`, 3},
		{`{"header":{"Season":"autumn","Tree":"*"}}`, 1},
		{`{"header":{"Season":"*","Tree":"*"}}`, 1}, // not one that has Season twice
		{`{"header":{"season":"autumn"}}`, 1},
		{`{"header":{"Tree":"e*"}}`, 1},
		{`{"header":{"Tree":"oak*"},"max":0}`, 0},
		{`{"state":"delayed"}`, 1},
		{`{"state":"delayed","header":{"Season":"autumn"},"min":5,"max":5}`, 1},
		{`{"state":"leased"}`, 0},
		{`{"min":2}`, 3},
		{`{"min":2,"max":3}`, 2},
		{`{"key":"k"}`, 1},
		{`{"key":"k","state":"delayed"}`, 0},
		{`{"pushed_after":"` + between + `"}`, 5},
		{`{"pushed_before":"` + between + `"}`, 1},
		{`{"pushed_before":"1970-01-01T00:00:00Z"}`, 0},
		{`{"pushed_after":"9999-01-01T00:00:00Z"}`, 0},
		{`{"deliveries":1}`, 1},
		{`{"reason":"*"}`, 0},
		{`{"cause":"*"}`, 1},
		{`{"cause":"time*"}`, 1},
		{`{"cause":"time"}`, 0},
		{`{"origin":"*"}`, 0},
	} {
		got := c.bulk("pq.jobs.admin.remove", `{"where":`+step.where+`,"dry_run":true}`)
		if got.Done != step.want || got.Next != "" || got.Looked < got.Done {
			t.Errorf("%s: %+v, expected %d", step.where, got, step.want)
		}
	}
}

// A page removes, moves or revokes what fits, and nothing else. Whoever holds an item of it has
// lost it.
func TestBulkChanges(t *testing.T) {
	t.Parallel()
	c := serve(t)
	events := c.hear("pq.jobs.event.revoked")
	for i := range 6 {
		c.push("pq.jobs.push."+fmt.Sprint(i), fmt.Sprint("item ", i))
	}
	held := make([]*nats.Msg, 4)
	for i := range held {
		held[i] = c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h", "PQ-Holder", fmt.Sprint("w", i%2))
	}
	for range 2 { // what has the priority already is passed over
		c.bulk("pq.jobs.admin.move", `{"where":{"min":5},"priority":9}`)
	}
	c.has("jobs", "ready", "item 4:4", "item 5:9")
	if got := c.bulk("pq.jobs.admin.move", `{"all":true,"priority":9}`); got.Done != 1 || got.Looked != 2 {
		t.Errorf("moved %+v", got)
	}
	if got := c.bulk("pq.jobs.admin.revoke", `{"where":{"holder":"w1"},"reason":"it hangs","delay":"1h"}`); got.Done != 2 || got.Looked != 4 {
		t.Errorf("revoked %+v", got)
	}
	for range 2 {
		var e protocol.ItemEvent
		if err := json.Unmarshal(c.next(events).Data, &e); err != nil || e.Holder != "w1" || e.Reason != "it hangs" || e.NotBefore.IsZero() {
			t.Errorf("the event says %+v, %v", e, err)
		}
	}
	c.has("jobs", "delayed", "item 1:1", "item 3:3")
	for i, reason := range []string{"gone", "taken", "gone", "taken"} {
		if i == 0 {
			if got := c.bulk("pq.jobs.admin.remove", `{"where":{"state":"leased"}}`); got.Done != 2 {
				t.Errorf("removed %+v", got)
			}
		}
		c.lost(c.raw(held[i].Reply, "+ACK"), reason)
	}
	if got := c.bulk("pq.jobs.admin.remove", `{"where":{"state":"delayed","deliveries":1,"max":1}}`); got.Done != 1 || got.Looked != 1 {
		t.Errorf("removed %+v", got)
	}
	c.has("jobs", "delayed", "item 3:3")
	if n := c.queueCount("removed_total", "jobs"); n != 3 {
		t.Errorf("%v items are counted as removed", n)
	}
	c.refused(c.raw("pq.none.admin.remove", `{"all":true}`), 404, "unknown")
	c.refused(c.raw("pq.jobs.admin.remove", `{"all":true}`+strings.Repeat(" ", protocol.MaxBulkBody)), 413)
}

// Pages follow one another by their cursors, a dry run counts what they do, and a run ends with the
// items that were there when it began.
func TestBulkPages(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for i := range 7 {
		c.push("pq.jobs.push", fmt.Sprint("item ", i), "PQ-Key", fmt.Sprint("key ", i%3))
	}
	run := func(options string) (done, pages int) {
		at := c.bulk("pq.jobs.admin.remove", `{"all":true,"limit":0`+options+`}`)
		if at.Done != 0 || at.Looked != 0 || at.Next == "" {
			t.Fatalf("it begins with %+v", at)
		}
		c.push("pq.jobs.push", "later")
		for ; at.Next != ""; pages++ {
			at = c.bulk("pq.jobs.admin.remove", `{"all":true,"limit":3`+options+`,"after":"`+at.Next+`"}`)
			done += at.Done
		}
		return done, pages
	}
	if done, pages := run(`,"dry_run":true`); done != 7 || pages != 3 {
		t.Errorf("a dry run: %d in %d pages", done, pages)
	}
	if done, pages := run(""); done != 8 || pages != 3 {
		t.Errorf("a run: %d in %d pages", done, pages)
	}
	c.has("jobs", "ready", "later:0")
	// A cursor is of its operation on its queue, and of what where says in whatever words.
	c.push("pq.others.push", "kept")
	c.push("pq.jobs.push", "two headers", "A", "1", "B", "2")
	const jobs, remove = "jobs", "remove"
	for _, other := range []struct{ queue, verb, begun, then string }{
		{"others", remove, `"all":true`, `"all":true`},
		{jobs, "move", `"all":true`, `"all":true,"priority":1`},
		{jobs, remove, `"all":true`, `"where":{"min":1}`},
		{jobs, remove, `"where":{"min":1}`, `"all":true`},
		{jobs, remove, `"where":{"min":1}`, `"where":{"max":1}`},
		{jobs, remove, `"where":{"min":1}`, `"where":{"min":2}`},
		{jobs, remove, `"where":{"state":"delayed"}`, `"all":true`},
		{jobs, remove, `"where":{"header":{"A":"1"}}`, `"where":{"header":{"A":"2"}}`},
		{jobs, remove, `"where":{"header":{"key":"1"}}`, `"where":{"key":"1"}`},
	} {
		next := c.bulk("pq.jobs.admin.remove", "{"+other.begun+`,"limit":0}`).Next
		text := c.refused(c.ask("pq."+other.queue+".admin."+other.verb, `{"after":"`+next+`",`+other.then+"}"), 400).Header.Get("Nats-Service-Error")
		if !strings.Contains(text, "of the same operation on this queue with the same where") {
			t.Errorf("from %s to %s: %s", other.begun, other.then, text)
		}
	}
	next := c.bulk("pq.jobs.admin.remove", `{"where":{"state":"ready","min":0,"header":{"A":"1","B":"2"}},"limit":0}`).Next
	if done := c.bulk("pq.jobs.admin.remove", `{"after":"`+next+`","where":{"header":{"B":"2","A":"1"},"min":0}}`).Done; done != 1 {
		t.Errorf("removed %d with the fields in another order", done)
	}
	c.has("others", "ready", "kept:0")
}

// Dead letters go back by reason, and only dead letters of the queue do.
func TestBulkRequeue(t *testing.T) {
	t.Parallel()
	c := serve(t)
	die := func(queue, body, reason string) {
		c.push("pq."+queue+".push.3", body, "Season", "autumn")
		c.accepted(c.raw(c.pop("pq."+queue+".pop.min", "", "PQ-Lease", "1h").Reply, "+TERM "+reason))
	}
	for i := range 4 {
		die("jobs", fmt.Sprint("item ", i), []string{"timeout of a", "no such address"}[i%2])
	}
	c.push("pq.jobs-dead.push", "no dead letter")
	requeue := func(options string) protocol.BulkAnswer {
		return c.bulk("pq.jobs-dead.admin.requeue", `{"where":{"reason":"timeout*","origin":"jobs"}`+options+`}`)
	}
	if got := requeue(`,"dry_run":true`); got.Done != 2 || got.Looked != 5 {
		t.Errorf("a dry run: %+v", got)
	}
	c.has("jobs", "ready")
	c.push("pq.jobs.push.9", "less urgent")
	c.ask("pq.jobs.admin.config", `{"max_length":2}`)
	first := requeue("")
	if first.Done != 1 || first.Stopped != "full" {
		t.Errorf("one has room: %+v", first)
	}
	c.ask("pq.jobs.admin.config", `{"max_length":0,"ttl":"1h"}`)
	if got := requeue(`,"spread":"10h","after":"` + first.Next + `"`); got.Done != 1 || got.Stopped != "" || got.Next != "" {
		t.Errorf("the rest: %+v", got)
	}
	c.has("jobs", "ready", "item 0:3", "less urgent:9")
	c.has("jobs", "delayed", "item 2:3")
	c.has("jobs-dead", "ready", "no dead letter:0", "item 1:3", "item 3:3")
	if m := c.pop("pq.jobs.pop.min", ""); m.Header.Get("Season") != "autumn" || m.Header.Get("PQ-Dead-Reason") != "" {
		t.Errorf("what came back has %v", m.Header)
	}
	if got := c.bulk("pq.jobs-dead.admin.requeue", `{"all":true}`); got.Done != 2 || got.Looked != 3 {
		t.Errorf("all: %+v", got)
	}
}

// A right to the items of one queue gives none to push to another: dead letters go back to where
// they come from, while that has its dead letters go where they are.
func TestBulkRequeueIntoQueueThatDoesNotAgree(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.ask("pq.graves.admin.config", `{"dead_letters_from":"a,b"}`)
	for _, queue := range []string{"a", "b"} {
		c.ask("pq."+queue+".admin.config", `{"dead_letter":"graves"}`)
		c.push("pq."+queue+".push", "of "+queue)
		c.accepted(c.raw(c.pop("pq."+queue+".pop.min", "", "PQ-Lease", "1h").Reply, "+TERM"))
	}
	c.push("pq.graves.push", "stranger")
	c.push("pq.victim.push", "in peace")
	refused := func(queue, body string) {
		t.Helper()
		for _, more := range []string{"", `,"dry_run":true`, `,"limit":0`} {
			c.refused(c.raw("pq."+queue+".admin.requeue", body+more+"}"), 403)
		}
	}
	refused("graves", `{"all":true,"to":"victim"`)
	refused("graves", `{"all":true,"to":"victim","any":true`)
	refused("graves", `{"all":true,"to":"a","any":true`)
	refused("graves", `{"all":true,"to":"graves"`)
	refused("victim", `{"all":true,"to":"a"`)
	refused("graves", `{"all":true,"to":"none"`)
	c.ask("pq.b.admin.config", `{"dead_letter":""}`)
	refused("graves", `{"all":true,"to":"b"`)
	if got := c.bulk("pq.graves.admin.requeue", `{"all":true,"to":"a"}`); got.Done != 1 || got.Looked != 3 {
		t.Errorf("to a: %+v", got)
	}
	c.has("graves", "ready", "of b:0", "stranger:0")
	c.has("a", "ready", "of a:0")
	c.has("victim", "ready", "in peace:0")
}

// A bridge serves one bulk request of a queue at a time.
func TestBulkBusy(t *testing.T) {
	t.Parallel()
	c, db := slowly(t, faulty(t))
	c.push("pq.jobs.push", "x")
	c.push("pq.others.push", "x")
	release := db.blockNext()
	first := c.send("pq.jobs.admin.remove", `{"all":true}`)
	db.awaitBlocked(t)
	c.refused(c.raw("pq.jobs.admin.remove", `{"all":true}`), 429, "busy")
	c.refused(c.raw("pq.jobs.admin.move", `{"all":true,"priority":5}`), 429, "busy")
	other := c.send("pq.others.admin.remove", `{"all":true}`)
	release()
	for _, sub := range []answers{first, other} {
		if m := c.next(sub); string(m.Data) != `{"done":1,"looked":1}` {
			t.Errorf("%s", m.Data)
		}
	}
	if got := c.bulk("pq.jobs.admin.remove", `{"all":true}`); got.Done != 0 {
		t.Errorf("%+v", got)
	}
}

// A page that meets others runs again, half as long.
func TestBulkIsShorterAfterConflict(t *testing.T) {
	t.Parallel()
	c, db := slowly(t, faulty(t))
	for i := range 6 {
		c.push("pq.jobs.push", fmt.Sprint("item ", i))
	}
	release := db.blockNext()
	page := c.send("pq.jobs.admin.remove", `{"all":true,"limit":4}`)
	db.awaitBlocked(t)
	if m := c.pop("pq.jobs.pop.min", ""); string(m.Data) != "item 0" {
		t.Errorf("the pop takes %q", m.Data)
	}
	release()
	var got protocol.BulkAnswer
	if err := json.Unmarshal(c.next(page).Data, &got); err != nil || got.Done != 2 || got.Next == "" {
		t.Errorf("a page of 4: %+v, %v", got, err)
	}
	c.has("jobs", "ready", "item 3:0", "item 4:0", "item 5:0")
}
