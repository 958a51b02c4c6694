package main_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// defects fails the test if a script of the page failed, or the page broke its own policy.
func (b *tab) defects() {
	b.Helper()
	b.eval("0") // what was logged until now is here
	for _, line := range b.logs {
		if strings.Contains(line, "exceptionThrown") || strings.Contains(line, "Content Security Policy") || strings.Contains(line, "TrustedHTML") || strings.Contains(line, `"exceptionDetails"`) {
			b.Errorf("the page has a defect: %.1000s", line)
		}
	}
	b.logs = nil
}

// take makes pictures of a view, at three widths in both themes, if they are asked for.
func (b *tab) take(name string) {
	b.Helper()
	if *pictures == "" {
		return
	}
	for _, width := range []int{375, 900, 1600} {
		for _, scheme := range []string{"light", "dark"} {
			b.picture(filepath.Join(*pictures, fmt.Sprintf("%s-%d-%s.png", name, width, scheme)), width, 900, scheme)
		}
	}
}

// Keys are on the page: of items that are pushed and listed, why an item waits for others of
// its key, and the two settings.
func TestConsoleKeys(t *testing.T) {
	t.Parallel()
	p, nc, b := consolePage(t, "PQ_CONSOLE=admin")
	patch(t, p, "bills/config", `{"lease":"1h"}`)
	pushMsg(t, nc, "pq.bills.push.1", "charge", "PQ-Key", "ann")
	second := pushMsg(t, nc, "pq.bills.push.2", "thank", "PQ-Key", "ann")
	b.open(p.HTTP + "/#/q/bills?tab=config")
	b.enter("key_limit", "x")
	b.click("Save")
	b.sees("Leases of a key is “x”: expected a whole number.")
	b.enter("key_limit", "1")
	b.click("Save")
	b.sees("Changed key_limit.")
	b.open(p.HTTP + "/#/q/bills/i/" + second)
	b.sees("1 item is before it.")
	lease(t, nc, "bills", "1h")
	b.open(p.HTTP + "/#/q/bills")
	b.open(p.HTTP + "/#/q/bills/i/" + second)
	b.sees("waits until an item of its key ann is settled: 1 of them may be leased at a time")
	b.until("the key is a fact", `document.querySelector(".facts").innerText.includes("ann")`)
	b.take("item-key")
	b.open(p.HTTP + "/#/q/bills?tab=config")
	b.until("the limit is shown", `document.querySelector("[name=key_limit]")?.value === "1"`)
	b.eval(`document.querySelector("[name=key_order]").click()`)
	b.enter("key_limit", "0")
	b.click("Save")
	b.sees("Changed key_limit, key_order.")
	if _, body := get(t, p.HTTP+"/v1/queues/bills/config"); !strings.Contains(body, `"key_limit":0,"key_order":true`) {
		t.Error(body)
	}
	b.open(p.HTTP + "/#/q/bills/i/" + second)
	b.sees("waits for another item of its key ann: the queue hands these out one after another")
	patch(t, p, "bills/keys/ann", `{"paused":true}`)
	b.sees("its key ann is paused: no pop gets it until the key is resumed")
	b.open(p.HTTP + "/#/q/bills")
	b.click("Push an item")
	b.enter("key", "bob")
	b.enter("priority", "7")
	b.click("Push")
	b.until("keys are listed", `[...document.querySelectorAll("td.key")].map((c) => c.innerText).join() === "ann,bob"`)
	b.take("queue-keys")
	b.open(p.HTTP + "/#/q/bills?tab=leased")
	b.until("the leased one, too", `document.querySelector("td.key")?.innerText === "ann"`)
	b.defects()
	p.Stop(t)
}

// Numbers are shown as they are, also where a float has no such number.
func TestConsoleNumbers(t *testing.T) {
	t.Parallel()
	p, nc, b := consolePage(t, "PQ_CONSOLE=admin")
	id := pushMsg(t, nc, "pq.large.push.9223372036854775807", `{"n":12345678901234567890123, "x":1.50,"a":1,"a":[]}`)
	pushMsg(t, nc, "pq.large.push.-9007199254740993", "x")
	b.open(p.HTTP + "/#/q/large")
	b.until("priorities are exact", `[...document.querySelectorAll("td[data-label=Priority]")].map((c) => c.innerText).join() === "-9007199254740993,9223372036854775807"`)
	b.open(p.HTTP + "/#/q/large/i/" + id)
	b.until("a payload is exact", `document.querySelector("pre")?.textContent === '{\n  "n": 12345678901234567890123,\n  "x": 1.50,\n  "a": 1,\n  "a": []\n}'`)
	b.until("so is the priority", `document.querySelector(".facts").innerText.includes("9223372036854775807")`)
	b.click("Move")
	b.until("the dialog has the exact priority", `document.querySelector("dialog [name=priority]")?.value === "9223372036854775807"`)
	b.enter("priority", "9007199254740995")
	b.eval(`[...document.querySelectorAll("dialog button")].find((e) => e.innerText === "Move").click()`)
	b.until("it has moved there", `document.querySelector(".facts").innerText.includes("9007199254740995")`)
	b.click("Move")
	b.until("the dialog has the new priority", `document.querySelector("dialog [name=priority]")?.value === "9007199254740995"`)
	b.open(p.HTTP + "/#/q/large?tab=config")
	b.until("the dialog of the view before is gone", `document.querySelector("dialog") === null && document.querySelector(".config [name=priority]") !== null`)
	b.enter("priority", "9007199254740993")
	b.click("Save")
	b.sees("Changed priority.")
	if _, body := get(t, p.HTTP+"/v1/queues/large/config"); !strings.Contains(body, `"priority":9007199254740993,`) {
		t.Error(body)
	}
	b.enter("ttl", "1h")
	b.click("Save")
	b.sees("Changed ttl.") // alone: the priority is what it was
	// Fences and numbers in the order of pushes are as exact, however large.
	if text := b.eval(`import("/console/gateway.js").then(({ parse }) => { const p = parse('{"fence":18446744073709551615,"seq":9007199254740993,"rate":0.5,"far":1e300}'); return [String(p.fence), String(p.seq), p.rate, p.far].join() })`); text != `"18446744073709551615,9007199254740993,0.5,1e+300"` {
		t.Error(text)
	}
	b.defects()
	p.Stop(t)
}

