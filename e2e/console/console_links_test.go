package console_test

import (
	"encoding/json"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/protocol"
)

// The links of a queue say what they hold, and what is held is shown as that wherever it is.
func TestConsoleLinks(t *testing.T) {
	t.Parallel()
	p, nc, b := consolePage(t, "PQ_CONSOLE=admin")
	patch(t, p, "orders/config", `{}`)
	b.Open(p.HTTP + "/#/q/orders?tab=links")
	b.Sees("The queue has no links.")
	pqd.Request(t, nc, "pq.orders.admin.link.hub", `{"to":"d9b1c2"}`)
	b.Until("the link is shown", cellsOf+`[0]?.slice(0, 6).join("|") === "hub|d9b1c2|0|0|–|0"`)
	b.ClickInTable("Pause")
	b.Until("it is paused", `document.querySelector("tbody .badge.warn")?.innerText === "paused"`)
	b.Click("Resume")
	b.Until("it is not", `document.querySelector("tbody .badge")?.innerText === "starting"`)
	id := pqd.PushMsg(t, nc, "pq.orders.push.7", "a")
	pqd.PushMsg(t, nc, "pq.orders.push.8", "b")
	pqd.Lease(t, nc, "orders", "3h")
	pqd.Request(t, nc, "pq.orders.link.hub", `{"taker":"d9b1c2"}`)
	b.Until("its batch is shown", cellsOf+`[0].slice(0, 4).join("|") === "hub|d9b1c2|1|1" && document.querySelector("tbody .badge").innerText === "running"`)
	b.Until("how many are held", `[...document.querySelectorAll(".tiles dd")].some((e) => e.innerText === "2, 1 held")`)

	var page protocol.Page
	if err := json.Unmarshal(pqd.Request(t, nc, "pq.orders.list", `{"state":"leased","holder":"link:hub"}`).Data, &page); err != nil || len(page.Items) != 1 {
		t.Fatal(err, page)
	}
	b.Open(p.HTTP + "/#/q/orders?tab=leased")
	b.Until("one lease ends, the other does not", `[...document.querySelectorAll("[data-label=Until]")].map((e) => e.innerText).join("|") === "in 2 h|held"`)
	b.Until("that one can be chosen alone", `document.querySelectorAll("tbody input").length === 1`)
	b.Open(p.HTTP + "/#/q/orders/i/" + page.Items[0].ID)
	b.Sees("The link hub holds the item")
	b.Until("nothing can be done with it", `document.querySelectorAll(".head .actions button").length === 0`)
	b.Open(p.HTTP + "/#/q/orders/i/" + id)
	b.Until("a lease can be taken away", `document.querySelectorAll(".head .actions button").length > 0`)
	b.Defects()
	p.Stop(t)
}

// Who may only look can do nothing about a link.
func TestConsoleLinksReadOnly(t *testing.T) {
	t.Parallel()
	p, nc, b := consolePage(t, "PQ_CONSOLE=read")
	pqd.Request(t, nc, "pq.orders.admin.link.hub", `{"to":"d9b1c2","paused":true}`)
	b.Open(p.HTTP + "/#/q/orders?tab=links")
	b.Sees("d9b1c2")
	b.Until("no button is there", `document.querySelectorAll("tbody button").length === 0`)
	b.Defects()
	p.Stop(t)
}
