package console_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/e2e/internal/chromium"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// busy has clients push to queues of their own and pop them until stop is called.
func busy(t *testing.T, p *testenv.Process) (stop func()) {
	t.Helper()
	nc := p.Connect(t)
	c, err := client.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for i := range 4 {
		workers.Go(func() { shop{t, nc, c}.work(ctx, fmt.Sprintf("busy-%d", i), 5*time.Millisecond) })
	}
	return func() {
		cancel()
		workers.Wait()
	}
}

// rowOf is a script for the cells of the row of a queue, in the view of all queues.
func rowOf(queue string) string {
	return fmt.Sprintf(`[...[...document.querySelectorAll("tbody tr")].find((r) => r.querySelector("a")?.innerText === %q)?.children ?? []]`, queue)
}

// All numbers and states that there are, while others work.
func TestConsoleUnderLoad(t *testing.T) {
	t.Parallel()
	p, nc, b := consolePage(t, "PQ_CONSOLE=admin")
	stop := busy(t, p)
	defer stop()
	patch(t, p, "orders/config", `{"lease":"1h"}`)
	pqd.PushMsg(t, nc, "pq.orders.push.0", "gives up")
	pqd.Request(t, nc, pqd.Lease(t, nc, "orders", "1h").Reply, "+TERM no such address")
	pqd.PushMsg(t, nc, "pq.orders.push.1", "is worked on")
	held := pqd.Lease(t, nc, "orders", "3h")
	late := pqd.PushMsg(t, nc, "pq.orders.push.2", "later", "PQ-Delay", "3h")
	var ids []string
	for i := range 3 {
		ids = append(ids, pqd.PushMsg(t, nc, fmt.Sprintf("pq.orders.push.%d", 5+i), `{"text":"\"quoted\\","n":[1]}`, "X-Raw", "\xff", "Season", "autumn"))
	}
	patch(t, p, "idle/config", `{"lease":"1h"}`)
	waiting := nats.NewMsg("pq.idle.pop.min")
	waiting.Reply = nc.NewInbox()
	waiting.Header.Set("PQ-Wait", "100s")
	if _, err := nc.SubscribeSync(waiting.Reply); err != nil {
		t.Fatal(err)
	}
	if err := nc.PublishMsg(waiting); err != nil {
		t.Fatal(err)
	}
	for i := range 70 {
		pqd.PushMsg(t, nc, fmt.Sprintf("pq.deep.push.%d", i), "x")
	}

	b.Open(p.HTTP + "/")
	cells := func(queue string) string { return rowOf(queue) + `.map((c) => c.innerText.trim())` }
	b.Until("the states of a queue", cells("orders")+`.slice(1, 5).join() === "3,1,1,1"`)
	b.Until("how old its next item is", `/^[\d.]+ (ms|s|min)$/.test(`+cells("orders")+`[5]) && `+cells("orders")+`[9] !== "0 B"`)
	b.Until("dead letters are marked", rowOf("orders")+`[4].className.includes("bad") && !`+rowOf("deep")+`[4].className.includes("bad")`)
	b.Until("rates, and their sums", fmt.Sprintf(`((row, sums) => row[6] > 0 && row[7] > 0 && Number(sums[6].innerText) >= row[6] && Number(sums[7].innerText) >= row[7] && sums[4].innerText === "1")(%s.map(Number), document.querySelector(".sums").children)`, cells("busy-0")))
	b.Until("a pop that waits", cells("idle")+`[8] === "1"`)
	b.Click("idle")
	b.Until("the focus is in the view", `document.activeElement.id === "main"`)
	b.Click("Pause")
	b.Open(p.HTTP + "/")
	b.Until("what is paused is marked", rowOf("idle")+`[0]?.innerText.includes("paused") && !`+rowOf("orders")+`[0].innerText.includes("paused")`)
	b.Take("queues-busy")

	b.Open(p.HTTP + "/#/q/deep")
	b.Until("an age that is a lower bound", `[...document.querySelectorAll(".tiles div")].find((d) => d.innerText.startsWith("Age of the oldest"))?.querySelector("dd").innerText.startsWith("≥ ")`)
	b.Open(p.HTTP + "/#/q/orders")
	b.Until("the tiles", `[...document.querySelectorAll(".tiles dd")].slice(0, 4).map((d) => d.innerText).join() === "3,1,1,0"`)
	b.Enter("id", ids[2])
	b.Click("Search")
	b.Sees("2 items are before it.")
	b.Sees("base64 /w==")
	pretty := "{\n  \"text\": \"\\\"quoted\\\\\",\n  \"n\": [\n    1\n  ]\n}"
	b.Until("the payload is JSON", fmt.Sprintf(`document.querySelector("pre").textContent === %s`, chromium.Quoted(pretty)))
	b.Click("Text")
	b.Until("the payload is text", fmt.Sprintf(`document.querySelector("pre").textContent === %s`, chromium.Quoted(`{"text":"\"quoted\\","n":[1]}`)))
	b.Click("JSON")
	b.Until("the payload is JSON again", fmt.Sprintf(`document.querySelector("pre").textContent === %s`, chromium.Quoted(pretty)))
	b.Click("orders")
	b.Click("Pause")
	b.Open(p.HTTP + "/#/q/orders/i/" + ids[0])
	b.Sees("The queue is paused, so no item is handed out.")
	b.Click("orders")
	b.Click("Resume")
	b.Sees("Deliveries go on.")

	b.Click("Delayed")
	b.Until("the delayed item", `[...document.querySelectorAll("tbody tr")].length === 1 && document.querySelector("[data-label=Until]").innerText === "in 2 h"`)
	b.Take("delayed")
	b.Click(late)
	b.Sees("The item is delayed: it becomes ready in ")
	b.Open(p.HTTP + "/#/q/orders?tab=leased")
	b.Until("the leased item", `document.querySelector("[data-label=Until]")?.innerText === "in 2 h" && document.querySelector("[data-label=Deliveries]").innerText === "1"`)
	b.Take("leased")
	b.Eval(`document.querySelector("tbody a").click()`)
	b.Sees("The lease of the item is that of a worker without a name")
	b.Take("item-leased")
	b.Click("Remove")
	b.Sees("A consumer works on it, and loses its lease. Nothing brings the item back.")
	b.Press("Remove")
	b.Until("the page goes back to the queue", `location.hash === "#/q/orders"`)
	b.Shows(p, "/v1/queues/orders", `"leased":0`)
	if _, err := nc.Request(held.Reply, []byte("+ACK"), testenv.Patience()); err == nil {
		t.Error("the lease of a removed item holds")
	}
	b.Defects()
	stop()
	p.Stop(t)
}

