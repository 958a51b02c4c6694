package main_test

import (
	"encoding/json"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/pqbridge/pqbridge/testenv"
)

// series are the metrics that pqd exports after every kind of work, each with the names
// of its labels.
func series(t *testing.T, p *testenv.Process) map[string]map[string]bool {
	t.Helper()
	_, text := get(t, p.HTTP+"/metrics")
	exported := make(map[string]map[string]bool)
	for _, match := range regexp.MustCompile(`(?m)^(\w+)(?:\{(.*)\})? \S+$`).FindAllStringSubmatch(text, -1) {
		labels := exported[match[1]]
		if labels == nil {
			labels = make(map[string]bool)
			exported[match[1]] = labels
		}
		for _, label := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(match[2], -1) {
			labels[label[1]] = true
		}
	}
	return exported
}

func TestMetricsOfDashboardAlertsAndPages(t *testing.T) {
	t.Parallel()
	p := testenv.Daemon(t)
	nc := p.Connect(t)
	deaths, err := nc.SubscribeSync("pq.jobs.event.dead")
	if err != nil {
		t.Fatal(err)
	}
	push(t, nc, "jobs", 1, "hopeless")
	lease, err := nc.Request("pq.jobs.pop.min", []byte(`{"lease":60000000000}`), patience)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Request(lease.Reply, []byte("+TERM"), patience); err != nil {
		t.Fatal(err)
	}
	if _, err := deaths.NextMsg(patience); err != nil {
		t.Fatal(err)
	}
	expectEmpty(t, nc, "jobs")
	exported := series(t, p)
	p.Stop(t)
	s := newStreamStore(t, "64M")
	s.init(t)
	maps.Copy(exported, series(t, testenv.Daemon(t, s.env("a")...)))

	type rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	var alerting rules
	if err := yaml.Unmarshal([]byte(read(t, alerts)), &alerting); err != nil {
		t.Fatalf("%s: %v", alerts, err)
	}
	var drawn struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, dashboard)), &drawn); err != nil {
		t.Fatalf("%s: %v", dashboard, err)
	}
	expressions := make(map[string]string)
	for _, group := range alerting.Groups {
		for _, rule := range group.Rules {
			expressions[alerts+": "+rule.Alert] = rule.Expr
		}
	}
	for _, panel := range drawn.Panels {
		for _, target := range panel.Targets {
			expressions[dashboard+": "+panel.Title] += target.Expr + " "
		}
	}
	if len(expressions) < 20 {
		t.Fatalf("found %d expressions: expected those of the alerts and the dashboard", len(expressions))
	}
	for where, expression := range expressions {
		checkExpression(t, where, expression, exported)
	}

	text := read(t, operation) + read(t, clusterPage)
	table := regexp.MustCompile("(?m)^\\| (`pq_.*`) \\|.*$").FindAllStringSubmatch(text, -1)
	documented := make(map[string]bool)
	for _, row := range table {
		for _, name := range regexp.MustCompile(`pq_\w+`).FindAllString(row[1], -1) {
			documented[name] = true
			_, plain := exported[name]
			_, histogram := exported[name+"_bucket"]
			if !plain && !histogram && !strings.Contains(row[0], "FoundationDB:") {
				t.Errorf("%s has %s, which pqd does not export", operation, name)
			}
		}
	}
	for name := range exported {
		if name := histogramSuffix.ReplaceAllString(name, ""); strings.HasPrefix(name, "pq_") && !documented[name] {
			t.Errorf("pqd exports %s, which %s does not have", name, operation)
		}
	}
}

var histogramSuffix = regexp.MustCompile(`_(bucket|sum|count)$`)

// checkExpression looks at the metrics of an expression, and at the labels by
// which it selects.
func checkExpression(t *testing.T, where, expression string, exported map[string]map[string]bool) {
	t.Helper()
	targets := []string{"job", "instance"} // the labels that Prometheus adds
	found := false
	for _, selector := range regexp.MustCompile(`\b((?:pq|process|go)_\w+|up)\b(?:\{([^}]*)\})?`).FindAllStringSubmatch(expression, -1) {
		found = true
		if selector[1] == "up" {
			continue // Prometheus's own
		}
		labels, known := exported[selector[1]]
		if !known {
			t.Errorf("%s: pqd does not export %s", where, selector[1])
		}
		for _, label := range regexp.MustCompile(`(\w+)(?:=|!=|=~|!~)"`).FindAllStringSubmatch(selector[2], -1) {
			if !labels[label[1]] && !slices.Contains(targets, label[1]) {
				t.Errorf("%s: %s has no label %s", where, selector[1], label[1])
			}
		}
	}
	if !found {
		t.Errorf("%s: no metric in %s", where, expression)
	}
}

// The rules fire when they should, by promtool's own tests.
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("NOT TESTED WITH PROMETHEUS: there is no promtool")
	}
	run(t, promtool, "test", "rules", strings.TrimSuffix(alerts, ".yml")+"_test.yml")
}
