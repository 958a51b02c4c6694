package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/testenv"
)

// needAxe returns a script that finds what keeps people out of a page. It skips the test
// where the script is not installed.
func needAxe(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(scripts, "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Skip("NOT TESTED FOR ACCESSIBILITY: npm ci was not run in cmd/pqd/testdata/js")
	}
	return string(text)
}

// Each view is accessible, in both themes, wide and narrow.
func TestConsoleAccessible(t *testing.T) {
	t.Parallel()
	axe, browser := needAxe(t), needBrowser(t)
	p := testenv.Daemon(t, "PQ_CONSOLE=admin")
	nc := p.Connect(t)
	for i := range 60 {
		push(t, nc, fmt.Sprintf("queue-%02d", i), 1, "x")
	}
	id := pushMsg(t, nc, "pq.jobs.push.1", `{"a":1}`, "PQ-Key", "ann", "Season", "autumn")
	pushMsg(t, nc, "pq.jobs.push.2", "x", "PQ-Delay", "1h")
	pushMsg(t, nc, "pq.jobs-dead.push.1", "x")
	b := browser.drive(t)
	b.call("Page.setBypassCSP", map[string]any{"enabled": true}, nil) // for the script alone
	check := func(view string) {
		t.Helper()
		for _, width := range []int{390, 1440} {
			b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false}, nil)
			for _, scheme := range []string{"light", "dark"} {
				b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}}}, nil)
				b.eval(axe + "; 0")
				var found []struct {
					ID, Impact, Help string
					Nodes            []struct{ HTML, FailureSummary string }
				}
				result := b.eval(`axe.run(document, {resultTypes: ["violations"]}).then((r) => JSON.stringify(r.violations))`)
				var text string
				if err := json.Unmarshal([]byte(result), &text); err != nil {
					t.Fatalf("%v in %.300s", err, result)
				}
				if err := json.Unmarshal([]byte(text), &found); err != nil {
					t.Fatalf("%v in %.300s", err, text)
				}
				for _, v := range found {
					t.Errorf("%s, %d wide, %s: %s (%s): %s: %s, %s", view, width, scheme, v.ID, v.Impact, v.Help, v.Nodes[0].HTML, strings.ReplaceAll(v.Nodes[0].FailureSummary, "\n", " "))
				}
			}
		}
	}
	b.open(p.HTTP + "/")
	b.sees("queue-00")
	check("queues")
	b.open(p.HTTP + "/#/?sort=ready")
	b.sees("sorted by Ready")
	check("sorted queues")
	b.click("Look at all, by Ready")
	b.sees("Back to the page")
	check("all queues")
	b.click("Push an item")
	b.sees("One a line.")
	check("a form")
	b.click("Cancel")
	b.open(p.HTTP + "/#/?prefix=none")
	b.sees("No queue begins with none.")
	check("no queues")
	for _, tab := range []string{"ready", "leased", "delayed", "dead", "keys", "config"} {
		b.open(p.HTTP + "/#/q/jobs?tab=" + tab)
		b.until("the tab "+tab+" is there", fmt.Sprintf(`document.querySelector(".tabs a[aria-current]")?.hash.endsWith(%q) && document.querySelector(".tiles dd") !== null && !document.querySelector("main").innerText.includes("Loading")`, map[bool]string{true: "jobs", false: tab}[tab == "ready"]))
		check("the tab " + tab)
	}
	b.open(p.HTTP + "/#/q/jobs")
	b.until("an item is there", `document.querySelector("tbody input") !== null`)
	b.eval(`document.querySelector("tbody input").click()`)
	b.sees("Remove 1")
	check("a selection")
	b.click("Purge")
	b.sees("to confirm")
	check("a question")
	b.open(p.HTTP + "/#/q/jobs/i/" + id)
	b.sees("Payload,")
	check("an item")
	b.open(p.HTTP + "/#/q/jobs/k/ann")
	b.sees("Its share of the deliveries")
	check("a key")
	b.open(p.HTTP + "/#/q/jobs/i/none")
	b.sees("not an item id")
	check("no item")
	b.open(p.HTTP + "/#/q/none")
	b.sees("no queue none")
	check("no queue")
	b.open(p.HTTP + "/#/health")
	b.sees("Started")
	check("health")
	b.open(p.HTTP + "/#/q/%")
	b.sees("There is no such view")
	check("no view")
	p.Stop(t)
}
