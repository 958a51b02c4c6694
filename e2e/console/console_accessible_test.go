package console_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/chromium"
	"github.com/pqbridge/pqbridge/e2e/internal/nodejs"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// needAxe returns a script that finds what keeps people out of a page. It skips the test
// where the script is not installed.
func needAxe(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(nodejs.Scripts, "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Skip("NOT TESTED FOR ACCESSIBILITY: npm ci was not run in e2e/testdata/js")
	}
	return string(text)
}

// Each view is accessible, in both themes, wide and narrow.
func TestConsoleAccessible(t *testing.T) {
	nightly.Only(t, "axe takes half a minute of a processor for all views")
	t.Parallel()
	axe, browser := needAxe(t), chromium.Need(t)
	p := testenv.Daemon(t, "PQ_CONSOLE=admin")
	nc := p.Connect(t)
	for i := range 60 {
		pqd.Push(t, nc, fmt.Sprintf("queue-%02d", i), 1, "x")
	}
	id := pqd.PushMsg(t, nc, "pq.jobs.push.1", `{"a":1}`, "PQ-Key", "ann", "Season", "autumn")
	pqd.PushMsg(t, nc, "pq.jobs.push.2", "x", "PQ-Delay", "1h")
	pqd.PushMsg(t, nc, "pq.jobs-dead.push.1", "x")
	pqd.Push(t, nc, "failing", 1, "x")
	pqd.Request(t, nc, leaseAs(t, nc, "failing", "ann").Reply, "+TERM no paper")
	failing := pqd.PushMsg(t, nc, "pq.failing.push.1", "x")
	pqd.Request(t, nc, leaseAs(t, nc, "failing", "ann").Reply, "-NAK")
	leaseAs(t, nc, "failing", "bob")
	pqd.Request(t, nc, "pq.failing.admin.schedule.monthly", `{"spec":"@monthly","paused":true}`)
	b := browser.Drive(t)
	b.Call("Page.setBypassCSP", map[string]any{"enabled": true}, nil) // for the script alone
	check := func(view string) {
		t.Helper()
		for _, width := range []int{390, 1440} {
			b.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false}, nil)
			for _, scheme := range []string{"light", "dark"} {
				only := ""
				if scheme == "dark" { // a theme changes colors alone
					only = `, runOnly: ["color-contrast"]`
				}
				b.Call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}}}, nil)
				if b.Eval("window.axe === undefined") == "true" {
					b.Eval(axe + "; 0")
				}
				var found []struct {
					ID, Impact, Help string
					Nodes            []struct{ HTML, FailureSummary string }
				}
				result := b.Eval(`axe.run(document, {resultTypes: ["violations"]` + only + `}).then((r) => JSON.stringify(r.violations))`)
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
	choose := func() {
		b.Until("an item is there", `document.querySelector("tbody input") !== null`)
		b.Eval(`document.querySelector("tbody input").click()`)
	}
	press := func(button string) func() { return func() { b.Click(button) } }
	for _, view := range []struct {
		name, address string // no address: what the view before leads to
		act           func()
		sees          string
	}{
		{"queues", "", nil, "queue-00"},
		{"sorted queues", "?sort=ready", nil, "sorted by Ready"},
		{"all queues", "", press("Look at all, by Ready"), "Back to the page"},
		{"a form", "", press("Push an item"), "One a line."},
		{"no queues", "?prefix=none", nil, "No queue begins with none."},
		{"ready items", "q/jobs", nil, "1 item on this page"},
		{"leases", "q/jobs?tab=leased", nil, "No item is leased."},
		{"delayed items", "q/jobs?tab=delayed", nil, "1 item on this page"},
		{"dead letters", "q/jobs?tab=dead", nil, "1 item on this page"},
		{"who holds what", "q/failing?tab=leased", nil, "bob"},
		{"an item that failed", "q/failing/i/" + failing, nil, "failed"},
		{"failures", "q/failing?tab=failures", nil, "no paper"},
		{"schedules", "q/failing?tab=schedules", nil, "monthly"},
		{"a schedule", "q/failing/s/monthly", nil, "It is paused"},
		{"a new schedule", "q/failing/s", func() { b.Enter("spec", "0 0 1 * *") }, "With these settings"},
		{"keys", "q/jobs?tab=keys", nil, "1 key on this page"},
		{"a configuration", "q/jobs?tab=config", nil, "Remembers ids for"},
		{"a selection", "q/jobs", choose, "Remove 1"},
		{"a question", "", press("Purge"), "to confirm"},
		{"an item", "q/jobs/i/" + id, nil, "Payload,"},
		{"a key", "q/jobs/k/ann", nil, "Its share of the deliveries"},
		{"no item", "q/jobs/i/none", nil, "not an item id"},
		{"no queue", "q/none", nil, "There is no queue none"},
		{"health", "health", nil, "Started"},
		{"no view", "q/%", nil, "There is no such view"},
	} {
		if view.address != "" || view.act == nil {
			b.Open(p.HTTP + "/#/" + view.address)
		}
		if view.act != nil {
			view.act()
		}
		b.Sees(view.sees)
		check(view.name)
	}
	p.Stop(t)
}
