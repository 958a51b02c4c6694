package console_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
)

// What changes all the time does not take away what somebody is about to click, or has the
// focus.
func TestConsoleStandsStill(t *testing.T) {
	t.Parallel()
	p, _, b := consolePage(t, "PQ_CONSOLE=admin")
	b.RunFirst(tells)
	// same gives an element the focus, has the page hear something else, and looks for both.
	same := func(what, find, say, then string) {
		t.Helper()
		b.Until(what+" is there", find+" != null")
		b.Eval(`window.kept = ` + find + `; kept.focus(); 0`)
		b.Eval(say)
		b.Until(what+" has what is new", then)
		if now := b.Eval(`kept.isConnected && document.activeElement === kept && ` + find + ` === kept`); now != "true" {
			t.Errorf("%s does not stay", what)
		}
	}
	link := func(text string) string {
		return fmt.Sprintf(`[...document.querySelectorAll("main a, main button")].find((e) => e.innerText === %q)`, text)
	}
	told(b, p.HTTP+"/#/?after=a")
	b.Eval(`say("/v1/overview", { queues: [queue("b")], next: "b" })`)
	same("the next page of queues", link("Next page"), `say("/v1/overview", { queues: [queue("b"), queue("c")], next: "c" })`, link("Next page")+`.hash === "#/?after=c"`)
	same("the first page of queues", link("First page"), `say("/v1/overview", { queues: [queue("b")] })`, link("Next page")+` == null`)

	told(b, p.HTTP+"/#/q/a")
	b.Eval(`say("/v1/queues/a", queue("a"))`)
	b.Until("items are asked for", `heard.some((s) => s.paths[0].startsWith("/v1/queues/a/items"))`)
	b.Eval(`say("/v1/queues/a/items", { items: [item({ id: "one" }), item({ id: "two" })], next: "two" })`)
	same("the next page of items", link("Next page"), `say("/v1/queues/a/items", { items: [item({ id: "two" }), item({ id: "three" })], next: "three" })`, link("Next page")+`.hash.includes("three")`)
	b.Eval(`document.querySelector("tbody input").click()`)
	same("what can be done to a choice", link("Remove 1"), `say("/v1/queues/a/items", { items: [item({ id: "two" }), item({ id: "four" })], next: "four" })`, link("Next page")+`.hash.includes("four")`)

	told(b, p.HTTP+"/#/q/a?tab=keys")
	b.Eval(`say("/v1/queues/a", queue("a"))`)
	b.Until("keys are asked for", `heard.some((s) => s.paths[0].startsWith("/v1/queues/a/keys"))`)
	const key = `({ key: %q, ready: 3, leased: 0, limit: 0, rate: "", weight: 1, settings: {} })`
	b.Eval(fmt.Sprintf(`say("/v1/queues/a/keys", { keys: [`+key+`], next: "ann" })`, "ann"))
	same("the next page of keys", link("Next page"), fmt.Sprintf(`say("/v1/queues/a/keys", { keys: [`+key+`], next: "bob" })`, "bob"), link("Next page")+`.hash.includes("bob")`)

	told(b, p.HTTP+"/#/q/a/i/here")
	b.Eval(`say("/v1/queues/a", queue("a")); say("/v1/queues/a/items/here", item({ key: "ann", state: "leased", holder: "w7" }))`)
	same("the key of an item", `document.querySelector(".facts a")`, `say("/v1/queues/a/items/here", item({ key: "ann", deliveries: 7, state: "leased", holder: "w7" }))`, `document.querySelector(".facts").innerText.includes("7")`)
	same("its holder", `document.querySelector(".facts dd a[href*=holder]")`, `say("/v1/queues/a/items/here", item({ key: "ann", deliveries: 8, state: "leased", holder: "w7", attempts: 1, last_attempts: [{ n: 1, end: new Date().toISOString(), outcome: "expired" }] }))`, `document.querySelector("main").innerText.includes("its lease ran out")`)

	told(b, p.HTTP+"/#/q/a?tab=leased")
	b.Eval(`say("/v1/queues/a", queue("a"))`)
	b.Until("leases are asked for", `heard.some((s) => s.paths[0].startsWith("/v1/queues/a/items"))`)
	b.Eval(`say("/v1/queues/a/items", { items: [item({ id: "one", holder: "w7" }), item({ id: "two", holder: "w8" })] })`)
	same("the holder of a lease", link("w8"), `say("/v1/queues/a/items", { items: [item({ id: "two", holder: "w8", deliveries: 9 }), item({ id: "three" })] })`, `document.querySelector("[data-label=Deliveries]").innerText === "9"`)
	b.Defects()
	p.Stop(t)
}

