package operations_test

import (
	"encoding/json"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
)

// expressions are those of the alerts and of the dashboard, by where they are.
func expressions(t *testing.T) (ofAlerts, ofPanels map[string]string) {
	t.Helper()
	type rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	var alerting rules
	if err := yaml.Unmarshal([]byte(pqd.Read(t, alerts)), &alerting); err != nil {
		t.Fatalf("%s: %v", alerts, err)
	}
	var drawn struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, RefID string }
		}
	}
	if err := json.Unmarshal([]byte(pqd.Read(t, dashboard)), &drawn); err != nil {
		t.Fatalf("%s: %v", dashboard, err)
	}
	ofAlerts, ofPanels = make(map[string]string), make(map[string]string)
	for _, group := range alerting.Groups {
		for _, rule := range group.Rules {
			ofAlerts[alerts+": "+rule.Alert] = rule.Expr
		}
	}
	for _, panel := range drawn.Panels {
		for _, target := range panel.Targets {
			ofPanels[dashboard+": "+panel.Title+", "+target.RefID] = target.Expr
		}
	}
	if len(ofAlerts) < 20 || len(ofPanels) < 40 {
		t.Fatalf("found %d and %d expressions: expected those of the alerts and the dashboard", len(ofAlerts), len(ofPanels))
	}
	return ofAlerts, ofPanels
}

// What alerts, dashboard and pages name is exported, and what is exported is in the pages.
// promtool evaluates each expression on what a real pqd has exported.
func TestMetricsOfDashboardAlertsAndPages(t *testing.T) {
	nightly.Only(t, "it judges files of deploy")
	t.Parallel()
	run := recordedRun(t)
	exported := run.exported()
	ofAlerts, ofPanels := expressions(t)
	for where, expression := range ofAlerts {
		checkExpression(t, where, expression, exported)
	}
	for where, expression := range ofPanels {
		checkExpression(t, where, expression, exported)
	}
	ofTriggers := triggers(t)
	for where, expression := range ofTriggers {
		checkExpression(t, where, expression, exported)
	}
	checkPages(t, exported)

	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("NOT TESTED WITH PROMETHEUS: there is no promtool")
	}
	wrapped := make(map[string]string)
	for where, expression := range ofAlerts { // whether it fires or not
		wrapped[where] = "(count(" + expression + ") or vector(0)) >= bool 0"
	}
	variables := strings.NewReplacer("$job", ".+", "$queue", ".+", "$__rate_interval", "5m")
	for where, expression := range ofPanels { // there is something to draw
		wrapped[where] = "count(" + variables.Replace(expression) + ") > bool 0"
	}
	for where, expression := range ofTriggers { // one number, as KEDA expects
		wrapped[where] = "count(" + strings.ReplaceAll(expression, `queue="jobs"`, `queue=~".+"`) + ") == bool 1"
	}
	run.evaluate(t, promtool, wrapped)
}

// triggers are the expressions by which KEDA scales workers.
func triggers(t *testing.T) map[string]string {
	t.Helper()
	var scaled struct {
		Spec struct {
			Triggers []struct {
				Metadata struct{ Query string }
			}
		}
	}
	if err := yaml.Unmarshal([]byte(pqd.Read(t, keda)), &scaled); err != nil || len(scaled.Spec.Triggers) != 2 {
		t.Fatalf("%s has %d triggers, expected two: %v", keda, len(scaled.Spec.Triggers), err)
	}
	expressions := make(map[string]string)
	for _, trigger := range scaled.Spec.Triggers {
		expressions[keda+": "+trigger.Metadata.Query] = trigger.Metadata.Query
	}
	return expressions
}