// What an operator does to items and queues has its effect, while others work.
func TestConsoleChanges(t *testing.T) {
	t.Parallel()
	p, nc, b := consolePage(t, "PQ_CONSOLE=admin")
	stop := busy(t, p)
	defer stop()
	patch(t, p, "graveyard/config", `{"dead_letters_from":"mail"}`)
	patch(t, p, "mail/config", `{"dead_letter":"graveyard","ties":"oldest"}`)
	for range 3 {
		pqd.PushMsg(t, nc, "pq.mail.push", "x")
		pqd.Request(t, nc, pqd.Lease(t, nc, "mail", "1h").Reply, "+TERM no such address")
	}
	choose := func(n int) {
		t.Helper()
		b.Until("items to choose", fmt.Sprintf(`document.querySelectorAll("tbody input").length === %d`, n))
		b.Eval(`document.querySelector("thead input").click()`)
	}

	// A push whose answer is lost, and which is repeated, has one effect.
	b.Open(p.HTTP + "/#/q/mail")
	b.Click("Push an item")
	b.Eval(`{ const send = window.fetch; window.lost = 0; window.fetch = async (at, how) => { const answer = await send(at, how); if (at.includes("/push") && window.lost++ === 0) throw new TypeError("lost"); return answer } }`)
	for name, text := range map[string]string{"payload": "late", "priority": "3", "headers": "Season: autumn\nColour: red", "delay": "1h", "ttl": "2h"} {
		b.Enter(name, text)
	}
	b.Press("Push")
	b.Sees("pqd does not answer.")
	b.Press("Push")
	b.Until("the dialog has gone", `document.querySelector("dialog") === null`)
	b.Shows(p, "/v1/queues/mail/items?state=delayed", `"Season":["autumn"]`, `"Colour":["red"]`, `"expires":`, `"due":`)
	b.Shows(p, "/v1/queues/mail", `"ready":0,"leased":0,"delayed":1`)

	// Dead letters, one and many, until one cannot be requeued.
	b.Open(p.HTTP + "/#/q/mail?tab=dead")
	b.Sees("no such address, from mail")
	b.Eval(`document.querySelector("tbody a").click()`)
	b.Sees("From queue")
	b.Take("item-dead")
	b.Click("Requeue to mail")
	b.Sees("in mail now.")
	patch(t, p, "mail/config", `{"max_length":2}`)
	b.Open(p.HTTP + "/#/q/mail?tab=dead")
	choose(2)
	b.Click("Requeue 2")
	b.Sees("Requeue: 0 done.")
	b.Sees("full")
	patch(t, p, "mail/config", `{"max_length":0}`)
	b.Click("Requeue 2")
	b.Sees("Requeue: 2 done.")
	b.Sees("There are no dead letters.")
	b.Shows(p, "/v1/queues/mail", `"ready":3`)

	b.Open(p.HTTP + "/#/q/mail?tab=config")
	b.Until("a choice is shown as it is", `document.querySelector("[name=ties]")?.value === "oldest"`)
	b.Open(p.HTTP + "/#/q/mail")
	choose(3)
	if n := b.Eval(`[...document.querySelectorAll("button")].filter((e) => e.innerText.startsWith("Requeue")).length`); n != "0" {
		t.Errorf("items that are no dead letters have %s buttons to requeue them", n)
	}
	b.Click("Remove 3")
	b.Sees("Nothing brings them back.")
	b.Shows(p, "/v1/queues/mail", `"ready":3`)
	b.Press("Remove")
	b.Sees("No item is ready.")
	b.Shows(p, "/v1/queues/mail", `"ready":0`)

	b.Click("Delete")
	b.Enter("word", "graveyard")
	b.Press("Delete")
	b.Sees("This is not mail.")
	b.Enter("word", "mail")
	b.Press("Delete")
	b.Until("the page shows the queues", `location.hash === "#/" && document.querySelector("h1").innerText === "Queues"`)
	if code, body := pqd.Get(t, p.HTTP+"/v1/queues/mail"); code != 404 {
		t.Errorf("the deleted queue: %d %s", code, body)
	}
	b.Defects()
	stop()
	p.Stop(t)
}