// A queue that is gone shows no numbers, and nothing can be done to it; and what is shown says
// whether it is live.
func TestConsoleQueueGone(t *testing.T) {
	t.Parallel()
	p, _, b := consolePage(t, "PQ_CONSOLE=admin")
	b.RunFirst(tells)
	shown := func(want string) {
		t.Helper()
		b.Until("it shows "+want, fmt.Sprintf(`[...document.querySelectorAll("main .head button, .tiles, nav.tabs")].filter((e) => e.checkVisibility()).map((e) => e.className.includes("t") && e.tagName !== "BUTTON" ? e.classList[0] : e.innerText).join() === %q`, want))
	}
	state := func(class, text string) {
		t.Helper()
		b.Until("the state is "+text, fmt.Sprintf(`document.getElementById("state").className === "state %s" && document.getElementById("state").innerText === %q`, class, text))
	}
	told(b, p.HTTP+"/#/q/a")
	shown("Push an item")
	b.Eval(`say("/v1/queues/a", failure("there is no queue a"), 404)`)
	b.Sees("There is no queue a: it was deleted, or nothing was pushed to it yet.")
	shown("Push an item")
	state("part", "no such queue")
	b.Eval(`say("/v1/queues/a", queue("a", { ready: 77 }))`)
	shown("Push an item,Pause,Purge,Delete,tiles,tabs")
	state("live", "live")
	b.Eval(`say("/v1/queues/a", failure("there is no queue a"), 404)`)
	shown("Push an item")
	state("part", "no such queue")
	b.Eval(`say("/v1/queues/a", queue("a")); say("/v1/queues/a", failure("the store is away"), 503)`)
	b.Sees("the store is away. What is shown is old.")
	state("part", "not current")

	// Dead letters are counted, wherever they are.
	b.Eval(`say("/v1/queues/a-dead", queue("a-dead", { ready: 1200, leased: 34 })); say("/v1/queues/a", queue("a"))`)
	b.Until("dead letters are counted", `[...document.querySelectorAll(".tabs a")].some((a) => a.innerText === "Dead letters 1,234")`)
	b.Eval(`say("/v1/queues/a", queue("a", { config: { dead_letter: "grave" } }))`)
	b.Until("the other queue is asked for", `heard.at(-1).paths.includes("/v1/queues/grave")`)
	b.Eval(`say("/v1/queues/grave", queue("grave", { ready: 5 }))`)
	b.Until("its dead letters are counted", `[...document.querySelectorAll(".tabs a")].some((a) => a.innerText === "Dead letters 5")`)

	// It says so wherever one has scrolled to.
	b.Eval(`document.querySelector("main").style.minHeight = "5000px"; scrollTo(0, 3000); 0`)
	b.Until("the state is still in sight", `(({ top, bottom }) => scrollY > 1000 && top >= 0 && bottom <= innerHeight)(document.getElementById("state").getBoundingClientRect())`)
	b.Eval(`document.querySelector("main").style.minHeight = ""; scrollTo(0, 0); 0`)

	// What is too large for a stream is shown, and not live.
	b.Eval(`window.instead = async () => new Response(JSON.stringify({ items: [item({ id: "large" })] }))`)
	b.Eval(`say("/v1/queues/a/items", null, 413)`)
	b.Sees("large")
	state("part", "too large to be live")

	// A dead letter waits for nobody.
	told(b, p.HTTP+"/#/q/a-dead/i/here")
	b.Eval(`window.instead = async () => new Response(JSON.stringify({ items: [{ id: "here" }] })); say("/v1/queues/a-dead", queue("a-dead"))`)
	b.Eval(`say("/v1/queues/a-dead/items/here", item({ explain: { cause: "dead_letters", text: "It stays.", item: "here" }, dead: { reason: "no such address", origin: "a", origin_id: "there" } }))`)
	b.Sees("It stays.")
	b.Until("nothing is wrong, and it has no place", `!document.querySelector(".why:not([hidden])").classList.contains("warn") && !document.querySelector(".facts").innerText.includes("Place")`)

	// The table of queues says of how many it is.
	b.Eval(`window.instead = async () => new Response(JSON.stringify({ total: 5000 }))`)
	told(b, p.HTTP+"/#/")
	b.Eval(`say("/v1/overview", { queues: [queue("a"), queue("b")], next: "b" })`)
	b.Sees("2 of 5,000 queues")
	b.Defects()
	p.Stop(t)
}

