package console_test

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
)

// leaseAs leases the next item for a holder.
func leaseAs(t *testing.T, nc *nats.Conn, queue, holder string) *nats.Msg {
	t.Helper()
	return pqd.Request(t, nc, "pq."+queue+".pop.min", "", "PQ-Lease", "1h", "PQ-Holder", holder)
}

// cellsOf is a script for the texts of the cells of each row.
const cellsOf = `[...document.querySelectorAll("tbody tr")].map((r) => [...r.querySelectorAll("th, td[data-label]")].map((c) => c.innerText))`

// Dead letters are grouped by why they died, and a group is requeued, or discarded.
func TestConsoleFailureGroups(t *testing.T) {
	t.Parallel()
	p, nc, b := consolePage(t, "PQ_CONSOLE=admin")
	patch(t, p, "jobs/config", `{"max_deliveries":1}`)
	fail := func(n int, holder, word string) {
		t.Helper()
		for range n {
			pqd.Push(t, nc, "jobs", 1, "x")
			pqd.Request(t, nc, leaseAs(t, nc, "jobs", holder).Reply, word)
		}
	}
	b.Open(p.HTTP + "/#/q/jobs?tab=failures")
	b.Sees("There are no dead letters.")
	fail(2, "ann", "+TERM order 12345 is unknown")
	fail(1, "bob", "+TERM order 12346 is unknown")
	fail(2, "ann", `-NAK {"reason":"status 404"}`)
	fail(1, "ann", `-NAK {"reason":"line 12347 is busy"}`)
	fail(1, "ann", `-NAK {"reason":"status 500"}`)
	fail(2, "ann", "+TERM no such address")
	pqd.Push(t, nc, "jobs-dead", 0, "it is none")
	b.Sees("10 are there now.")
	b.Sees("All 0 dead letters")
	b.Click("Look again")
	groups := func(want string) {
		t.Helper()
		b.Until("the groups are "+want, fmt.Sprintf(`%s.map(([reason, items, , held]) => [reason, items, held].join(",")).join("|") === %q`, cellsOf, want))
	}
	groups("order # is unknown,3,2 holders|no such address,2,ann|status 404,2,ann|line # is busy,1,ann|status 500,1,ann")
	b.Until("when the last one died", cellsOf+`.every((c) => /^\d+ (ms|s|min) ago$/.test(c[2]))`)
	b.Take("failures")

	// A group leads to its dead letters.
	b.Click("order # is unknown")
	b.Sees("3 found in 10 items")
	b.Until("they say what is particular to them", `[...document.querySelectorAll("td.wide")].map((c) => c.innerText.split("\n")[0]).sort()[2] === "order 12346 is unknown, from jobs"`)
	b.Enter("reason", "12346")
	b.Click("Search")
	b.Sees("1 found in 10 items")
	b.Take("dead-by-reason")

	// Both actions are for one group alone, and what has died meanwhile stays.
	b.Click("Failures")
	groups("order # is unknown,3,2 holders|no such address,2,ann|status 404,2,ann|line # is busy,1,ann|status 500,1,ann")
	press := func(row int, button string) {
		t.Helper()
		b.Eval(fmt.Sprintf(`[...document.querySelectorAll("tbody tr")[%d].querySelectorAll("button")].find((e) => e.innerText === %q).click()`, row, button+"…"))
		b.Press(button)
	}
	press(0, "Requeue")
	b.Sees("Done: 3 dead letters requeued, 0 failed, 1 of other queues, 10 of 10 looked at.")
	groups("no such address,2,ann|status 404,2,ann|line # is busy,1,ann|status 500,1,ann")
	b.Shows(p, "/v1/queues/jobs", `"ready":3,`)
	press(0, "Discard")
	b.Sees("Done: 2 dead letters discarded, 0 failed, 7 of 7 looked at.")
	groups("status 404,2,ann|line # is busy,1,ann|status 500,1,ann")
	b.Shows(p, "/v1/queues/jobs", `"ready":3,`)
	b.Eval(`window.asked = []; { const send = window.fetch; window.fetch = (at, how) => { asked.push(how.method + " " + at); return send(at, how); } }`)
	press(0, "Requeue")
	b.Sees("Done: 2 dead letters requeued, 0 failed,")
	groups("line # is busy,1,ann|status 500,1,ann")
	if bulk := b.Eval(`asked.filter((a) => a.startsWith("POST")).join()`); bulk != `"POST /v1/queues/jobs-dead/bulk/requeue"` {
		t.Errorf("a group with one cause is requeued by %s", bulk)
	}
	b.Shows(p, "/v1/queues/jobs", `"ready":5,`)
	b.Shows(p, "/v1/queues/jobs-dead", `"ready":3,`)

	// What is under way can be stopped, and nothing else begins meanwhile.
	b.Eval(`window.waiting = []; const send = window.fetch; window.fetch = (at, how) => how.method === "DELETE" ? new Promise((go) => waiting.push(() => go(send(at, how)))) : send(at, how)`)
	press(0, "Discard")
	b.Until("one is under way", `waiting.length === 1 && [...document.querySelectorAll("tbody button")].every((e) => e.disabled)`)
	b.Click("Stop")
	b.Eval(`waiting[0]()`)
	b.Sees("Stopped: 1 dead letter discarded")
	groups("status 500,1,ann")
	b.Defects()
	p.Stop(t)
}