// checkPages compares the lists of metrics in the pages with what is exported.
func checkPages(t *testing.T, exported map[string]map[string]bool) {
	t.Helper()
	text := pqd.Read(t, operation) + pqd.Read(t, "../../docs/cluster.md")
	list := regexp.MustCompile("(?m)^- (`pq_.*?`): .*$").FindAllStringSubmatch(text, -1)
	documented := make(map[string]bool)
	for _, row := range list {
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

// The rules fire when they should, by promtool's own tests, and there is a test of each.
func TestAlertsFire(t *testing.T) {
	nightly.Only(t, "it runs promtool")
	t.Parallel()
	var tests struct {
		Tests []struct {
			Checks []struct {
				Samples []struct{ Labels string } `yaml:"exp_samples"`
			} `yaml:"promql_expr_test"`
		}
	}
	const file = "../../deploy/alerts_test.yml"
	if err := yaml.Unmarshal([]byte(pqd.Read(t, file)), &tests); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	fires := make(map[string]bool)
	for i, test := range tests.Tests {
		quiet := false
		for _, check := range test.Checks {
			quiet = quiet || len(check.Samples) == 0
			for _, sample := range check.Samples {
				for _, label := range labelOf.FindAllStringSubmatch(sample.Labels, -1) {
					fires[label[2]] = fires[label[2]] || label[1] == "alertname"
				}
			}
		}
		if !quiet && i > 1 { // the first two begin with a pqd that is gone
			t.Errorf("%s: test %d has no moment at which nothing fires", file, i)
		}
	}
	for name := range alertRules(t) {
		if !fires[name] {
			t.Errorf("%s has no test in which %s fires", file, name)
		}
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("NOT TESTED WITH PROMETHEUS: there is no promtool")
	}
	pqd.Run(t, promtool, "test", "rules", file)
}

// alertRule is a rule for Prometheus.
type alertRule struct {
	Labels, Annotations map[string]string
}

func alertRules(t *testing.T) map[string]alertRule {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert               string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(pqd.Read(t, alerts)), &file); err != nil {
		t.Fatalf("%s: %v", alerts, err)
	}
	rules := make(map[string]alertRule)
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			rules[rule.Alert] = alertRule{rule.Labels, rule.Annotations}
		}
	}
	return rules
}

// Each alert leads to its section of the page, which says how urgent it is.
func TestRunbooks(t *testing.T) {
	t.Parallel()
	page := pqd.Read(t, runbook)
	const base = "https://github.com/pqbridge/pqbridge/blob/main/docs/runbook.md#"
	urgencies := map[string]string{"critical": "Critical", "warning": "Warning"}
	rules := alertRules(t)
	for name, rule := range rules {
		if url := rule.Annotations["runbook_url"]; url != base+strings.ToLower(name) {
			t.Errorf("%s leads to %q", name, url)
		}
		if rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
			t.Errorf("%s has no summary or no description", name)
		}
		urgency := urgencies[rule.Labels["severity"]]
		if section := "\n### " + name + "\n\n*" + urgency + "*: "; urgency == "" || !strings.Contains(page, section) {
			t.Errorf("%s is %q: %s has no section %q", name, rule.Labels["severity"], runbook, section)
		}
	}
	for _, section := range regexp.MustCompile(`(?m)^### (Pq\w+)$`).FindAllStringSubmatch(page, -1) {
		if _, known := rules[section[1]]; !known {
			t.Errorf("%s has a section %s, which is no alert", runbook, section[1])
		}
	}
}

// With a thousand queues each legend of the dashboard begins with those that matter, and a
// choice of all queues is short enough for a request. Panels do not overlap.
func TestDashboardOfManyQueues(t *testing.T) {
	t.Parallel()
	type place struct{ X, Y, W, H int }
	var drawn struct {
		Templating struct {
			List []struct{ Name, Type, AllValue string }
		}
		Panels []struct {
			ID          int
			Type, Title string
			GridPos     place
			Targets     []struct{ LegendFormat string }
			Options     struct {
				Legend struct {
					DisplayMode, SortBy string
					Calcs               []string
					SortDesc            bool
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(pqd.Read(t, dashboard)), &drawn); err != nil {
		t.Fatalf("%s: %v", dashboard, err)
	}
	for _, variable := range drawn.Templating.List {
		if variable.Type == "query" && variable.AllValue != ".+" {
			t.Errorf("all of %s are asked for as %q: expected .+", variable.Name, variable.AllValue)
		}
	}
	titles, ids, lists := make(map[place]string), make(map[int]string), 0
	for _, panel := range drawn.Panels {
		if other := ids[panel.ID]; other != "" {
			t.Errorf("%s and %s have the same id", panel.Title, other)
		}
		ids[panel.ID] = panel.Title
		for x := panel.GridPos.X; x < panel.GridPos.X+panel.GridPos.W; x++ {
			for y := panel.GridPos.Y; y < panel.GridPos.Y+panel.GridPos.H; y++ {
				if other := titles[place{X: x, Y: y}]; other != "" || x >= 24 {
					t.Fatalf("%s overlaps with %q, or is wider than the page", panel.Title, other)
				}
				titles[place{X: x, Y: y}] = panel.Title
			}
		}
		if panel.Type != "timeseries" || !strings.Contains(panel.Targets[0].LegendFormat, "{{queue}}") {
			continue
		}
		lists++
		legend, sorted := panel.Options.Legend, map[string]string{"lastNotNull": "Last *", "max": "Max"}
		if legend.DisplayMode != "table" || !legend.SortDesc || len(legend.Calcs) != 1 || sorted[legend.Calcs[0]] != legend.SortBy {
			t.Errorf("%s has the legend %+v: expected a table that begins with the largest", panel.Title, legend)
		}
	}
	if lists < 10 {
		t.Errorf("%d panels have a line for each queue: expected more", lists)
	}
}
