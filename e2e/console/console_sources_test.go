package console_test

import "testing"

// The sources of a queue say how they stand, and one that has stopped goes on as its reason allows.
func TestConsoleSources(t *testing.T) {
	t.Parallel()
	p, _, b := consolePage(t, "PQ_CONSOLE=admin")
	b.RunFirst(tells)
	told(b, p.HTTP+"/#/q/a?tab=sources")
	b.Eval(`window.asked = []; window.instead = async (at, how) => { asked.push(how.method + " " + at + " " + how.body); return new Response("{}"); }`)
	b.Eval(`say("/v1/queues/a", queue("a"))`)
	b.Until("sources are asked for", `heard.some((s) => s.paths[0].startsWith("/v1/queues/a/sources"))`)
	say := func(more string) {
		t.Helper()
		b.Eval(`asked = []; say("/v1/queues/a/sources", { sources: [{ name: "orders", remote: "hub", stream: "ORDERS", mode: "copy", paused: false, lag: 12345, counts: { delivered: 7, skipped: 8, poisoned: 9 }, ` + more + `}] })`)
	}
	sent := func(want string) {
		t.Helper()
		b.Until("it is asked for "+want, "asked.join() === `POST /v1/queues/a/sources/orders/"+want+"`")
		b.Until("the dialog is gone", `document.querySelector("dialog") === null`)
	}
	b.Eval(`say("/v1/queues/a/sources", { sources: [] })`)
	b.Sees("The queue has no sources.")
	say(`state: "running"`)
	b.Until("its numbers are shown", cellsOf+`[0].slice(0, 7).join("|") === "orders|ORDERS of hub|12,345|7|8|9|–"`)
	b.ClickInTable("Pause")
	sent("pause ")
	say(`state: "paused", paused: true`)
	b.ClickInTable("Resume")
	sent("resume ")
	say(`state: "stopped", since: new Date(Date.now() - 7500000), reason: "poisoned: message 4: too large"`)
	b.Sees("2 h ago")
	b.Click("Resume…")
	b.Sees("poisoned: message 4: too large. The source passes over that message")
	b.Press("Skip the message")
	sent(`resume {"skip":true}`)
	say(`state: "stopped", reason: "stream_behind: it ends at 3"`)
	b.Click("Resume…")
	b.Enter("from_seq", "soon")
	b.Press("Resume")
	b.Sees("expected a whole number from 1 on")
	b.Enter("from_seq", "9223372036854775807")
	b.Press("Resume")
	sent(`resume {"from_seq":9223372036854775807}`)
	say(`state: "stopped", reason: "stream_behind: it ends at 3"`)
	b.Click("Resume…")
	b.Press("Resume")
	sent(`resume {"accept":true}`)
	say(`mode: "take", state: "stopped", reason: "consumer_changed: it is gone"`)
	b.Click("Resume…")
	b.Press("Accept")
	sent(`resume {"accept":true}`)
	b.Eval(`asked = []; say("/v1/queues/a/sources", { sources: [{ name: "edge", remote: "edge7", queue: "edge7.orders", link: "hub", paused: false, lag: 3, state: "stopped", reason: "giver_behind: it has lost its end", counts: { delivered: 7, skipped: 0, poisoned: 0 } }] })`)
	b.Until("its giver is shown", cellsOf+`[0].slice(0, 3).join("|") === "edge|edge7.orders of edge7, link hub|3"`)
	b.Click("Resume…")
	b.Sees("giver_behind: it has lost its end. The source goes on with the giver's number.")
	b.Press("Accept")
	b.Until("it goes on with the giver's number", "asked.join() === `POST /v1/queues/a/sources/edge/resume {\"accept\":true}`")
	b.Defects()
	p.Stop(t)
}

// Who may only look can do nothing about a source.
func TestConsoleSourcesReadOnly(t *testing.T) {
	t.Parallel()
	p, _, b := consolePage(t, "PQ_CONSOLE=read")
	b.RunFirst(tells)
	told(b, p.HTTP+"/#/q/a?tab=sources")
	b.Eval(`say("/v1/queues/a", queue("a"))`)
	b.Until("sources are asked for", `heard.some((s) => s.paths[0].startsWith("/v1/queues/a/sources"))`)
	b.Eval(`say("/v1/queues/a/sources", { sources: [{ name: "orders", remote: "hub", stream: "ORDERS", mode: "copy", paused: false, state: "stopped", reason: "poisoned: x", lag: 1, counts: { delivered: 7, skipped: 8, poisoned: 9 } }] })`)
	b.Sees("poisoned: x")
	b.Until("no button is there", `document.querySelectorAll("tbody button").length === 0`)
	b.Defects()
	p.Stop(t)
}