// The last hour is drawn, and told to those who do not see it; the numbers of several bridges
// are added up.
func TestConsoleCharts(t *testing.T) {
	t.Parallel()
	p, _, b := consolePage(t, "PQ_CONSOLE=read")
	b.RunFirst(tells)
	b.Eval(`0`)
	const history = `window.past = (bridge, end, more) => ({ bridge, step: 60, end: new Date(end * 60000).toISOString(), push: Array(60).fill(1), pop: Array(60).fill(0), settle: Array(60).fill(0), ...more })`
	labels := func(want ...string) {
		t.Helper()
		b.Until("the charts tell", fmt.Sprintf(`[...document.querySelectorAll("figure svg")].map((s) => s.getAttribute("aria-label")).join("|") === %q`, strings.Join(want, "|")))
	}
	told(b, p.HTTP+"/#/")
	b.Eval(history)
	b.Eval(`say("/v1/overview", { queues: [queue("a")] })`)
	labels("Items a minute in the last hour. in: unknown. out: unknown. settled: unknown.", "Failures a minute in the last hour. failed: unknown. refused: unknown. died: unknown. leases lost: unknown.")
	b.Eval(`say("/v1/history", past("one", 1000, { nacked: Array(60).fill(0).with(55, 3), failed: Array(60).fill(0).with(50, 7), dead: Array(60).fill(2), leases_lost: Array(60).fill(0) }))`)
	labels("Items a minute in the last hour. in: 1 last, at most 1, 1 min ago. out: 0 last, at most 0. settled: 0 last, at most 0.",
		"Failures a minute in the last hour. failed: 0 last, at most 3, 5 min ago. refused: 0 last, at most 7, 10 min ago. died: 2 last, at most 2, 1 min ago. leases lost: 0 last, at most 0.")
	b.Eval(`say("/v1/history", past("two", 999, { push: Array(60).fill(10), nacked: Array(60).fill(0), failed: Array(60).fill(0), dead: Array(60).fill(0), leases_lost: Array(60).fill(0) }))`)
	b.Until("bridges are added up", `document.querySelector("figure rect:nth-of-type(59) title")?.textContent.includes("in 11,")`)
	b.Eval(`say("/v1/history", failure("no right"), 403)`)
	b.Until("without the right there is no chart", `!document.querySelector("figure").checkVisibility()`)

	told(b, p.HTTP+"/#/q/a")
	b.Eval(history)
	b.Eval(`say("/v1/queues/a", queue("a"))`)
	b.Until("the charts have their place before anything is known", `document.querySelectorAll(".charts figure").length === 2 && document.querySelector(".charts").innerText.includes("unknown") && document.querySelector(".tabs").checkVisibility()`)
	b.Eval(`window.top0 = document.querySelector(".tabs").getBoundingClientRect().top; 0`)
	b.Eval(`say("/v1/queues/a/history", past("one", 1000, { ready: Array(60).fill(null).with(58, 5).with(59, 1234), leased: Array(60).fill(null), delayed: Array(60).fill(0) }))`)
	labels("Items a minute in the last hour. in: 1 last, at most 1, 1 min ago. out: 0 last, at most 0. settled: 0 last, at most 0.",
		"Length in the last hour. ready: 1,234 last, at most 1,234, 1 min ago. leased: unknown. delayed: 0 last, at most 0.")
	b.Until("nothing below has moved", `document.querySelector(".tabs").getBoundingClientRect().top === top0`)
	if d := b.Eval(`document.querySelectorAll("figure")[1].querySelector("path.line-0").getAttribute("d")`); strings.Count(d, "M") != 1 || strings.Count(d, "L") != 1 {
		t.Errorf("two known minutes are drawn as %s", d)
	}
	b.Defects()
	p.Stop(t)
}

