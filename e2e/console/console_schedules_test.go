package console_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// A schedule is made by a form that shows its times beforehand; it is run, paused, changed and
// deleted, and the list says how all stand.
func TestConsoleSchedules(t *testing.T) {
	t.Parallel()
	p, nc, b := consolePage(t, "PQ_CONSOLE=admin")
	pqd.Push(t, nc, "reports", 1, "x")
	b.Open(p.HTTP + "/#/q/reports?tab=schedules")
	b.Sees("The queue has no schedules.")
	b.Click("New schedule")
	b.Sees("Of the tz database")
	problem := func(name, text string) {
		t.Helper()
		b.Until("it is told at "+name, fmt.Sprintf(`document.getElementById("field-%s-problem")?.innerText.includes(%q)`, name, text))
	}
	b.Click("Save")
	problem("spec", "Times are missing")
	b.Enter("spec", "30 7 * *")
	b.Sees("has 4 fields: expected five")
	b.Enter("zone", "Europe/Berlin")
	b.Enter("spec", "30 7 * * mon")
	b.Sees("With these settings it fires")
	b.Until("ten times are told, as a clock there shows them", `document.querySelectorAll(".times li").length === 10 && [...document.querySelectorAll(".times li")].every((l) => l.innerText.startsWith("Mon, ") && l.innerText.includes("07:30:00 Europe/Berlin (in "))`)
	b.Take("schedule-new")
	b.Click("Save")
	b.Sees("The name is “”")
	b.Enter("name", "morning")
	b.Enter("payload", "report\n")
	b.Enter("headers", "Season: autumn\nKind: a\nKind: b")
	b.Enter("priority", "soon")
	b.Click("Save")
	problem("priority", "expected a whole number")
	b.Enter("priority", "-3")
	b.Enter("catch_up", "1s")
	b.Click("Save")
	problem("catch_up", "catch_up is 1s")
	b.Enter("catch_up", "2h")
	b.Click("Save")
	b.Until("the page shows the schedule", `location.hash === "#/q/reports/s/morning" && document.querySelector(".why").innerText.startsWith("It fires in ")`)
	b.Shows(p, "/v1/queues/reports/schedules/morning", `"spec":"30 7 * * mon","zone":"Europe/Berlin","item":{"headers":{"Kind":["a","b"],"Season":["autumn"]},"payload":"report\n","priority":-3}`, `"catch_up":"2h0m0s"`)
	b.Until("its next times are told", `document.querySelectorAll(".times li").length === 10`)
	b.Take("schedule")

	b.Click("Run now")
	b.Sees("to reports.")
	b.Shows(p, "/v1/queues/reports", `"ready":2,`)
	b.Click("Pause")
	b.Sees("It is paused. Times that pass meanwhile are no misses.")
	b.Click("Resume")
	b.Sees("It fires in ")
	b.Click("Begin anew")
	b.Press("Begin anew")
	b.Until("the dialog is gone", `document.querySelector("dialog") === null`)

	// A change of one field of the item keeps the others; somebody else's change is shown.
	b.Enter("priority", "7")
	b.Enter("spec", "0 8 * * *")
	b.Until("the times are those of what is written", `document.querySelectorAll(".times li").length === 20 && [...document.querySelectorAll(".times")][1].innerText.includes("08:00:00 Europe/Berlin")`)
	b.Click("Save")
	b.Sees("Changed spec, priority.")
	b.Shows(p, "/v1/queues/reports/schedules/morning", `"spec":"0 8 * * *","zone":"Europe/Berlin","item":{"headers":{"Kind":["a","b"],"Season":["autumn"]},"payload":"report\n","priority":7}`)
	pqd.Request(t, nc, "pq.reports.admin.schedule.morning", `{"jitter":"5m","count":9}`)
	b.Until("the change of another is shown", `document.querySelector("[name=jitter]").value === "5m" && document.querySelector("[name=count]").value === "9"`)

	// The name of one that exists makes none.
	b.Open(p.HTTP + "/#/q/reports/s")
	b.Enter("name", "morning")
	b.Enter("spec", "@every 90s")
	b.Click("Save")
	b.Sees("There is a schedule morning.")
	b.Enter("name", "often")
	b.Click("Save")
	b.Until("it is made", `location.hash === "#/q/reports/s/often"`)
	b.Shows(p, "/v1/queues/reports/schedules/often", `"spec":"@every 90s"`)

	pqd.Request(t, nc, "pq.reports.admin.schedule.often.pause", "")
	b.Open(p.HTTP + "/#/q/reports?tab=schedules")
	b.Until("the list says how they stand", cellsOf+`.map(([name, spec, , , fired, , , stands]) => [name, spec, fired, stands].join("|")).join(" ") === "morning|0 8 * * *, Europe/Berlin|0|– often|@every 90s|0|paused"`)
	b.Take("schedules")
	b.Click("often")
	b.Click("Delete")
	b.Press("Delete")
	b.Until("one is left", `location.hash === "#/q/reports?tab=schedules" && document.querySelectorAll("tbody tr").length === 1`)
	b.Open(p.HTTP + "/#/q/reports/s/often")
	b.Sees("Queue reports has no schedule often")
	b.Defects()
	p.Stop(t)
}

