package main_test

import (
	"flag"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/testenv"
)

var pictures = flag.String("pq.pictures", "", "directory for pictures of the console's views; empty: none are made")

// consolePage starts a pqd with these settings, and a browser for its page.
func consolePage(t *testing.T, env ...string) (p *testenv.Process, nc *nats.Conn, b *tab) {
	t.Helper()
	browser := needBrowser(t)
	p = testenv.Daemon(t, env...)
	return p, p.Connect(t), browser.drive(t)
}

// The console in a real browser: what each view shows, and what its buttons do.
func TestConsolePage(t *testing.T) {
	t.Parallel()
	p, nc, b := consolePage(t, "PQ_CONSOLE=admin")
	stop := busy(t, p)
	defer stop()
	hostile := `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`
	for i := range 60 {
		push(t, nc, "jobs", i%7, fmt.Sprintf(`{"document":%d,"task":"index"}`, i))
	}
	for queue, n := range map[string]int{"mail": 12, "reports": 3, "thumbnails": 30} {
		for i := range n {
			push(t, nc, queue, i, "x")
		}
	}
	pushMsg(t, nc, "pq.jobs.push.-3", hostile, "X-Hostile", hostile+"\u202e\u061c\U000e0041txet")
	// All queues, live.
	b.open(p.HTTP + "/")
	b.sees("thumbnails")
	b.until("the stream lives", `document.getElementById("state").innerText === "live"`)
	push(t, nc, "mail", 1, "x")
	b.until("the push is seen", `[...document.querySelectorAll("tbody tr")].some((r) => r.innerText.startsWith("mail") && r.children[1].innerText === "13")`)
	b.take("queues")
	b.click("Push an item")
	b.enter("queue", "fresh")
	b.enter("payload", "from the page")
	b.enter("priority", "4")
	b.enter("headers", "Season: autumn")
	b.take("push")
	b.click("Push")
	b.sees("fresh")

	// One queue, and an item with content that is not to be trusted.
	b.open(p.HTTP + "/#/q/jobs")
	b.sees("Dead letters")
	b.until("items are there", `document.querySelectorAll("tbody tr").length === 50`)
	b.take("queue")
	b.click("Next page")
	b.until("the second page is there", `document.querySelectorAll("tbody tr").length === 11`)
	b.open(p.HTTP + "/#/q/jobs")
	b.until("the first page is there", `document.querySelectorAll("tbody tr").length === 50`)
	b.enter("min", "-9")
	b.enter("max", "-1")
	b.click("Search")
	b.until("the band is there", `document.querySelectorAll("tbody tr").length === 1`)
	b.enter("header", "X-Hostile: <img")
	b.click("Search")
	b.sees("1 found in 1 item")
	b.eval(`document.querySelector("tbody a").click()`)
	b.sees("Payload,")
	b.sees(hostile)
	b.sees("‹U+202E›‹U+061C›‹U+E0041›txet")
	b.take("item")
	b.click("Hex")
	b.sees("3c 69 6d 67 20 73 72 63")
	if title := b.eval("document.title"); strings.Contains(title, "owned") {
		t.Errorf("a script of an item ran: the title is %s", title)
	}
	if n := b.eval(`document.querySelectorAll("main img, main script").length`); n != "0" {
		t.Errorf("content of an item became %s elements", n)
	}
	b.click("Move")
	b.enter("priority", "-8")
	b.eval(`[...document.querySelectorAll("dialog button")].find((e) => e.innerText === "Move").click()`)
	b.until("the item has moved", `document.querySelector(".facts").innerText.includes("-8")`)

	// A dead letter, and back.
	leased := lease(t, nc, "jobs", "1h")
	b.sees("A consumer works on it")
	request(t, nc, leased.Reply, "+TERM it is hostile")
	b.sees("is not in this queue any more")
	b.open(p.HTTP + "/#/q/jobs?tab=dead")
	b.sees("it is hostile")
	b.take("dead")
	b.eval(`document.querySelector("tbody input[type=checkbox]").click()`)
	b.click("Requeue 1")
	b.sees("There are no dead letters.")

	// Configuration, pause, purge.
	b.open(p.HTTP + "/#/q/jobs?tab=config")
	b.enter("max_length", "1000")
	b.take("config")
	b.click("Save")
	b.await("the queue is configured", func() bool {
		_, body := get(t, p.HTTP+"/v1/queues/jobs/config")
		return strings.Contains(body, `"max_length":1000,`)
	})
	b.click("Pause")
	b.until("it is paused", `document.querySelector(".head").innerText.includes("paused")`)
	b.click("Resume")
	b.until("it goes on", `!document.querySelector(".head").innerText.includes("paused")`)
	b.click("Purge")
	b.enter("word", "job")
	b.eval(`[...document.querySelectorAll("dialog button")].find((e) => e.innerText === "Purge").click()`)
	b.sees("This is not job")
	b.take("purge")
	b.enter("word", "jobs")
	b.eval(`[...document.querySelectorAll("dialog button")].find((e) => e.innerText === "Purge").click()`)
	b.until("the queue is empty", `document.querySelector(".tiles dd").innerText === "0"`)

	b.open(p.HTTP + "/#/health")
	b.sees("Up for")
	b.sees("Bridges")
	b.take("health")

	// pqd restarts, and the page goes on by itself.
	stop()
	p.Stop(t)
	b.until("the stream is lost", `document.getElementById("state").innerText !== "live"`)
	p.Start(t)
	b.until("the stream lives", `document.getElementById("state").innerText === "live"`)
	b.defects()
	p.Stop(t)
}

// A page that only shows has no buttons that change something; with a token the page asks
// for it.
func TestConsolePageWithToken(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "token")
	write(t, token, "0123456789abcdef\n")
	p, nc, b := consolePage(t, "PQ_CONSOLE_TOKEN="+token)
	push(t, nc, "jobs", 1, "x")
	at, err := url.Parse(p.HTTP)
	if err != nil {
		t.Fatal(err)
	}
	at.Path = "/"
	b.open(at.String())
	b.sees("The token in the file")
	b.take("token")
	b.enter("token", "wrong")
	b.click("Open")
	b.until("the token is refused", `document.querySelector("dialog .error").innerText.startsWith("This is not the token")`)
	b.enter("token", "0123456789abcdef")
	b.click("Open")
	b.sees("jobs")
	b.sees("read only")
	if kept := b.eval(`JSON.stringify(localStorage)`); strings.Contains(kept, "0123456789abcdef") {
		t.Errorf("the token stays when the tab is closed: %s", kept)
	}
	b.open(at.String() + "#/q/jobs")
	b.until("the queue is there", `document.querySelector("h1").innerText === "jobs"`)
	b.until("the item is there", `document.querySelectorAll("tbody tr").length === 1`)
	if buttons := b.eval(`[...document.querySelectorAll("main button")].map((e) => e.innerText).join()`); buttons != `"Search"` {
		t.Errorf("a page that only shows has the buttons %s", buttons)
	}
	for _, request := range []string{"POST /v1/queues/jobs/push", "POST /v1/queues/jobs/purge", "DELETE /v1/queues/jobs"} {
		method, path, _ := strings.Cut(request, " ")
		status := b.eval(fmt.Sprintf(`import("/console/gateway.js").then(({ call }) => call(%q, %q)).then(() => 200, (why) => why.status)`, method, path))
		if status != "403" {
			t.Errorf("%s from a page that only shows: %s", request, status)
		}
	}
	p.Stop(t)
}
