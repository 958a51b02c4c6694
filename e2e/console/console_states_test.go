package console_test

import (
	"fmt"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/chromium"
)

// told opens a view of a page that hears what the test says instead of what pqd's streams say.
// So it sees states that take a fault or an hour to come about.
func told(b *chromium.Tab, address string) {
	b.Helper()
	b.Eval(`window.heard = []`)
	b.Open(address)
	b.Until("the view listens", `window.heard.length > 0`)
}

// tells is the script that told needs: say sends an answer to those who watch a path.
const tells = `
	window.heard = [];
	const send = window.fetch;
	window.fetch = (at, how) => {
		if (!at.startsWith("/v1/watch?")) return (window.instead ?? send)(at, how);
		const stream = { paths: new URLSearchParams(at.split("?")[1]).getAll("path") };
		return Promise.resolve(new Response(new ReadableStream({ start(to) { heard.push(Object.assign(stream, { to })); } })));
	};
	window.say = (path, body, status = 200) => {
		for (const stream of heard) {
			const whole = stream.paths.find((p) => p.split("?")[0] === path);
			if (whole) stream.to.enqueue(new TextEncoder().encode("data: " + JSON.stringify({ path: whole, status, body }) + "\n\n"));
		}
	};
	window.failure = (description) => ({ error: { description } });
	window.queue = (name, more) => ({ queue: name, ready: 1, leased: 0, delayed: 0, oldest: 1, oldest_of_all: 1, waiting: 0, bytes: 9, paused: false, rates: { push: 0, pop: 0 }, ...more, config: { dead_letter: "", key_rate: "", key_cost_rate: "", key_limit: 0, key_order: false, fair: "", ...more?.config } });
	window.item = (more) => ({ id: "here", state: "ready", priority: 5, pushed: new Date().toISOString(), deliveries: 0, size: 9, payload: "[1]", ...more });`