// Searches and long payloads go on step by step.
func TestConsoleSteps(t *testing.T) {
	t.Parallel()
	p, nc, b := consolePage(t, "PQ_CONSOLE=read")
	c, err := client.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	var many []client.NewItem
	for i := range 1100 {
		many = append(many, client.NewItem{Payload: []byte(strings.Repeat("x", 1+i/1099*100_000)),
			Options: []client.PushOption{client.Header(nats.Header{"Number": {fmt.Sprint(i)}})}})
	}
	var last string
	for len(many) > 0 {
		n := min(len(many), client.MaxMany)
		pushed, err := c.Queue("long").PushMany(t.Context(), many[:n]...)
		if err != nil {
			t.Fatal(err)
		}
		last, many = pushed[n-1].ID, many[n:]
	}
	b.Open(p.HTTP + "/#/q/long")
	b.Enter("header", "Number: 1099")
	b.Click("Search")
	b.Sees("0 found in 1,000 items")
	b.Click("Search on")
	b.Sees("1 found in 1,100 items")
	b.Take("search")
	b.Click(last)
	b.Sees("More than 1,000 items are before it.")
	b.Until("the beginning of the payload", `document.querySelector("pre").textContent.length === 65536`)
	b.Click("Show all 98 KiB")
	b.Until("all of the payload", `document.querySelector("pre").textContent.length === 100001`)

	first := `document.querySelector("tbody a")?.innerText`
	b.Open(p.HTTP + "/#/q/long")
	b.Until("the first page", `document.querySelectorAll("tbody tr").length === 50`)
	b.Eval("window.first = " + first)
	b.Click("Next page")
	b.Until("the second page", `document.querySelectorAll("tbody tr").length === 50 && `+first+" !== window.first")
	b.Click("First page")
	b.Until("the first page again", first+" === window.first")
	b.Defects()
	p.Stop(t)
}