// An address that means nothing says so, and a page that is there goes on to be.
func TestConsoleAddresses(t *testing.T) {
	t.Parallel()
	p, nc, b := consolePage(t)
	push(t, nc, "jobs", 1, "x")
	for address, text := range map[string]string{
		"#/q/%": "A % is not followed by two hexadecimal digits", "#/q/%ff": "A % is not followed", "#/q/jobs/i/%zz": "A % is not followed",
		"#/nowhere": "Views are those of", "#/q/a/b/c": "Views are those of", "#/q/%E2%80%AE%": "A % is not followed", "#/q": "Views are those of",
	} {
		b.open(p.HTTP + "/" + address)
		b.sees("There is no such view")
		b.sees(text)
		b.click("All queues")
		b.sees("jobs")
	}
	b.open(p.HTTP + "/#/q/%")
	b.sees("There is no such view")
	b.take("lost")
	for address, text := range map[string]string{"#/q/none": "There is no queue none", "#/q/none/i/x": "", "#/q/jobs/i/x": "", "#/q/a%20b": "", "#/q/jobs?tab=%": "", "#/q/jobs?after=zzz": "", "#/?after=%E2%80%AE&prefix=%00": ""} {
		b.open(p.HTTP + "/" + address)
		b.until("the view says something: "+address, `document.querySelector("main").innerText.length > 20 && !document.querySelector("main").innerText.includes("Loading")`)
		b.sees(text)
	}
	b.defects()
	p.Stop(t)
}

// Queues are added up and sorted: those of a page as they change, all of them when asked.
func TestConsoleSorting(t *testing.T) {
	t.Parallel()
	p, nc, b := consolePage(t)
	for i := range 60 {
		push(t, nc, fmt.Sprintf("queue-%02d", i), 1, "x")
	}
	for range 3 {
		push(t, nc, "queue-07", 1, "x")
	}
	for range 9 {
		push(t, nc, "queue-55", 1, "x")
	}
	first := func(name, foot string) {
		b.Helper()
		b.until(name+" is first", fmt.Sprintf(`document.querySelector("tbody th")?.innerText.trim() === %q && document.querySelector(".sums").innerText.replace(/\s+/g, " ").trim().startsWith(%q)`, name, foot))
	}
	b.open(p.HTTP + "/")
	first("queue-00", "50 of 60 queues 53")
	b.click("Ready")
	first("queue-07", "50 of 60 queues 53")
	b.sees("50 of 60 queues on this page, sorted by Ready. Other pages have others")
	for range 5 {
		push(t, nc, "queue-30", 1, "x")
	}
	first("queue-30", "50 of 60 queues 58")
	b.take("queues-sorted")
	b.click("Next page")
	first("queue-55", "10 of 60 queues 19")
	b.click("Look at all, by Ready")
	first("queue-55", "All 60 queues 77")
	b.sees("The 50 of 60 queues with the largest Ready")
	b.take("queues-all")
	b.click("Back to the page")
	first("queue-55", "10 of 60 queues 19")
	b.enter("prefix", "queue-0")
	b.click("Search")
	first("queue-07", "All 10 queues 13")
	b.click("Ready ↓")
	first("queue-00", "All 10 queues 13")
	b.enter("sort", "ready") // where the table has no headings
	first("queue-07", "All 10 queues 13")
	b.defects()
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
	p, nc, b := consolePage(t)
	push(t, nc, "jobs", 1, "x")
	b.runFirst(countsStreams + `
		window.seen = (is) => {
			Object.defineProperty(document, "hidden", {value: !is, configurable: true});
			document.dispatchEvent(new Event("visibilitychange"));
		};`)
	b.open(p.HTTP + "/#/q/jobs")
	b.until("an item is there", `document.querySelectorAll("tbody tr").length === 1 && streams === 2`)
	b.eval(`location.hash = "#/"`)
	b.until("the streams of the view before end", `document.querySelector("h1").innerText === "Queues" && streams === 1`)
	b.eval(`location.hash = "#/q/jobs"`)
	b.until("the item is there again", `document.querySelectorAll("tbody tr").length === 1 && streams === 2`)
	b.eval("seen(false)")
	b.until("the streams end", "streams === 0")
	push(t, nc, "jobs", 2, "x")
	b.eval(`location.hash = "#/"`)
	b.eval(`location.hash = "#/q/jobs"`)
	if n := b.eval("streams"); n != "0" {
		t.Errorf("a view that nobody sees has %s streams", n)
	}
	b.eval("seen(true)")
	b.until("both items are there", `document.querySelectorAll("tbody tr").length === 2 && streams === 2`)
	b.defects()
	p.Stop(t)
}