// What rarely happens to queues and to the store is shown, and is gone when it is over.
func TestConsoleFailures(t *testing.T) {
	t.Parallel()
	p, _, b := consolePage(t, "PQ_CONSOLE=admin")
	b.RunFirst(tells)
	gone := func(text string) {
		t.Helper()
		b.Until(text+" is gone", fmt.Sprintf("!document.body.innerText.includes(%q)", text))
	}
	title := func(title, tab string) {
		t.Helper()
		b.Until("the title is "+title, fmt.Sprintf(`document.title === "%s · pqbridge"`, title))
		b.Until("one link is that of the view", fmt.Sprintf(`[...document.querySelectorAll("nav [aria-current=page]")].map((a) => a.innerText).join() === %q`, tab))
	}
	told(b, p.HTTP+"/")
	title("Queues", "Queues")
	b.Eval(`say("/v1/overview", { queues: [queue("a", { error: "a file is damaged" })] })`)
	b.Sees("a file is damaged")
	b.Eval(`say("/v1/overview", failure("the store is away"), 503)`)
	b.Sees("the store is away")
	b.Eval(`say("/v1/overview", { queues: [queue("a")] })`)
	gone("the store is away")
	gone("a file is damaged")
	b.Eval(`say("/v1/overview", { queues: [queue("a", { cause: "no_workers" }), queue("a-dead", { cause: "dead_letters" }), queue("a-other", { cause: "blocked", oldest: 0, oldest_of_all: 90 }), queue("b", { paused: true, cause: "paused", refuses: "full" }), queue("c", { cause: "flows" }), queue("d", { cause: "unknown" })] })`)
	b.Until("what is wrong is marked", `[...document.querySelectorAll("tbody th")].map((c) => c.innerText.trim().replace(/\s+/g, " ")).join("|") === "a no workers|a-dead|a-other blocked|b paused full|c|d"`)
	b.Eval(`say("/v1/overview", { queues: [queue("a", { cause: "leased", held_for: 190, holder: "vm-7631\u202e" }), queue("b", { cause: "leased", held_for: 7300 }), queue("c", { cause: "leased" }), queue("d", { cause: "delayed", failing: 2 }), queue("uuid", { cause: "no_workers", replies: true }), queue("a-other", { cause: "blocked", oldest: 0, oldest_of_all: 90 })] })`)
	b.Until("workers that take no more are a fact, without a badge", `[...document.querySelectorAll("tbody th")].map((c) => c.innerText.trim().replace(/\s+/g, " ")).join("|") === "a held 3 min, vm-7631‹U+202E›|b held 2 h|c|d 2 failed|uuid Celery results|a-other blocked" && document.querySelectorAll("tbody .badge").length === 1`)
	b.Until("the age of the oldest where none is handed out", `[...document.querySelectorAll("tbody tr")].find((r) => r.innerText.startsWith("a-other")).querySelector("[data-label='Age of the next']").innerText === "90 s"`)

	told(b, p.HTTP+"/#/health")
	title("Health", "Health")
	b.Eval(`say("/v1/bridges", failure("nobody answers"), 503)`)
	b.Sees("nobody answers")
	b.Eval(`say("/v1/bridges", { bridges: [{ id: "one", version: "1", started: "2020-01-02T03:04:05Z", metadata: { store_id: "s" } }] })`)
	gone("nobody answers")
	b.Until("since when each runs", `[...document.querySelectorAll("[data-label=Started]")].map((c) => c.innerText).join("|") === new Date("2020-01-02T03:04:05Z").toLocaleString()`)
	b.Eval(`say("/v1/system", { store: "local", store_id: "s", version: "1", uptime: 1, prefix: "pq", limits: { payload: 1, requests: 1, waiters: 1 }, damage: Array.from({ length: 60 }, (_, i) => "file " + i) })`)
	b.Until("the damage, and that there is more", `[...document.querySelectorAll(".bad li")].map((l) => l.innerText).slice(48).join() === "file 48,file 49,and 10 more"`)
	disk := `say("/v1/system", { store: "local", store_id: "s", version: "1", uptime: 1, prefix: "pq", limits: { payload: 1, requests: 1, waiters: 1 }, disk: { free: %d, min_free: 2048, size: 4096 } })`
	b.Eval(fmt.Sprintf(disk, 1024))
	b.Sees(": pushes are refused, because 2")
	b.Eval(fmt.Sprintf(disk, 2048))
	gone("pushes are refused")
	node := `{ node: "b", lag: %d, epoch: 7, version: "1", role: "follower", heard: %d }`
	b.Eval(fmt.Sprintf(`say("/v1/cluster", { nodes: [{ members: [`+node+`] }, { members: [`+node+`] }, { members: [`+node+`] }] })`, 100, 9, 200, 1, 300, 5))
	b.Until("the latest report counts", `document.querySelector("[data-label='Behind by']")?.innerText === "200 entries"`)
	b.Eval(`say("/v1/cluster", failure("one pqd keeps the store"), 400)`)
	gone("Nodes of the store")
	gone("one pqd keeps the store")

	told(b, p.HTTP+"/#/q/a?tab=leased")
	title("a", "Queues,Leases")
	b.Eval(`say("/v1/queues/a", failure("no queue a"), 404)`)
	b.Sees("There is no queue a")
	b.Eval(`say("/v1/queues/a", queue("a"))`)
	gone("There is no queue a")
	b.Eval(`say("/v1/queues/a", queue("a", { explain: { cause: "blocked", text: "All wait for ann.", next: "Revoke it.", refuses: "full", key: "ann", item: "here", holder: "w7", link: "hub" } }))`)
	b.Sees("All wait for ann. Revoke it.")
	b.Until("a word for each", `[...document.querySelectorAll(".head .badge")].map((e) => e.innerText).join() === "blocked,full"`)
	b.Until("links to what is named", `[...document.querySelectorAll(".why a")].map((a) => a.hash).join() === "#/q/a/k/ann,#/q/a/i/here,#/q/a?tab=leased&holder=w7,#/q/a?tab=links"`)
	b.Eval(`say("/v1/queues/a", queue("a", { explain: { cause: "flows", text: "Items are handed out." } }))`)
	b.Until("nothing needs an explanation", `!document.querySelector(".why").checkVisibility() && document.querySelector(".head .badge") == null`)
	b.Until("items are asked for", `heard.some((s) => s.paths[0].startsWith("/v1/queues/a/items"))`)
	b.Eval(`say("/v1/queues/a/items", failure("the store is away"), 503)`)
	b.Sees("the store is away")
	told(b, p.HTTP+"/#/q/a?tab=dead")
	b.Eval(`say("/v1/queues/a", queue("a"))`)
	b.Until("dead letters are asked for", `heard.some((s) => s.paths[0].startsWith("/v1/queues/a-dead/items"))`)
	b.Eval(`say("/v1/queues/a-dead/items", failure("no queue a-dead"), 404)`)
	b.Sees("There are no dead letters.")
	b.Defects()
	p.Stop(t)
}