// Why a schedule stands is told, whatever the reason, and what changes takes no focus.
func TestConsoleScheduleStates(t *testing.T) {
	t.Parallel()
	p, _, b := consolePage(t, "PQ_CONSOLE=admin")
	b.RunFirst(tells)
	told(b, p.HTTP+"/#/q/a/s/here")
	says := func(more, text, stands string) {
		t.Helper()
		b.Eval(`say("/v1/queues/a/schedules/here", { name: "here", spec: "* * * * *", zone: "Nowhere/Unknown", item: { payload_base64: "/w==" }, count: 0, overlap: "skip", catch_up: "1h0m0s", missed: "one", jitter: "0s", paused: false, counts: { fired: 0, missed: 0, overlapped: 0 }, times: [], ` + more + `})`)
		b.Sees(text)
		b.Until("it stands: "+stands, fmt.Sprintf(`[...document.querySelectorAll(".head .badge")].filter((e) => e.checkVisibility()).map((e) => e.innerText).join() === %q`, stands))
	}
	says(`next: new Date(Date.now() + 3570000), due: new Date(Date.now() + 3570000)`, "It fires in 59 min.", "")
	b.Sees("UTC (in 59 min)")
	b.Sees("It is 1 B that are no text.")
	b.Eval(`window.kept = [...document.querySelectorAll("button")].find((e) => e.innerText === "Pause"); kept.focus()`)
	says(`due: new Date(Date.now() - 3600000)`, "Its time has come 60 min ago, and no pqd has fired it.", "late")
	says(`due: new Date(), full: true`, "the queue is full: it tries again every 5 seconds, for 1h.", "queue full")
	if now := b.Eval(`kept.isConnected && document.activeElement === kept`); now != "true" {
		t.Error("a button does not stay")
	}
	says(`done: true`, "It has no further time", "done")
	b.Eval(`say("/v1/queues/a/schedules/here", failure("the store is away"), 503)`)
	b.Sees("the store is away")
	b.Defects()
	p.Stop(t)
}

// Leased items are taken away from who holds them: one, or those that are chosen, and never a
// later lease.
func TestConsoleTakeAway(t *testing.T) {
	t.Parallel()
	p, nc, b := consolePage(t, "PQ_CONSOLE=admin")
	id := pqd.PushMsg(t, nc, "pq.jobs.push.0", "x")
	pqd.Push(t, nc, "jobs", 1, "y")
	pqd.Push(t, nc, "jobs", 2, "z")
	first := leaseAs(t, nc, "jobs", "w7")
	for range 2 {
		leaseAs(t, nc, "jobs", "w8")
	}
	b.Open(p.HTTP + "/#/q/jobs/i/" + id)
	b.Click("Take away")
	b.Sees("Take away the item from w7")
	b.Enter("reason", "w7 is stuck")
	b.Enter("delay", "soon")
	b.Press("Take away")
	b.Sees("delay")
	b.Enter("delay", "1h")
	b.Take("take-away")
	b.Press("Take away")
	b.Sees("It is delayed now.")
	b.Sees("The item is delayed: it becomes ready in")
	b.Sees("w7 is stuck")
	if _, err := nc.Request(first.Reply, []byte("+ACK"), testenv.Patience()); err == nil {
		t.Error("the lease of an item that was taken away holds")
	}

	b.Open(p.HTTP + "/#/q/jobs?tab=leased")
	b.Until("both are there", `document.querySelectorAll("tbody tr").length === 2`)
	b.Eval(`document.querySelector("thead input").click()`)
	b.Click("Take away 2…")
	b.Press("Take away")
	b.Sees("Take away: 2 done.")
	b.Sees("No item is leased.")
	b.Shows(p, "/v1/queues/jobs", `"ready":2,"leased":0,"delayed":1`)

	// Another lease than the one that somebody saw is left alone.
	leaseAs(t, nc, "jobs", "w9")
	b.Until("it is there", `document.querySelectorAll("tbody tr").length === 1`)
	b.Eval(`document.querySelector("tbody input").click()`)
	b.Click("Take away 1…")
	listed := pqd.Request(t, nc, "pq.jobs.list", `{"state":"leased"}`)
	pqd.Request(t, nc, "pq.jobs.revoke."+idOf(t, listed.Data), `{"delay":"0s"}`)
	leaseAs(t, nc, "jobs", "w10")
	b.Press("Take away")
	b.Sees("Take away: 0 done.")
	b.Shows(p, "/v1/queues/jobs/items?state=leased", `"holder":"w10"`)
	b.Defects()
	p.Stop(t)
}

// idOf is the id of the first item of a list.
func idOf(t *testing.T, list []byte) string {
	t.Helper()
	var page struct{ Items []struct{ ID string } }
	if err := json.Unmarshal(list, &page); err != nil || len(page.Items) == 0 {
		t.Fatalf("%v in %s", err, list)
	}
	return page.Items[0].ID
}
