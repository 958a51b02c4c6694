package console_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
)

// Keys are on the page: of items that are pushed and listed, why an item waits for others of
// its key, and the two settings.
func TestConsoleKeys(t *testing.T) {
	t.Parallel()
	p, nc, b := consolePage(t, "PQ_CONSOLE=admin")
	patch(t, p, "bills/config", `{"lease":"1h"}`)
	pqd.PushMsg(t, nc, "pq.bills.push.1", "charge", "PQ-Key", "ann")
	second := pqd.PushMsg(t, nc, "pq.bills.push.2", "thank", "PQ-Key", "ann")
	b.Open(p.HTTP + "/#/q/bills?tab=config")
	b.Enter("key_limit", "x")
	b.Click("Save")
	b.Sees("Leases of a key is “x”: expected a whole number.")
	b.Enter("key_limit", "1")
	b.Click("Save")
	b.Sees("Changed key_limit.")
	b.Open(p.HTTP + "/#/q/bills/i/" + second)
	b.Sees("1 item is before it.")
	first := pqd.Request(t, nc, "pq.bills.pop.min", "", "PQ-Lease", "1h", "PQ-Holder", "w7").Header.Get("PQ-Id")
	b.Open(p.HTTP + "/#/q/bills")
	b.Open(p.HTTP + "/#/q/bills/i/" + second)
	b.Sees(`The item waits for its key "ann": w7 has item`)
	blocks := func(view string) {
		t.Helper()
		b.Until(view+" leads to what it waits for", fmt.Sprintf(`[...document.querySelectorAll(".why a")].map((a) => a.hash).join() === "#/q/bills/i/%s,#/q/bills?tab=leased&holder=w7"`, first))
	}
	b.Until("the item leads to what it waits for", fmt.Sprintf(`[...document.querySelectorAll(".why a")].map((a) => a.hash).join() === "#/q/bills/k/ann,#/q/bills/i/%s,#/q/bills?tab=leased&holder=w7"`, first))
	b.Until("the key is a fact", `document.querySelector(".facts").innerText.includes("ann")`)
	b.Take("item-key")
	b.Open(p.HTTP + "/#/q/bills?tab=config")
	b.Until("the limit is shown", `document.querySelector("[name=key_limit]")?.value === "1"`)
	b.Eval(`document.querySelector("[name=key_order]").click()`)
	b.Enter("key_limit", "0")
	b.Click("Save")
	b.Sees("Changed key_limit, key_order.")
	if _, body := pqd.Get(t, p.HTTP+"/v1/queues/bills/config"); !strings.Contains(body, `"key_limit":0,"key_order":true`) {
		t.Error(body)
	}
	b.Open(p.HTTP + "/#/q/bills/i/" + second)
	b.Sees(`The item waits for its key "ann": w7 has item`)
	b.Open(p.HTTP + "/#/q/bills/k/ann")
	b.Sees("Its next item waits until the one before is settled")
	blocks("the key")
	b.Open(p.HTTP + "/#/q/bills/i/" + second)
	patch(t, p, "bills/keys/ann", `{"paused":true}`)
	b.Sees(`The item waits for its key "ann", which is paused.`)
	b.Open(p.HTTP + "/#/q/bills")
	b.Click("Push an item")
	b.Enter("key", "bob")
	b.Enter("priority", "7")
	b.Click("Push")
	b.Until("keys are listed", `[...document.querySelectorAll("td.key")].map((c) => c.innerText).join() === "ann,bob"`)
	b.Take("queue-keys")
	b.Open(p.HTTP + "/#/q/bills?tab=leased")
	b.Until("the leased one, too", `document.querySelector("td.key")?.innerText === "ann"`)
	b.Defects()
	p.Stop(t)
}