// What an item and a key wait for, and all that there is to know about them.
func TestConsoleItemStates(t *testing.T) {
	t.Parallel()
	p, _, b := consolePage(t, "PQ_CONSOLE=admin")
	b.RunFirst(tells)
	told(b, p.HTTP+"/#/q/a/i/here")
	says := func(more, text string) {
		t.Helper()
		b.Eval(`say("/v1/queues/a/items/here", item(` + more + `))`)
		b.Sees(text)
	}
	// What is said of it are the words of the bridge, and of nobody else.
	sentence := func(want, links string) {
		t.Helper()
		b.Until("the sentence is "+want, fmt.Sprintf(`[...document.querySelectorAll(".why")].filter((e) => e.checkVisibility()).map((e) => e.innerText).join("|") === %q`, want))
		b.Until("its links", fmt.Sprintf(`[...document.querySelectorAll(".why a")].filter((a) => a.checkVisibility()).map((a) => a.hash).join() === %q`, links))
	}
	says(`{}`, "ready")
	sentence("", "")
	for _, state := range []string{"ready", "delayed", "leased"} {
		says(`{ state: "`+state+`", waits_for: "key_order", key: "ann", explain: { cause: "blocked", text: "W7 has it.", next: "Revoke.", key: "ann", item: "there", holder: "w7" } }`, "W7 has it.")
		sentence("W7 has it. Revoke. Its key The item The holder", "#/q/a/k/ann,#/q/a/i/there,#/q/a?tab=leased&holder=w7")
	}
	says(`{ state: "leased", explain: { cause: "leased", text: "W7 has this one.", item: "here", holder: "w7" } }`, "W7 has this one.")
	sentence("W7 has this one. The holder", "#/q/a?tab=leased&holder=w7")
	b.Until("that is nothing wrong", `!document.querySelector(".why:not([hidden])").classList.contains("warn")`)
	b.Eval(`window.instead = async () => new Response(JSON.stringify({ items: [{ id: "x" }, { id: "y" }, { id: "here" }] }))`)
	says(`{ priority: 6 }`, "2 items are before it.")
	b.Eval(`window.instead = async () => new Response(JSON.stringify({ items: [{ id: "here" }] }))`)
	says(`{ priority: 1 }`, "It is the next one.")
	says(`{ priority: 1, explain: { cause: "flows", text: "It is handed out when those in front of it are gone." } }`, "It is handed out when")
	sentence("It is handed out when those in front of it are gone.", "")

	b.Click("Hex")
	says(`{ priority: 2, fence: 12, key_fence: 34, unique: "one of", expires: "2100-01-01T00:00:00Z", key: "ann", dead: { reason: "why", origin: "from here", origin_id: "there" } }`, "Requeue to from here")
	for name, value := range map[string]string{"Fence": "12", "Key fence": "34", "Unique value": "one of", "Why": "why", "Died": "–", "Deliveries before": "–", "From queue": "from here", "Its id there": "there"} {
		b.Until(name+" is a fact", fmt.Sprintf(`[...document.querySelectorAll(".facts dt")].find((d) => d.innerText === %q)?.nextElementSibling.innerText === %q`, name, value))
	}
	b.Until("so is when it expires", `[...document.querySelectorAll(".facts dt")].find((d) => d.innerText === "Expires")?.nextElementSibling.innerText.includes("(in ")`)
	b.Until("its key is one of the queue that it comes from", `document.querySelector(".facts a").hash === "#/q/from%20here/k/ann"`)
	b.Until("the payload is shown as it was", `document.querySelector("pre").innerText.startsWith("00000000")`)
	b.Eval(`say("/v1/queues/a/items/here", failure("no item"), 404)`)
	b.Sees("The item is not in this queue any more")
	b.Until("nothing can be done to it", `document.querySelectorAll(".head button").length === 0`)

	told(b, p.HTTP+"/#/q/a/k/ann")
	key := func(more string) string {
		return `say("/v1/queues/a/keys/ann", { key: "ann", ready: 3, leased: 0, limit: 0, rate: "", weight: 1, settings: {}, ` + more + `})`
	}
	b.Eval(`say("/v1/queues/a", queue("a"))`)
	b.Eval(key(`waits_for: "key_rate", retry: "1h0m0s"`))
	b.Sees("until its rate allows a delivery, in 1h.")
	b.Eval(key(`waits_for: "pause"`))
	b.Sees("Its items wait because the queue is paused.")
	b.Enter("weight", "77")
	b.Eval(`document.querySelector("[name=weight]").focus()`)
	b.Eval(key(`settings: { weight: 5 }, waits_for: "rate"`))
	b.Sees("until the queue's rate allows a delivery")
	if text := b.Eval(`document.querySelector("[name=weight]").value`); text != `"77"` {
		t.Errorf("what somebody writes has become %s", text)
	}
	b.Eval(`say("/v1/queues/a", queue("a", { config: { fair: "priority" } }))`)
	b.Eval(key(`waits_for: ""`))
	b.Sees("the next one goes when it is the turn of the key")
	b.Eval(`say("/v1/queues/a/keys/ann", failure("no store"), 503)`)
	b.Sees("no store")
	b.Defects()
	p.Stop(t)
}

