package console_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// keyRows is the text of the rows of the view of keys, with their cells separated by |.
const keyRows = `[...document.querySelectorAll("main tbody tr")].map((r) => [...r.children].map((c) => c.innerText.trim()).join("|")).join("\n")`

// The keys of a queue are shown page by page, those that wait first, and change as they do.
func TestConsoleKeysOfQueue(t *testing.T) {
	t.Parallel()
	p, nc, b := consolePage(t, "PQ_CONSOLE=admin")
	pqd.Push(t, nc, "tenants", 1, "without a key")
	b.Open(p.HTTP + "/#/q/tenants?tab=keys")
	b.Sees("No key has items that are ready or leased, or settings.")
	patch(t, p, "tenants/config", `{"fair":"priority","lease":"1h","key_limit":2,"key_rate":"100/1h"}`)
	b.Click("Push an item")
	b.Enter("key", "ann")
	b.Enter("weight", "3")
	b.Click("Push")
	b.Until("the pushed key is there", keyRows+` === "ann|1|0|2|100/1h|3|100|–"`)
	for i := range 120 {
		pqd.PushMsg(t, nc, "pq.tenants.push.5", "x", "PQ-Key", fmt.Sprintf("tenant-%02d", i%60))
	}
	for range 102 {
		pqd.PushMsg(t, nc, "pq.tenants.push.6", "x", "PQ-Key", "bob")
	}
	b.Until("the first page", `document.querySelectorAll("main tbody tr").length === 50`)
	patch(t, p, "tenants/keys/tenant-31", `{"paused":true}`)
	b.Until("what waits comes first", keyRows+`.startsWith("tenant-31|2|0|2|100/1h|1|100|paused\nann|")`)
	patch(t, p, "tenants/keys/tenant-31", `{"limit":0,"paused":null}`)
	b.Until("what is set for the key is marked", keyRows+`.includes("tenant-31|2|0|none*|")`)
	b.Sees("* is set for the key itself")
	b.Until("a hundred and more", keyRows+`.includes("bob|100+|")`)
	b.Take("keys")
	b.Click("Next page")
	b.Until("the second page", `document.querySelectorAll("main tbody tr").length === 12`)
	b.Click("First page")
	b.Until("the first page again", `document.querySelectorAll("main tbody tr").length === 50`)
	b.Enter("name", "nobody")
	b.Click("Show")
	b.Sees("None of its items is ready.")
	b.Defects()
	p.Stop(t)
}

// One key: its items, why they wait, and its settings, which an administrator changes and
// drops.
func TestConsoleKey(t *testing.T) {
	t.Parallel()
	p, nc, b := consolePage(t, "PQ_CONSOLE=admin")
	patch(t, p, "jobs/config", `{"lease":"1h","key_rate":"100/1h"}`)
	for i := range 60 {
		pqd.PushMsg(t, nc, "pq.jobs.push.5", "x", "PQ-Key", "ann")
		pqd.PushMsg(t, nc, fmt.Sprintf("pq.jobs.push.%d", i%9), "x", "PQ-Key", "bob")
	}
	b.Open(p.HTTP + "/#/q/jobs/k/ann")
	b.Sees("Nothing keeps its items")
	b.Until("items of the key alone", `document.querySelectorAll("main tbody tr").length === 50 && [...document.querySelectorAll("td[data-label=Priority]")].every((c) => c.innerText === "5")`)
	b.Click("Next page")
	b.Until("the rest of them", `document.querySelectorAll("main tbody tr").length === 10 && location.hash.startsWith("#/q/jobs/k/ann?")`)

	shows := func(text string) {
		t.Helper()
		b.Until("the tiles are "+text, fmt.Sprintf(`[...document.querySelectorAll(".tiles dd")].map((d) => d.innerText).join() === %q`, text))
	}
	settings := func(want string) {
		t.Helper()
		b.Await("the settings are "+want, func() bool {
			_, body := pqd.Get(t, p.HTTP+"/v1/queues/jobs/keys/ann")
			return strings.HasSuffix(strings.TrimSpace(body), `"settings":`+want+`}`)
		})
	}
	b.Open(p.HTTP + "/#/q/jobs/k/ann")
	shows("60,0,–,100/1h,1,100")
	b.Enter("limit", "-1")
	b.Click("Save")
	b.Sees("Limit is “-1”: expected a whole number.")
	b.Enter("limit", "1")
	b.Enter("rate", "often")
	b.Enter("weight", "7")
	b.Click("Save")
	b.Sees("often")
	settings(`{}`)
	b.Enter("rate", "50/1m")
	b.Click("Save")
	b.Sees("Changed limit, rate, weight.")
	settings(`{"limit":1,"rate":"50/1m0s","weight":7}`)
	shows("60,0,1*,50/1m*,7*,50")
	b.Take("key")
	for pqd.Lease(t, nc, "jobs", "1h").Header.Get("PQ-Key") != "ann" { // bob's come first by priority
	}
	b.Sees("Its next item waits until another one is settled: up to 1 of them may be leased at a time.")
	b.Enter("rate", "none")
	b.Enter("limit", "")
	b.Click("Save")
	b.Sees("Changed limit, rate.")
	settings(`{"rate":"","weight":7}`)
	shows("59,1,–,none*,7*,–")
	b.Click("Pause")
	b.Sees("Its items wait until it is resumed. Pushes, leases and other keys go on.")
	settings(`{"rate":"","weight":7,"paused":true}`)
	b.Click("Resume")
	b.Sees("Nothing keeps its items")
	b.Enter("rate", "")
	b.Enter("weight", "")
	b.Click("Save")
	settings(`{}`)
	patch(t, p, "jobs/config", `{"key_order":true}`)
	b.Sees("so the limit stays 1.")
	b.Sees("the queue hands them out one after another")
	b.Defects()
	p.Stop(t)
}