// Searches keep what they were told besides, and show what they found until somebody goes
// back to what is live.
func TestConsoleSearches(t *testing.T) {
	t.Parallel()
	p, nc, b := consolePage(t, "PQ_CONSOLE=read")
	c, err := client.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	item := func(i int) client.NewItem {
		key := fmt.Sprintf("key-%d", i%12)
		return client.NewItem{Options: []client.PushOption{client.Priority(int64(i % 2)), client.Key(key), client.Header(nats.Header{"Kind": {"x"}})}}
	}
	shop{t, nc, c}.add("long", 240, time.Second, item)
	b.RunFirst(countsStreams)
	rows := func(n int) {
		t.Helper()
		b.Until(fmt.Sprintf("%d items of priority 1", n), fmt.Sprintf(`document.querySelectorAll("tbody tr").length === %d && [...document.querySelectorAll("td[data-label=Priority]")].every((c) => c.innerText === "1")`, n))
	}
	b.Open(p.HTTP + "/#/q/long?min=1&max=1")
	rows(50)
	b.Click("Next page")
	b.Until("the second page", `location.hash.includes("after=") && streams === 2`)
	rows(50)
	b.Enter("header", "Kind: x")
	b.Click("Search")
	b.Sees("120 found in 120 items, the first 50 are shown")
	b.Until("what was found is not live", "streams === 1")
	b.Click("Show 50 more")
	b.Sees("the first 100 are shown")
	rows(100)
	b.Enter("header", "")
	b.Click("Search")
	b.Until("the page is live again", "streams === 2")
	rows(50)
	b.Open(p.HTTP + "/#/q/long/k/key-3")
	b.Until("the items of the key", `document.querySelectorAll("tbody tr").length === 20`)
	b.Enter("header", "Kind: x")
	b.Click("Search")
	b.Sees("20 found in 20 items")
	b.Defects()
	p.Stop(t)
}

