package operations_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// recording is what Prometheus would have of pqd after some scrapes, a minute apart.
type recording struct {
	scrapes int
	series  map[string][]string // values by name and labels; "_": the scrape had none
}

var sampleLine = regexp.MustCompile(`^(\w+)(?:\{(.*)\})? (\S+)$`)

// scrape records the metrics of some pqd, by instance.
func (r *recording) scrape(t *testing.T, instances map[string]*testenv.Process) {
	t.Helper()
	for instance, p := range instances {
		_, page := pqd.Get(t, p.HTTP+"/metrics")
		r.add("up", "", instance, "1")
		for line := range strings.Lines(page) {
			sample := sampleLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
			if sample == nil {
				continue // a comment
			}
			value, err := strconv.ParseFloat(sample[3], 64)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			r.add(sample[1], sample[2], instance, strconv.FormatFloat(value, 'f', -1, 64))
		}
	}
	r.scrapes++
}

func (r *recording) add(name, labels, instance, value string) {
	key := fmt.Sprintf(`%s{%s}`, name, strings.TrimPrefix(labels+fmt.Sprintf(`,job="pqd",instance=%q`, instance), ","))
	values := r.series[key]
	for len(values) < r.scrapes {
		values = append(values, "_")
	}
	r.series[key] = append(values, value)
}

// exported are the metrics, each with the names of its labels.
func (r *recording) exported() map[string]map[string]bool {
	all := make(map[string]map[string]bool)
	for key := range r.series {
		name, labels, _ := strings.Cut(key, "{")
		if all[name] == nil {
			all[name] = make(map[string]bool)
		}
		for _, label := range labelOf.FindAllStringSubmatch(labels, -1) {
			all[name][label[1]] = true
		}
	}
	return all
}

// recordedRun records a pqd with an embedded store, and one that keeps its store in a
// stream, while they do each kind of work.
func recordedRun(t *testing.T) *recording {
	t.Helper()
	remotes := filepath.Join(t.TempDir(), "remotes.json")
	if err := os.WriteFile(remotes, []byte(`{"away":{"url":"nats://127.0.0.1:1","streams":{"ORDERS":{"read":["fed"]}}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	m := meter(t, "PQ_REMOTES="+remotes)
	s := pqd.NewStreamStore(t, "64M")
	s.Init(t)
	all := map[string]*testenv.Process{"a": m.process, "b": testenv.Daemon(t, s.Env("b")...)}
	m.ask("pq.jobs.admin.config", `{"max_length":1000}`)
	m.ask("pq.blocked.admin.key.ann", `{"paused":true}`)
	m.ask("pq.blocked.push", "x", "PQ-Key", "ann")
	for key := range 100 {
		m.ask("pq.keyed.push", "x", "PQ-Key", fmt.Sprint(key))
	}
	m.ask("pq.often.admin.schedule.s", `{"spec":"@every 1s","overlap":"allow"}`)
	m.ask("pq.fed.admin.source.orders", `{"remote":"away","stream":"ORDERS"}`)
	m.ask("pq.given.admin.link.hub", `{"to":"abc"}`)
	m.ask("pq.given.push", "x")
	m.ask("pq.given.link.hub", `{"taker":"abc"}`)
	r := &recording{series: make(map[string][]string)}
	for range 6 {
		for priority := range 6 {
			m.ask(fmt.Sprintf("pq.jobs.push.%d", priority), "x", "Nats-Msg-Id", m.nc.NewInbox(), "PQ-Key", "ann")
		}
		m.ask(m.lease("jobs", "1m").Reply, "+TERM")
		m.ask(m.lease("jobs", "1m").Reply, "-NAK")
		m.ask(m.lease("jobs", "1m").Reply, "+ACK")
		m.lease("jobs", "1h")
		m.ask("pq.idle.admin.config", "{}")
		m.ask("pq.idle.pop.min", "")
		testenv.Await(t, "the metrics have the dead letter, what was popped in vain and what a schedule fired", func() bool {
			queues := m.queues()
			return queues["jobs dead_total"] >= float64(r.scrapes+1) && queues["jobs-dead items ready"] >= float64(r.scrapes+1) &&
				queues["idle not_served_total empty"]+queues["_other not_served_total empty"] >= float64(r.scrapes+1) &&
				queues["often schedule_fired_total"] >= float64(r.scrapes+1)
		})
		r.scrape(t, all)
	}
	return r
}

// evaluate has promtool evaluate expressions on the recorded run, at its end. Each has to
// return what is said of it.
func (r *recording) evaluate(t *testing.T, promtool string, wrapped map[string]string) {
	t.Helper()
	type input struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	}
	type sample struct {
		Labels string  `yaml:"labels"`
		Value  float64 `yaml:"value"`
	}
	type check struct {
		Expr    string   `yaml:"expr"`
		At      string   `yaml:"eval_time"`
		Samples []sample `yaml:"exp_samples"`
	}
	var inputs []input
	for _, key := range slices.Sorted(maps.Keys(r.series)) {
		inputs = append(inputs, input{key, strings.Join(r.series[key], " ")})
	}
	var checks []check
	for _, where := range slices.Sorted(maps.Keys(wrapped)) {
		checks = append(checks, check{wrapped[where], fmt.Sprintf("%dm", r.scrapes-1), []sample{{"{}", 1}}})
	}
	file, err := yaml.Marshal(map[string]any{
		"evaluation_interval": "1m",
		"tests":               []any{map[string]any{"interval": "1m", "input_series": inputs, "promql_expr_test": checks}},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "recorded_test.yml")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := pqd.Command(t, promtool, "test", "rules", path).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}