// A configuration shows what others change, and says at a field what is wrong with it.
func TestConsoleConfigurationIsLive(t *testing.T) {
	t.Parallel()
	p, _, b := consolePage(t, "PQ_CONSOLE=admin")
	patch(t, p, "jobs/config", `{"max_length":5}`)
	b.Open(p.HTTP + "/#/q/jobs?tab=config")
	value := func(name, want string) {
		t.Helper()
		b.Until(name+" is "+want, fmt.Sprintf(`document.querySelector("[name=%s]")?.value === %q`, name, want))
	}
	value("max_length", "5")
	b.Enter("ttl", "1h")
	patch(t, p, "jobs/config", `{"max_length":6,"ttl":"2h"}`)
	value("max_length", "6")
	value("ttl", "1h") // somebody writes there
	b.Sees("Somebody has changed it to 2h0m0s meanwhile.")
	b.Enter("lease", "13h")
	b.Click("Save")
	wrong := func(name, text string) {
		t.Helper()
		b.Until("it is told at "+name, fmt.Sprintf(`[...document.querySelectorAll("[aria-invalid]")].map((e) => e.name).join() === %q && document.activeElement.name === %[1]q && document.getElementById("field-%[1]s-problem").innerText.includes(%q)`, name, text))
	}
	wrong("lease", "lease is 13h0m0s: allowed are 0s to 12h0m0s")
	b.Enter("lease", "soon")
	b.Click("Save")
	wrong("lease", `duration "soon": expected a form like 30s`)
	b.Enter("lease", "30s")
	b.Enter("max_deliveries", "many")
	b.Click("Save")
	wrong("max_deliveries", "Failures is “many”: expected a whole number.")
	if notes := b.Eval(`document.getElementById("notes").innerText`); notes != `""` {
		t.Errorf("errors are told apart from their fields: %s", notes)
	}
	b.Enter("max_deliveries", "3")
	b.Click("Save")
	b.Sees("Changed lease, ttl, max_deliveries.")
	b.Enter("max_interruptions", "2")
	b.Click("Save")
	b.Sees(", max_interruptions.")
	b.Enter("max_interruptions", "")
	b.Click("Save")
	b.Shows(p, "/v1/queues/jobs/config", `"max_interruptions":""`)
	b.Until("nothing is wrong", `document.querySelector("[aria-invalid]") === null`)
	value("lease", "30s")

	patch(t, p, "jobs/keys/ann", `{"limit":3}`)
	b.Open(p.HTTP + "/#/q/jobs/k/ann")
	value("limit", "3")
	b.Enter("limit", "5000")
	b.Click("Save")
	wrong("limit", "limit is 5000: allowed are 0, for no limit, to 1000")
	b.Defects()
	p.Stop(t)
}