// All of many queues are looked at step by step, and pages of them lead back.
func TestConsoleManyQueues(t *testing.T) {
	t.Parallel()
	p, nc, b := consolePage(t, "PQ_CONSOLE=read")
	c, err := client.New(nc, client.Timeout(testenv.Patience()), client.RetryFor(testenv.Patience()))
	if err != nil {
		t.Fatal(err)
	}
	var sent []*client.Future
	for i := range 1053 {
		f, err := c.Queue(fmt.Sprintf("queue-%04d", min(i, 1049))).PushAsync(t.Context(), []byte("x")) // four for the last one
		if err != nil {
			t.Fatal(err)
		}
		sent = append(sent, f)
	}
	for _, f := range sent {
		if _, err := f.Result(); err != nil {
			t.Fatal(err)
		}
	}
	foot := func(text string) {
		t.Helper()
		b.Until("the sums are "+text, fmt.Sprintf(`document.querySelector(".sums")?.innerText.replace(/\s+/g, " ").trim().startsWith(%q)`, text))
	}
	b.Open(p.HTTP + "/")
	foot("50 of 1,050 queues 50")
	b.Click("Next page")
	b.Until("the second page", `document.querySelector("tbody a")?.innerText === "queue-0050"`)
	b.Click("First page")
	b.Until("the first page again", `document.querySelector("tbody a")?.innerText === "queue-0000"`)
	b.Click("Look at all, by Ready")
	foot("The first 1,000 queues 1,000")
	b.Until("nothing of it is live", `document.getElementById("state").innerText === "the table is not live"`)
	b.Eval(`{ const send = window.fetch; window.fetch = () => { window.fetch = send; return Promise.reject(new TypeError("lost")) } }`)
	b.Click("Look at 1,000 more")
	b.Sees("It did not go on")
	b.Click("Look at 1,000 more")
	foot("All 1,050 queues 1,053")
	b.Until("the largest one is first", `document.querySelector("tbody a").innerText === "queue-1049"`)
	b.Open(p.HTTP + "/#/?prefix=queue-00")
	foot("These 50 queues alone 50")
	b.Click("Look at all, by Ready")
	foot("All 100 queues 100")
	b.Defects()
	p.Stop(t)
}

// A page that gets no answer says so, and asks again: at the start, and when a stream falls
// silent, as it does when a network is gone without a word.
func TestConsoleSilence(t *testing.T) {
	t.Parallel()
	p, nc, b := consolePage(t, "PQ_CONSOLE=read")
	pqd.Push(t, nc, "jobs", 1, "x")
	b.RunFirst(`
		const later = window.setTimeout; // long times are short ones
		window.setTimeout = (what, ms) => later(what, ms >= 10000 ? 1500 : ms);
		const send = window.fetch;
		window.asked = {};
		window.fetch = (at, how) => {
			const what = at.split("?")[0];
			window.asked[what] = (window.asked[what] ?? 0) + 1;
			if (window.asked[what] > 1) return send(at, how);
			if (what === "/v1/access") return new Promise((_, fail) => how.signal.addEventListener("abort", () => fail(new TypeError("aborted"))));
			return send(at, how).then((answer) => {
				const silent = new ReadableStream({start: (to) => how.signal.addEventListener("abort", () => to.error(new TypeError("aborted")))});
				return new Response(silent, {status: answer.status});
			});
		};`)
	b.Open(p.HTTP + "/#/q/jobs")
	b.Sees("Loading…")
	b.Sees("pqd does not answer.")
	b.Until("the stream is there, and silent", `document.getElementById("state").innerText === "live"`)
	b.Until("the item is there", `document.querySelectorAll("tbody tr").length === 1`)
	b.Defects()
	p.Stop(t)
}

// The theme is the browser's until somebody chooses one, and then that; and a page whose
// first request fails tries again.
func TestConsoleThemeAndStart(t *testing.T) {
	t.Parallel()
	p, nc, b := consolePage(t, "PQ_CONSOLE=read")
	pqd.Push(t, nc, "jobs", 1, "x")
	b.RunFirst(`
		window.tries = 0;
		const send = window.fetch;
		window.fetch = (at, how) => at === "/v1/access" && window.tries++ === 0 ? Promise.reject(new TypeError("lost")) : send(at, how);`)
	dark := `getComputedStyle(document.documentElement).colorScheme === "dark"`
	b.Open(p.HTTP + "/")
	b.Sees("pqd does not answer.")
	b.Take("no-connection")
	b.Sees("jobs")
	b.Call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": "light"}}}, nil)
	b.Until("the theme is light", "!("+dark+")")
	b.Eval(`{ const theme = document.getElementById("theme"); theme.value = "dark"; theme.dispatchEvent(new Event("change")) }`)
	b.Until("the theme is dark", dark)
	b.Call("Page.reload", nil, nil)
	b.Sees("jobs")
	b.Until("the theme is still dark", dark)
	p.Stop(t)
}