// Lists change under what somebody has chosen, and forms wait for their answer.
func TestConsoleListsAndForms(t *testing.T) {
	t.Parallel()
	p, _, b := consolePage(t, "PQ_CONSOLE=admin")
	b.RunFirst(tells)
	told(b, p.HTTP+"/#/q/a?tab=dead")
	b.Eval(`say("/v1/queues/a", queue("a", { config: { dead_letter: "grave" } }))`)
	b.Until("items are asked for", `heard.some((s) => s.paths[0].startsWith("/v1/queues/grave/items"))`)
	items := func(list string) { b.Eval(`say("/v1/queues/grave/items", { items: [` + list + `] })`) }
	const dead = `item({ id: "one", key: "ann", dead: { reason: "why", origin: "a" } })`
	items(dead + `, item({ id: "two", dead: null })`)
	b.Until("both are there", `document.querySelectorAll("tbody tr").length === 2`)
	b.Until("a key leads to the queue of the dead letter", `document.querySelector("td.key a").hash === "#/q/a/k/ann"`)
	actions := func(want string) {
		t.Helper()
		b.Until("the buttons are "+want, fmt.Sprintf(`[...document.querySelectorAll(".filters .actions button")].map((e) => e.innerText).join() === %q`, want))
	}
	b.Eval(`document.querySelectorAll("tbody input")[1].click()`)
	actions("Remove 1") // it was pushed there: no dead letter
	b.Eval(`window.row = document.querySelector("tbody tr"); document.querySelector("thead input").click()`)
	actions("Remove 2")
	items(`item({ id: "one", priority: 77, key: "ann", dead: { reason: "why", origin: "a" } })`)
	actions("Requeue 1,Remove 1")
	b.Until("the row is the same, and has the new number", `document.querySelector("tbody tr") === row && row.querySelector("[data-label=Priority]").innerText === "77"`)
	items(dead + `, item({ id: "two", dead: { reason: "why", origin: "a" } }), item({ id: "three", dead: { reason: "why", origin: "a" } })`)
	b.Until("all are there", `document.querySelectorAll("tbody tr").length === 3`)
	b.Eval(`document.querySelector("thead input").checked = false; document.querySelector("thead input").click()`)
	actions("Requeue 3,Remove 3")
	b.Eval(`window.asked = []; window.instead = async (at) => {
		asked.push(at);
		return asked.length === 2 ? new Response(JSON.stringify(failure("the queue is full")), { status: 429 }) : new Response("{}");
	}`)
	b.Click("Requeue 3")
	b.Sees("the queue is full")
	b.Sees("Requeue: 1 done.")
	if n := b.Eval("asked.length"); n != "2" {
		t.Errorf("after a failure %s items were asked for", n)
	}
	actions("Requeue 2,Remove 2")

	b.Eval(`asked = []; window.instead = (at) => new Promise((answer) => asked.push(() => answer(new Response(JSON.stringify({ id: "new", stream: "a" })))))`)
	b.Click("Push an item")
	b.Click("Cancel")
	b.Until("the form is gone", `document.querySelector("dialog") === null`)
	b.Click("Push an item")
	b.Press("Push")
	b.Until("the form cannot be sent twice", `document.querySelector("dialog [type=submit]").disabled && asked.length === 1`)
	b.Eval(`asked[0]()`)
	b.Sees("Pushed new to a.")
	b.Until("the form is gone", `document.querySelector("dialog") === null`)
	if n := b.Eval(`import("/console/dom.js").then(({ note }) => { for (let i = 0; i < 9; i++) note("note " + i); return document.getElementById("notes").innerText })`); n != `"note 6\n\nnote 7\n\nnote 8"` {
		t.Errorf("of nine notes these are shown: %s", n)
	}
	b.Defects()
	p.Stop(t)
}