// Dead letters of a queue are requeued, all of them, as far as it takes them; those of others stay.
func TestConsoleRequeueAll(t *testing.T) {
	t.Parallel()
	p, nc, b := consolePage(t, "PQ_CONSOLE=admin")
	const all, room = 130, 115
	for i := range all {
		pqd.Push(t, nc, "jobs", i%3, fmt.Sprint("job ", i))
		pqd.Request(t, nc, pqd.Lease(t, nc, "jobs", "1h").Reply, "+TERM it broke")
	}
	pqd.Push(t, nc, "jobs-dead", 0, "it is none")
	patch(t, p, "jobs/config", fmt.Sprintf(`{"max_length":%d}`, room))
	b.Open(p.HTTP + "/#/q/jobs?tab=dead")
	b.Until("they are counted", fmt.Sprintf(`[...document.querySelectorAll(".tabs a")].some((a) => a.innerText === "Dead letters %d")`, all+1))
	b.Until("their payloads begin", `[...document.querySelectorAll("td.wide")].some((c) => c.innerText === "it broke, from jobs\njob 0")`)
	b.Click("Requeue all…")
	b.Press("Requeue all")
	b.Sees(fmt.Sprintf("Ended, because jobs is full: %d dead letters requeued, 0 failed,", room))
	if _, body := pqd.Get(t, p.HTTP+"/v1/queues/jobs"); !strings.Contains(body, fmt.Sprintf(`"ready":%d`, room)) {
		t.Error(body)
	}
	if _, body := pqd.Get(t, p.HTTP+"/v1/queues/jobs-dead"); !strings.Contains(body, fmt.Sprintf(`"ready":%d`, all-room+1)) {
		t.Error(body)
	}
	// It can be stopped.
	patch(t, p, "jobs/config", `{"max_length":0}`)
	b.Eval(`window.waiting = []; const send = window.fetch; window.fetch = (at, how) => how.method === "POST" ? new Promise((go) => waiting.push(() => go(send(at, how)))) : send(at, how)`)
	b.Click("Requeue all…")
	b.Press("Requeue all")
	b.Until("some are under way", `waiting.length > 0`)
	b.Click("Stop")
	b.Eval(`for (const go of waiting) go()`)
	b.Until("they are counted", fmt.Sprintf(`document.querySelector(".requeue").innerText.includes("Stopped: %d dead letters requeued")`, all-room))
	b.Defects()
	p.Stop(t)
}

// Back leads to the place in a list, and a search is a place, too.
func TestConsoleBack(t *testing.T) {
	t.Parallel()
	p, nc, b := consolePage(t, "PQ_CONSOLE=admin")
	for i := range 120 {
		pqd.PushMsg(t, nc, fmt.Sprintf("pq.jobs.push.%d", i), fmt.Sprint("job ", i), "X-Even", fmt.Sprint(i%2 == 0))
	}
	b.Open(p.HTTP + "/#/q/jobs")
	b.Until("the first page is there", `document.querySelectorAll("tbody tr").length === 50`)
	b.Click("Next page")
	b.Until("the second page is there", `document.querySelectorAll("tbody tr").length === 50 && document.querySelector("td.number").innerText === "50"`)
	b.Eval(`scrollTo(0, 900)`)
	b.Until("it is scrolled", `scrollY === 900`)
	b.Eval(`{ window.row = document.querySelectorAll("tbody a")[20]; window.where = row.hash; row.focus({ preventScroll: true }); row.click() }`)
	b.Sees("Payload,")
	b.Until("an item begins at its top", `scrollY === 0`)
	b.Eval(`history.back()`)
	b.Until("the place is the same", `scrollY === 900 && document.activeElement.hash === where && document.querySelectorAll("tbody tr").length === 50`)
	b.Enter("header", "X-Even: true")
	b.Click("Search")
	b.Sees("found in")
	b.Eval(`document.querySelectorAll("tbody a")[1].click()`)
	b.Sees("Payload,")
	b.Eval(`history.back()`)
	b.Until("the search is there again", `document.querySelector("[name=header]")?.value === "X-Even: true" && document.querySelector(".pages").innerText.includes("found in")`)
	b.Defects()
	p.Stop(t)
}

// All columns have room where a window is narrow and numbers are long.
func TestConsoleLongNumbers(t *testing.T) {
	t.Parallel()
	p, nc, b := consolePage(t, "PQ_CONSOLE=admin")
	pqd.PushMsg(t, nc, "pq.jobs.push.9223372036854775807", `{"document":1,"task":"index everything that there is"}`, "X-Season", "autumn", "PQ-Key", "customer-000000001")
	for _, width := range []int{900, 1024, 1280} {
		b.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false}, nil)
		b.Open(p.HTTP + "/#/q/jobs")
		b.Until("the item is there", `document.querySelector("td.wide")?.innerText.startsWith('{"document":1,"task":"index')`)
		if hidden := b.Eval(`document.querySelector(".panel").scrollWidth - document.querySelector(".panel").clientWidth`); hidden != "0" {
			t.Errorf("%d wide: %s pixels of the table are hidden", width, hidden)
		}
	}
	b.Defects()
	p.Stop(t)
}
