package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/internal/testkit/tools"
	"github.com/pqbridge/pqbridge/protocol"
)

// shown is what the page says for each of the scripts: functions of a module of it. Elements are the texts that they hold.
func shown(t *testing.T, scripts [][2]string) (said []string) {
	t.Helper()
	node, err := tools.Find("node")
	if err != nil {
		t.Skip("NOT TESTED: there is no node")
	}
	pages, err := filepath.Abs("page")
	if err != nil {
		t.Fatal(err)
	}
	given, err := json.Marshal(scripts)
	if err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), node, "--input-type=module", "-e",
		`import { readFileSync } from "node:fs";
		class Element {
			held = [];
			append(...children) { this.held.push(...children); }
			setAttribute() {}
			toString() { return this.held.join(""); }
		}
		globalThis.document = { createElement: () => new Element() };
		const said = [];
		for (const [module, script] of JSON.parse(readFileSync(0, "utf8"))) said.push(String((0, eval)(script)(await import(process.argv[1] + "/" + module))));
		console.log(JSON.stringify(said));`, pages)
	run.Stdin = bytes.NewReader(given)
	var wrong bytes.Buffer
	run.Stderr = &wrong
	printed, err := run.Output()
	if err != nil {
		t.Fatal(err, wrong.String())
	}
	if err := json.Unmarshal(printed, &said); err != nil || len(said) != len(scripts) {
		t.Fatalf("%s: %v", printed, err)
	}
	return said
}

// What has a cost, or a rate of it, shows that. What has none looks as if there were no costs.
func TestCostIsShown(t *testing.T) {
	t.Parallel()
	const (
		queue = `{ ready: 0, leased: 0, delayed: 0, waiting: 0, bytes: 0, rates: { push: 0, pop: 0 }, config: { cost_rate: "90000/1m0s" }`
		key   = `{ ready: 120, more: true, leased: 1, limit: 0, rate: "", weight: 1, settings: {}`
		item  = `{ state: "leased", priority: 3, pushed: "2026-01-02T03:04:05Z", deliveries: 2`

		table  = `({ cell, columnsOf }) => columnsOf(list).map((c) => [c.label, ...list.map((k) => cell(c, k))].join(" "))`
		plain  = "Ready 120+,Leased 1,Limit –,Rate –,Weight 1,Tokens –"
		labels = "Ready,Leased,Delayed,Waiting pops,In per second,Out per second,Age of the next,Age of the oldest,Size"
	)
	cases := []struct{ what, module, script, want string }{
		{"a queue without a rate", "queue.js", `({ numbers }) => numbers(` + queue + ` }).map(([label]) => label).join()`, labels},
		{"a queue that owes", "queue.js", `({ numbers }) => numbers(` + queue + `, cost_tokens: -1200, cost: { reserved: 4000, spent: 1830 } }).slice(9).map((n) => n.join(" ")).join()`,
			"Cost rate 90000/1m,Cost tokens -1,200,Cost reserved 4,000,Cost spent 1,830"},
		{"a queue of which only the keys have a rate", "queue.js", `({ numbers }) => numbers(` + queue + `, cost: { reserved: 5, spent: 0 } }).slice(9).map((n) => n.join(" ")).join()`,
			"Cost reserved 5,Cost spent 0"},
		{"keys without a rate", "keys.js", `(page) => { const list = [` + key + ` }]; return (` + table + `)(page).join(); }`, plain},
		{"a key that owes, and one without a rate", "keys.js", `(page) => { const list = [` + key + `, cost_rate: "1000/1h0m0s", cost_tokens: -40 }, ` + key + ` }]; return (` + table + `)(page).join(); }`,
			"Ready 120+ 120+,Leased 1 1,Limit – –,Rate – –,Cost rate 1000/1h –,Weight 1 1,Tokens – –,Cost tokens -40 –"},
		{"a key that is without a bound of its own", "keys.js", `(page) => { const list = [{ ...` + key + ` }, settings: { cost_rate: "" } }]; return (` + table + `)(page).filter((line) => line.startsWith("Cost")).join(); }`,
			"Cost rate none*,Cost tokens –"},
		{"what a key waits for", "key.js", `({ explain }) => explain(` + key + `, waits_for: "key_cost_rate", retry: "1h0m0s" }, {})`,
			"Its next item waits until its cost rate allows a delivery, in 1h."},
		{"the setting of a key", "key.js", `({ fields }) => ["90000/1m0s", "", undefined].map((cost_rate) => fields({ cost_rate }, { key_rate: "", key_cost_rate: "" }).find((f) => f.name === "cost_rate").value || "empty").join()`,
			"90000/1m,none,empty"},
		{"an item", "item.js", `({ factsOf }) => factsOf("jobs", ` + item + `, cost: 1200 }, null).flat(Infinity).filter((e) => e).slice(6, 10).join()`, "Deliveries,2,Cost,1,200 a delivery"},
		{"an item of cost 1", "item.js", `({ factsOf }) => String(factsOf("jobs", ` + item + ` }, null)).includes("Cost")`, "false"},
	}
	var scripts [][2]string
	for _, tc := range cases {
		scripts = append(scripts, [2]string{tc.module, tc.script})
	}
	for i, got := range shown(t, scripts) {
		if tc := cases[i]; got != tc.want {
			t.Errorf("%s: %q, expected %q", tc.what, got, tc.want)
		}
	}
}

// A form that changes one field of a schedule's item keeps all others, for they are stored together.
func TestScheduleFormKeepsTheItem(t *testing.T) {
	t.Parallel()
	item := protocol.ScheduleItem{
		Headers: map[string][]string{"Season": {"autumn", "winter"}}, Payload: new("leaves"), Priority: new(int64(3)), Key: "ann", Weight: 2, Cost: 1200,
		TTL: protocol.Duration(time.Hour),
	}
	of := reflect.ValueOf(item)
	for i := range of.NumField() {
		if name := of.Type().Field(i).Name; name != "Base64" && of.Field(i).IsZero() {
			t.Errorf("the item has no %s: expected all fields", name)
		}
	}
	text, err := json.Marshal(item)
	if err != nil {
		t.Fatal(err)
	}
	const written = `const item = %s; const written = Object.fromEntries(fields({ spec: "", zone: "", item, catch_up: "1h0m0s", jitter: "0s" }).map((f) => [f.name, f.value]))`
	said := shown(t, [][2]string{
		{"schedule.js", fmt.Sprintf(`({ fields, itemOf }) => { `+written+`; return JSON.stringify(itemOf(written, item)); }`, text)},
		{"schedule.js", fmt.Sprintf(`({ ofItem }) => Object.keys(%s).filter((name) => !ofItem.includes(name)).join()`, text)},
	})
	var kept protocol.ScheduleItem
	if err := json.Unmarshal([]byte(said[0]), &kept); err != nil || !reflect.DeepEqual(kept, item) {
		t.Errorf("%s becomes %s: %v", text, said[0], err)
	}
	if said[1] != "" {
		t.Errorf("the form does not store %s with the item", said[1])
	}
}