// Whatever bytes a key has, it is shown as what it is, and nothing of it becomes a part of
// the page.
func TestConsoleHostileKeys(t *testing.T) {
	t.Parallel()
	p, nc, b := consolePage(t, "PQ_CONSOLE=admin")
	keys := map[string]string{ // to how it is shown
		`<img src=x onerror="document.title='owned'">`: `<img src=x onerror="document.title='owned'">`,
		"a/b?c#d&e=%2F":               "a/b?c#d&e=%2F",
		"\u202egnp.exe":               "‹U+202E›gnp.exe",
		"..":                          "..",
		strings.Repeat("w", 128):      strings.Repeat("w", 128),
		"__proto__":                   "__proto__",
		"Ann & S\u00f6hne \U0001f600": "Ann & S\u00f6hne \U0001f600",
	}
	for key := range keys {
		pqd.PushMsg(t, nc, "pq.jobs.push.1", "x", "PQ-Key", key)
	}
	b.Open(p.HTTP + "/#/q/jobs?tab=keys")
	b.Until("all keys are there", fmt.Sprintf(`document.querySelectorAll("main tbody tr").length === %d`, len(keys)))
	b.Take("keys-hostile")
	for key, shown := range keys {
		b.Open(p.HTTP + "/#/q/jobs?tab=keys")
		b.Until("the keys are there", fmt.Sprintf(`document.querySelectorAll("main tbody tr").length === %d`, len(keys)))
		b.Eval(fmt.Sprintf(`[...document.querySelectorAll("tbody a")].find((a) => a.textContent === %q).click()`, shown))
		b.Until("the view of "+shown, fmt.Sprintf(`document.querySelector("h1").textContent === %q && document.querySelector(".tiles dd")?.innerText === "1" && document.querySelectorAll("main tbody tr").length === 1`, shown))
		b.Enter("weight", "9")
		b.Click("Save")
		if key == ".." {
			b.Sees("Browsers have no address for this name.")
			continue
		}
		b.Await("the weight of "+shown, func() bool {
			_, body := pqd.Get(t, p.HTTP+"/v1/queues/jobs/keys/"+url.PathEscape(key))
			return strings.Contains(body, `"weight":9,`)
		})
	}
	if title := b.Eval("document.title"); title == `"owned"` {
		t.Errorf("a script of a key ran: the title is %s", title)
	}
	if n := b.Eval(`document.querySelectorAll("main img, main script").length`); n != "0" {
		t.Errorf("a key became %s elements", n)
	}
	b.Defects()
	p.Stop(t)
}

// A page that only shows has the settings of a key, and nothing to change them with.
func TestConsoleKeyReadOnly(t *testing.T) {
	t.Parallel()
	p, nc, b := consolePage(t, "PQ_CONSOLE=read")
	pqd.PushMsg(t, nc, "pq.jobs.push.1", "x", "PQ-Key", "ann")
	b.Open(p.HTTP + "/#/q/jobs/k/ann")
	b.Sees("Its share of the deliveries")
	if buttons := b.Eval(`[...document.querySelectorAll("main button")].filter((e) => !e.hidden).map((e) => e.innerText).join()`); buttons != `"Search"` {
		t.Errorf("a page that only shows has the buttons %s", buttons)
	}
	if n := b.Eval(`document.querySelectorAll(".config input:not(:disabled)").length`); n != "0" {
		t.Errorf("a page that only shows has %s fields to change", n)
	}
	p.Stop(t)
}

// patch changes the configuration of a queue, or the settings of a key.
func patch(t *testing.T, p *testenv.Process, what, object string) {
	t.Helper()
	if code, body := pqd.Ask(t, "PATCH", p.HTTP+"/v1/queues/"+what, object); code != 200 {
		t.Fatalf("%s %s: %d %s", what, object, code, body)
	}
}