// Numbers are shown as they are, also where a float has no such number.
func TestConsoleNumbers(t *testing.T) {
	t.Parallel()
	p, nc, b := consolePage(t, "PQ_CONSOLE=admin")
	id := pqd.PushMsg(t, nc, "pq.large.push.9223372036854775807", `{"n":12345678901234567890123, "x":1.50,"a":1,"a":[]}`)
	pqd.PushMsg(t, nc, "pq.large.push.-9007199254740993", "x")
	b.Open(p.HTTP + "/#/q/large")
	b.Until("priorities are exact", `[...document.querySelectorAll("td[data-label=Priority]")].map((c) => c.innerText).join() === "-9007199254740993,9223372036854775807"`)
	b.Open(p.HTTP + "/#/q/large/i/" + id)
	b.Until("a payload is exact", `document.querySelector("pre")?.textContent === '{\n  "n": 12345678901234567890123,\n  "x": 1.50,\n  "a": 1,\n  "a": []\n}'`)
	b.Until("so is the priority", `document.querySelector(".facts").innerText.includes("9223372036854775807")`)
	b.Click("Move")
	b.Until("the dialog has the exact priority", `document.querySelector("dialog [name=priority]")?.value === "9223372036854775807"`)
	b.Enter("priority", "9007199254740995")
	b.Eval(`[...document.querySelectorAll("dialog button")].find((e) => e.innerText === "Move").click()`)
	b.Until("it has moved there", `document.querySelector(".facts").innerText.includes("9007199254740995")`)
	b.Click("Move")
	b.Until("the dialog has the new priority", `document.querySelector("dialog [name=priority]")?.value === "9007199254740995"`)
	b.Open(p.HTTP + "/#/q/large?tab=config")
	b.Until("the dialog of the view before is gone", `document.querySelector("dialog") === null && document.querySelector(".config [name=priority]") !== null`)
	b.Enter("priority", "9007199254740993")
	b.Click("Save")
	b.Sees("Changed priority.")
	if _, body := pqd.Get(t, p.HTTP+"/v1/queues/large/config"); !strings.Contains(body, `"priority":9007199254740993,`) {
		t.Error(body)
	}
	b.Enter("ttl", "1h")
	b.Click("Save")
	b.Sees("Changed ttl.") // alone: the priority is what it was
	// Fences and numbers in the order of pushes are as exact, however large.
	if text := b.Eval(`import("/console/gateway.js").then(({ parse }) => { const p = parse('{"fence":18446744073709551615,"seq":9007199254740993,"rate":0.5,"far":1e300}'); return [String(p.fence), String(p.seq), p.rate, p.far].join() })`); text != `"18446744073709551615,9007199254740993,0.5,1e+300"` {
		t.Error(text)
	}
	b.Defects()
	p.Stop(t)
}

// An address that means nothing says so, and a page that is there goes on to be.
func TestConsoleAddresses(t *testing.T) {
	t.Parallel()
	p, nc, b := consolePage(t, "PQ_CONSOLE=read")
	pqd.Push(t, nc, "jobs", 1, "x")
	for address, text := range map[string]string{
		"#/q/%": "A % is not followed by two hexadecimal digits", "#/q/%ff": "A % is not followed", "#/q/jobs/i/%zz": "A % is not followed",
		"#/nowhere": "Views are those of", "#/q/a/b/c": "Views are those of", "#/q/%E2%80%AE%": "A % is not followed", "#/q": "Views are those of",
	} {
		b.Open(p.HTTP + "/" + address)
		b.Sees("There is no such view")
		b.Sees(text)
		b.Click("All queues")
		b.Sees("jobs")
	}
	b.Open(p.HTTP + "/#/q/%")
	b.Sees("There is no such view")
	b.Take("lost")
	for address, text := range map[string]string{"#/q/none": "There is no queue none", "#/q/none/i/x": "", "#/q/jobs/i/x": "", "#/q/a%20b": "", "#/q/jobs?tab=%": "", "#/q/jobs?after=zzz": "", "#/?after=%E2%80%AE&prefix=%00": ""} {
		b.Open(p.HTTP + "/" + address)
		b.Until("the view says something: "+address, `document.querySelector("main").innerText.length > 20 && !document.querySelector("main").innerText.includes("Loading")`)
		b.Sees(text)
	}
	b.Defects()
	p.Stop(t)
}