// Who holds an item, and what came of its leases, as an item and as a dead letter.
func TestConsoleAttempts(t *testing.T) {
	t.Parallel()
	p, nc, b := consolePage(t, "PQ_CONSOLE=admin")
	b.Open(p.HTTP + "/#/q/jobs?tab=config")
	patch(t, p, "jobs/config", `{"lease":"1h","max_deliveries":3}`)
	b.Enter("backoff", "1h, soon")
	b.Click("Save")
	b.Until("what is wrong is told at the field", `document.getElementById("field-backoff-problem").innerText.includes("backoff")`)
	b.Enter("backoff", "{delay: 1h}")
	b.Click("Save")
	b.Until("what is expected is told at the field", `document.getElementById("field-backoff-problem").innerText.startsWith("Backoff is {delay: 1h}: expected delays such as")`)
	b.Enter("backoff", "1h, 2h")
	b.Enter("attempts", "2")
	b.Click("Save")
	b.Sees("Changed backoff, attempts.")
	b.Shows(p, "/v1/queues/jobs/config", `"backoff":["1h0m0s","2h0m0s"],"attempts":2`)
	patch(t, p, "jobs/config", `{"backoff":{"delay":"1h"}}`)
	b.Until("an object is shown as it is", `document.querySelector("[name=backoff]").value === '{"delay":"1h0m0s","factor":2,"max":"1h0m0s","jitter":0.1}'`)

	pqd.Push(t, nc, "jobs", 1, "other")
	id := pqd.PushMsg(t, nc, "pq.jobs.push.0", "x")
	first := leaseAs(t, nc, "jobs", "w7")
	leaseAs(t, nc, "jobs", "w8")
	b.Open(p.HTTP + "/#/q/jobs?tab=leased")
	b.Until("both holders are shown", `[...document.querySelectorAll("td.holder")].map((c) => c.innerText).join() === "w7,w8"`)
	b.Take("leased-by")
	b.Click("w7")
	b.Until("what one holds is shown", `document.querySelectorAll("tbody tr").length === 1 && document.querySelector("[name=holder]").value === "w7"`)
	b.Enter("holder", "nobody")
	b.Click("Search")
	b.Sees("nobody holds nothing.")
	b.Open(p.HTTP + "/#/q/jobs/i/" + id)
	b.Sees("The lease of the item is that of w7")
	pqd.Request(t, nc, first.Reply, `-NAK {"reason":"the printer \u202e is out of ink"}`)
	b.Until("how often it failed is shown", `document.querySelector(".facts").innerText.includes("1 (1 failed)")`)
	b.Sees("The item is delayed: it becomes ready")
	b.Sees("the printer ‹U+202E› is out of ink")
	b.Open(p.HTTP + "/#/q/jobs?tab=delayed")
	b.Until("a list says why an item waits", `document.querySelector("td.wide").innerText.startsWith("the printer")`)
	b.Open(p.HTTP + "/#/q/jobs/i/" + id)

	attempts := func(want string) {
		t.Helper()
		b.Until("the attempts are "+want, fmt.Sprintf(`%s.filter((c) => c.length === 6).map(([n, , , ...rest]) => [n, ...rest].join(",")).join("|") === %q`, cellsOf, want))
	}
	attempts("1,w7,failed,the printer ‹U+202E› is out of ink")

	// A dead letter has them, too; the oldest is forgotten.
	patch(t, p, "jobs/config", `{"backoff":""}`)
	dying := pqd.PushMsg(t, nc, "pq.jobs.push.-9", "y")
	for _, word := range []string{"-NAK", "-NAK", "+TERM no paper"} {
		pqd.Request(t, nc, leaseAs(t, nc, "jobs", "w9").Reply, word)
	}
	b.Open(p.HTTP + "/#/q/jobs/i/" + dying)
	b.Sees("is not in this queue any more")
	b.Open(p.HTTP + "/#/q/jobs?tab=dead")
	b.Sees("no paper, from jobs")
	b.Eval(`document.querySelector("tbody a").click()`)
	attempts("3,w9,given up,no paper|2,w9,failed,–")
	b.Sees("Earlier ones are forgotten.")
	b.Until("an attempt has an end, and a duration", cellsOf+`.filter((c) => c.length === 6).every((c) => c[1].includes(" ago)") && /^\d+ (ms|s)$/.test(c[2]))`)
	b.Take("item-attempts")
	b.Defects()
	p.Stop(t)
}
