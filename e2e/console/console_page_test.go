package console_test

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/chromium"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// consolePage starts a pqd with these settings, and a browser for its page.
func consolePage(t *testing.T, env ...string) (p *testenv.Process, nc *nats.Conn, b *chromium.Tab) {
	t.Helper()
	browser := chromium.Need(t)
	p = testenv.Daemon(t, env...)
	return p, p.Connect(t), browser.Drive(t)
}

// The console in a real browser: what each view shows, and what its buttons do.
func TestConsolePage(t *testing.T) {
	t.Parallel()
	p, nc, b := consolePage(t, "PQ_CONSOLE=admin")
	stop := busy(t, p)
	defer stop()
	hostile := `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`
	for i := range 60 {
		pqd.Push(t, nc, "jobs", i%7, fmt.Sprintf(`{"document":%d,"task":"index"}`, i))
	}
	for queue, n := range map[string]int{"mail": 12, "reports": 3, "thumbnails": 30} {
		for i := range n {
			pqd.Push(t, nc, queue, i, "x")
		}
	}
	pqd.PushMsg(t, nc, "pq.jobs.push.-3", hostile, "X-Hostile", hostile+"\u202e\u061c\U000e0041txet")
	// All queues, live.
	b.Open(p.HTTP + "/")
	b.Sees("thumbnails")
	b.Until("the stream lives", `document.getElementById("state").innerText === "live"`)
	pqd.Push(t, nc, "mail", 1, "x")
	b.Until("the push is seen", `[...document.querySelectorAll("tbody tr")].some((r) => r.innerText.startsWith("mail") && r.children[1].innerText === "13")`)
	b.Take("queues")
	b.Click("Push an item")
	b.Enter("queue", "fresh")
	b.Enter("payload", "from the page")
	b.Enter("priority", "4")
	b.Enter("headers", "Season: autumn")
	b.Take("push")
	b.Click("Push")
	b.Sees("fresh")

	// One queue, and an item with content that is not to be trusted.
	b.Open(p.HTTP + "/#/q/jobs")
	b.Sees("Dead letters")
	b.Until("items are there", `document.querySelectorAll("tbody tr").length === 50`)
	b.Take("queue")
	b.Click("Next page")
	b.Until("the second page is there", `document.querySelectorAll("tbody tr").length === 11`)
	b.Open(p.HTTP + "/#/q/jobs")
	b.Until("the first page is there", `document.querySelectorAll("tbody tr").length === 50`)
	b.Enter("min", "-9")
	b.Enter("max", "-1")
	b.Click("Search")
	b.Until("the band is there", `document.querySelectorAll("tbody tr").length === 1`)
	b.Enter("header", "X-Hostile: <img")
	b.Click("Search")
	b.Sees("1 found in 1 item")
	b.Eval(`document.querySelector("tbody a").click()`)
	b.Sees("Payload,")
	b.Sees(hostile)
	b.Sees("‹U+202E›‹U+061C›‹U+E0041›txet")
	b.Take("item")
	b.Click("Hex")
	b.Sees("3c 69 6d 67 20 73 72 63")
	if title := b.Eval("document.title"); strings.Contains(title, "owned") {
		t.Errorf("a script of an item ran: the title is %s", title)
	}
	if n := b.Eval(`document.querySelectorAll("main img, main script").length`); n != "0" {
		t.Errorf("content of an item became %s elements", n)
	}
	b.Click("Move")
	b.Enter("priority", "-8")
	b.Eval(`[...document.querySelectorAll("dialog button")].find((e) => e.innerText === "Move").click()`)
	b.Until("the item has moved", `document.querySelector(".facts").innerText.includes("-8")`)

	// A dead letter, and back.
	leased := pqd.Lease(t, nc, "jobs", "1h")
	b.Sees("The lease of the item is that of")
	pqd.Request(t, nc, leased.Reply, "+TERM it is hostile")
	b.Sees("is not in this queue any more")
	b.Open(p.HTTP + "/#/q/jobs?tab=dead")
	b.Sees("it is hostile")
	b.Take("dead")
	b.Eval(`document.querySelector("tbody input[type=checkbox]").click()`)
	b.Click("Requeue 1")
	b.Sees("There are no dead letters.")

	// Configuration, pause, purge.
	b.Open(p.HTTP + "/#/q/jobs?tab=config")
	b.Enter("max_length", "1000")
	b.Take("config")
	b.Click("Save")
	b.Await("the queue is configured", func() bool {
		_, body := pqd.Get(t, p.HTTP+"/v1/queues/jobs/config")
		return strings.Contains(body, `"max_length":1000,`)
	})
	b.Click("Pause")
	b.Until("it is paused", `document.querySelector(".head").innerText.includes("paused")`)
	b.Click("Resume")
	b.Until("it goes on", `!document.querySelector(".head").innerText.includes("paused")`)
	b.Click("Purge")
	b.Enter("word", "job")
	b.Eval(`[...document.querySelectorAll("dialog button")].find((e) => e.innerText === "Purge").click()`)
	b.Sees("This is not job")
	b.Take("purge")
	b.Enter("word", "jobs")
	b.Eval(`[...document.querySelectorAll("dialog button")].find((e) => e.innerText === "Purge").click()`)
	b.Until("the queue is empty", `document.querySelector(".tiles dd").innerText === "0"`)

	b.Open(p.HTTP + "/#/health")
	b.Sees("Up for")
	b.Sees("Bridges")
	b.Take("health")

	// pqd restarts, and the page goes on by itself.
	stop()
	p.Stop(t)
	b.Until("the stream is lost, and what is shown looks old", `document.getElementById("state").innerText !== "live" && getComputedStyle(document.querySelector("main > section")).opacity < 1`)
	p.Start(t)
	b.Until("the stream lives", `document.getElementById("state").innerText === "live" && getComputedStyle(document.querySelector("main > section")).opacity === "1"`)
	b.Defects()
	p.Stop(t)
}