// Queues are added up and sorted: those of a page as they change, all of them when asked.
func TestConsoleSorting(t *testing.T) {
	t.Parallel()
	p, nc, b := consolePage(t, "PQ_CONSOLE=read")
	for i := range 60 {
		pqd.Push(t, nc, fmt.Sprintf("queue-%02d", i), 1, "x")
	}
	for range 3 {
		pqd.Push(t, nc, "queue-07", 1, "x")
	}
	for range 9 {
		pqd.Push(t, nc, "queue-55", 1, "x")
	}
	first := func(name, foot string) {
		b.Helper()
		b.Until(name+" is first", fmt.Sprintf(`document.querySelector("tbody th a")?.innerText.trim() === %q && document.querySelector(".sums").innerText.replace(/\s+/g, " ").trim().startsWith(%q)`, name, foot))
	}
	b.Open(p.HTTP + "/")
	first("queue-00", "50 of 60 queues 53")
	b.Click("Ready")
	first("queue-07", "50 of 60 queues 53")
	b.Sees("50 of 60 queues on this page, sorted by Ready. Other pages have others")
	for range 5 {
		pqd.Push(t, nc, "queue-30", 1, "x")
	}
	first("queue-30", "50 of 60 queues 58")
	b.Take("queues-sorted")
	b.Click("Next page")
	first("queue-55", "10 of 60 queues 19")
	b.Click("Look at all, by Ready")
	first("queue-55", "All 60 queues 77")
	b.Sees("The 50 of 60 queues with the largest Ready")
	b.Take("queues-all")
	b.Click("Back to the page")
	first("queue-55", "10 of 60 queues 19")
	b.Enter("prefix", "queue-0")
	b.Click("Search")
	first("queue-07", "All 10 queues 13")
	b.Click("Ready ↓")
	first("queue-00", "All 10 queues 13")
	b.Enter("sort", "ready") // where the table has no headings
	first("queue-07", "All 10 queues 13")
	b.Defects()
	p.Stop(t)
}

// countsStreams is a script that counts the streams that a page has.
const countsStreams = `
		window.streams = 0;
		const send = window.fetch;
		window.fetch = (at, options) => {
			if (at.startsWith("/v1/watch")) {
				window.streams++;
				options.signal.addEventListener("abort", () => window.streams--);
			}
			return send(at, options);
		};`

// A tab that nobody sees has no stream: browsers have six connections to a server for all
// their tabs. When somebody looks at it again, it shows what is there.
func TestConsoleHiddenTab(t *testing.T) {
	t.Parallel()
	p, nc, b := consolePage(t, "PQ_CONSOLE=read")
	pqd.Push(t, nc, "jobs", 1, "x")
	b.RunFirst(countsStreams + `
		window.seen = (is) => {
			Object.defineProperty(document, "hidden", {value: !is, configurable: true});
			document.dispatchEvent(new Event("visibilitychange"));
		};`)
	b.Open(p.HTTP + "/#/q/jobs")
	b.Until("an item is there", `document.querySelectorAll("tbody tr").length === 1 && streams === 2`)
	b.Eval(`location.hash = "#/"`)
	b.Until("the streams of the view before end", `document.querySelector("h1").innerText === "Queues" && streams === 1`)
	b.Eval(`location.hash = "#/q/jobs"`)
	b.Until("the item is there again", `document.querySelectorAll("tbody tr").length === 1 && streams === 2`)
	b.Eval("seen(false)")
	b.Until("the streams end", "streams === 0")
	pqd.Push(t, nc, "jobs", 2, "x")
	b.Eval(`location.hash = "#/"`)
	b.Eval(`location.hash = "#/q/jobs"`)
	if n := b.Eval("streams"); n != "0" {
		t.Errorf("a view that nobody sees has %s streams", n)
	}
	b.Eval("seen(true)")
	b.Until("both items are there", `document.querySelectorAll("tbody tr").length === 2 && streams === 2`)
	b.Defects()
	p.Stop(t)
}