// A page that only shows has no buttons that change something; with a token the page asks
// for it.
func TestConsolePageWithToken(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "token")
	pqd.Write(t, token, "0123456789abcdef\n")
	p, nc, b := consolePage(t, "PQ_CONSOLE_TOKEN="+token)
	pqd.Push(t, nc, "jobs", 1, "x")
	at, err := url.Parse(p.HTTP)
	if err != nil {
		t.Fatal(err)
	}
	at.Path = "/"
	b.Open(at.String())
	b.Sees("Expected the token: the line in the file PQ_CONSOLE_TOKEN.")
	b.Take("token")
	b.Enter("token", "wrong")
	b.Click("Open")
	b.Until("the token is refused", `document.querySelector("dialog .error").innerText.startsWith("This is not the token")`)
	b.Enter("token", "0123456789abcdef")
	b.Click("Open")
	b.Sees("jobs")
	b.Sees("read only")
	if kept := b.Eval(`JSON.stringify(localStorage)`); strings.Contains(kept, "0123456789abcdef") {
		t.Errorf("the token stays when the tab is closed: %s", kept)
	}
	b.Open(at.String() + "#/q/jobs")
	b.Until("the queue is there", `document.querySelector("h1").innerText === "jobs"`)
	b.Until("the item is there", `document.querySelectorAll("tbody tr").length === 1`)
	if buttons := b.Eval(`[...document.querySelectorAll("main button")].map((e) => e.innerText).join()`); buttons != `"Search"` {
		t.Errorf("a page that only shows has the buttons %s", buttons)
	}
	for _, request := range []string{"POST /v1/queues/jobs/push", "POST /v1/queues/jobs/purge", "DELETE /v1/queues/jobs"} {
		method, path, _ := strings.Cut(request, " ")
		status := b.Eval(fmt.Sprintf(`import("/console/gateway.js").then(({ call }) => call(%q, %q)).then(() => 200, (why) => why.status)`, method, path))
		if status != "403" {
			t.Errorf("%s from a page that only shows: %s", request, status)
		}
	}
	p.Stop(t)
}
