package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.yaml.in/yaml/v3"

	"github.com/pqbridge/pqbridge/subjects"
	"github.com/pqbridge/pqbridge/testenv"
)

// What lies in deploy fits the pqd of today: metrics, settings, pages, times.

const (
	dashboard = "../../deploy/grafana-dashboard.json"
	alerts    = "../../deploy/alerts.yml"
	unit      = "../../deploy/pqd.service"
	compose   = "../../docker-compose.yml"
	manifests = "../../deploy/kubernetes"
	operation = "../../docs/operations.md"

	stopsWithin = 10 * time.Second
)

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// series are the metrics that pqd exports once it has done something of
// everything, each with the names of its labels.
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

func TestMetricsAreThoseOfTheDashboardAlertsAndDocs(t *testing.T) {
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
	exported := series(t, p)
	p.Stop(t)

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

	text := read(t, operation)
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

// The rules fire when they should, as far as Prometheus's own tool can be asked.
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("NOT TESTED WITH PROMETHEUS: there is no promtool")
	}
	run(t, promtool, "test", "rules", strings.TrimSuffix(alerts, ".yml")+"_test.yml")
}

// The sample of permissions gives each user what the grammar says, and with them
// pqd and its clients do their work.
func TestSamplePermissions(t *testing.T) {
	passwords := []string{"PQD", "PRODUCER", "WORKER", "REQUEUER", "VIEWER", "ADMIN"}
	env := []string{"PQ_LISTEN=127.0.0.1:0", "NATS_USER=pqd", "NATS_PASSWORD=pqd-secret"}
	for _, name := range passwords {
		t.Setenv(name+"_PASSWORD", strings.ToLower(name)+"-secret")
	}
	config, err := filepath.Abs("../../deploy/nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	options, err := server.ProcessConfigFile(config)
	if err != nil {
		t.Fatal(err)
	}
	grammar, err := subjects.New("pq")
	if err != nil {
		t.Fatal(err)
	}
	may := func(user string, p subjects.Permissions, err error) subjects.Permissions {
		if err != nil {
			t.Fatal(err)
		}
		if p, err = p.WithInbox(user); err != nil {
			t.Fatal(err)
		}
		return p
	}
	producer, producerErr := grammar.Producer("jobs")
	worker, workerErr := grammar.Consumer("jobs")
	requeuer, requeuerErr := grammar.Requeuer("jobs")
	viewer, viewerErr := grammar.Viewer("*")
	admin, adminErr := grammar.Admin("jobs")
	want := map[string]subjects.Permissions{
		"pqd":      grammar.Bridge(),
		"producer": may("producer", producer, producerErr),
		"worker":   may("worker", worker, workerErr),
		"requeuer": may("requeuer", requeuer, requeuerErr),
		"viewer":   may("viewer", viewer, viewerErr),
		"admin":    may("admin", admin, adminErr),
	}
	for _, user := range options.Users {
		got := subjects.Permissions{Publish: user.Permissions.Publish.Allow, Subscribe: user.Permissions.Subscribe.Allow}
		expected := want[user.Username]
		for _, list := range [][]string{got.Publish, got.Subscribe, expected.Publish, expected.Subscribe} {
			slices.Sort(list)
		}
		if diff := cmp.Diff(expected, got); diff != "" {
			t.Errorf("user %s (-grammar +sample):\n%s", user.Username, diff)
		}
		delete(want, user.Username)
	}
	if len(want) > 0 {
		t.Errorf("users %v are missing", slices.Collect(maps.Keys(want)))
	}

	p := testenv.Daemon(t, append(env, "PQ_NATS_CONFIG="+config)...)
	as := func(user string) *nats.Conn {
		return p.Connect(t, nats.UserInfo(user, user+"-secret"), nats.CustomInboxPrefix("_INBOX."+user))
	}
	push(t, as("producer"), "jobs", 1, "x")
	if got := pop(t, as("worker"), "jobs", "min"); got != "x" {
		t.Errorf("the worker popped %q", got)
	}
	requeueAs(t, p, as, "requeuer")
	p.Stop(t)
	if log := p.Log(); strings.Contains(log, "may do more") || strings.Contains(log, "violation") {
		t.Errorf("pqd complains of its permissions: %s", log)
	}
}

// requeueAs lets the worker give up an item, and somebody list and requeue it
// with pq.
func requeueAs(t *testing.T, p *testenv.Process, as func(user string) *nats.Conn, user string) {
	t.Helper()
	push(t, as("producer"), "jobs", 1, "gave up")
	worker := as("worker")
	lease := nats.NewMsg("pq.jobs.pop.min")
	lease.Header.Set("PQ-Lease", "1h")
	item, err := worker.RequestMsg(lease, patience)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := worker.Request(item.Reply, []byte("+TERM by hand"), patience); err != nil {
		t.Fatal(err)
	}
	pq := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(testenv.Build(t, "cmd/pq"), args...)
		cmd.Env = append(os.Environ(), "NATS_URL="+p.URL, "NATS_USER="+user, "NATS_PASSWORD="+user+"-secret", "NATS_INBOX_PREFIX=_INBOX."+user)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("pq %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	if list := pq("dead", "list", "jobs"); !strings.Contains(list, "by hand") {
		t.Errorf("%s sees the dead letters\n%s", user, list)
	}
	if said := pq("dead", "requeue", "jobs", "--all"); !strings.Contains(said, "requeued 1 item") {
		t.Errorf("%s requeues: %s", user, said)
	}
	if got := pop(t, worker, "jobs", "min"); got != "gave up" {
		t.Errorf("the worker popped %q", got)
	}
}

// object is of Kubernetes, as far as these tests care.
type object struct {
	Kind string
	Spec struct {
		Replicas int
		// Of a PodDisruptionBudget.
		MinAvailable   *int `yaml:"minAvailable"`
		MaxUnavailable *int `yaml:"maxUnavailable"`

		Template struct {
			Spec struct {
				Grace      int `yaml:"terminationGracePeriodSeconds"`
				Containers []container
			}
		}
	}
}

type container struct {
	Env       []struct{ Name, Value string }
	Resources struct{ Limits struct{ Memory string } }
	Startup   probe `yaml:"startupProbe"`
	Liveness  probe `yaml:"livenessProbe"`
	Readiness probe `yaml:"readinessProbe"`
}

type probe struct {
	HTTP struct{ Path string } `yaml:"httpGet"`
}

// overloadPeak is what pqd needs under overload, docs/operations.md says.
const overloadPeak = 758 << 20

// A container has the memory that overload takes, and Go is told of less than
// that. A node can be drained.
func TestManifestsLeaveRoom(t *testing.T) {
	t.Parallel()
	if page := operation; !strings.Contains(read(t, page), fmt.Sprintf("pqd needed %d MiB at most", overloadPeak>>20)) {
		t.Errorf("%s says something else than %d MiB", page, overloadPeak>>20)
	}
	for _, file := range []string{"embedded.yaml", "foundationdb.yaml"} {
		replicas := 0
		for _, o := range objects(t, manifests+"/"+file) {
			if len(o.Spec.Template.Spec.Containers) > 0 {
				replicas = o.Spec.Replicas
				c := o.Spec.Template.Spec.Containers[0]
				var soft int64
				for _, entry := range c.Env {
					if entry.Name == "GOMEMLIMIT" {
						soft = bytesOf(t, entry.Value)
					}
				}
				if hard := bytesOf(t, c.Resources.Limits.Memory); hard < overloadPeak*5/4 || soft == 0 || soft > hard*3/4 {
					t.Errorf("%s: the limit is %d bytes and GOMEMLIMIT %d: expected room for %d, and a quarter beside Go", file, hard, soft, overloadPeak)
				}
			}
			if least, most := o.Spec.MinAvailable, o.Spec.MaxUnavailable; least != nil && *least >= replicas || most != nil && *most == 0 {
				t.Errorf("%s: its %s forbids to drain a node", file, o.Kind)
			}
		}
	}
}

// bytesOf reads a size such as 700MiB or 1Gi.
func bytesOf(t *testing.T, size string) int64 {
	t.Helper()
	digits := strings.TrimRight(size, "KMGiB")
	n, err := strconv.ParseInt(digits, 10, 64)
	shift, known := map[string]int{"": 0, "Ki": 10, "Mi": 20, "Gi": 30}[strings.TrimSuffix(size[len(digits):], "B")]
	if err != nil || !known {
		t.Fatalf("%q: expected a size", size)
	}
	return n << shift
}

// objects are those of a manifest.
func objects(t *testing.T, file string) (all []object) {
	t.Helper()
	for decoder := yaml.NewDecoder(strings.NewReader(read(t, file))); ; {
		var o object
		if err := decoder.Decode(&o); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
}

// pqd runs with the settings of each manifest, on the store of this test, and has
// the pages that are probed.
func TestManifests(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(manifests + "/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("found %d manifests: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			pods := 0
			for _, o := range objects(t, file) {
				if len(o.Spec.Template.Spec.Containers) == 0 {
					continue
				}
				pods++
				pod := o.Spec.Template.Spec
				if grace := time.Duration(pod.Grace) * time.Second; grace <= stopsWithin {
					t.Errorf("%s is killed after %s: pqd may take %s", o.Kind, grace, stopsWithin)
				}
				c := pod.Containers[0]
				env := make(map[string]string)
				for _, entry := range c.Env {
					env[entry.Name] = entry.Value
				}
				p := launch(t, env)
				for name, path := range map[string]string{"startup": c.Startup.HTTP.Path, "liveness": c.Liveness.HTTP.Path, "readiness": c.Readiness.HTTP.Path} {
					if code, body := get(t, p.HTTP+path); code != 200 {
						t.Errorf("the %s probe %q: %d %s", name, path, code, body)
					}
				}
				if c.Liveness.HTTP.Path == c.Readiness.HTTP.Path {
					t.Error("a pqd that waits for NATS would be killed: expected /healthz for liveness, /readyz for readiness")
				}
				p.Stop(t)
			}
			if pods != 1 {
				t.Errorf("found %d pods, expected one", pods)
			}
		})
	}
}

func TestCompose(t *testing.T) {
	t.Parallel()
	var file struct {
		Bridge struct {
			Environment map[string]string
			Grace       string `yaml:"stop_grace_period"`
		} `yaml:"x-bridge"`
	}
	if err := yaml.Unmarshal([]byte(read(t, compose)), &file); err != nil {
		t.Fatal(err)
	}
	if grace, err := time.ParseDuration(file.Bridge.Grace); err != nil || grace <= stopsWithin {
		t.Errorf("stop_grace_period is %q: pqd may take %s", file.Bridge.Grace, stopsWithin)
	}
	launch(t, file.Bridge.Environment).Stop(t)
}

// launch starts pqd with the environment of a container: what the Dockerfile sets
// and then env, but for places and addresses, which are the test's.
func launch(t *testing.T, env map[string]string) *testenv.Process {
	t.Helper()
	all := make(map[string]string)
	for _, line := range regexp.MustCompile(`(?m)^ENV (.*)$`).FindAllStringSubmatch(read(t, "../../Dockerfile"), -1) {
		for _, pair := range strings.Fields(line[1]) {
			name, value, _ := strings.Cut(pair, "=")
			all[name] = value
		}
	}
	if len(all) == 0 {
		t.Fatal("the Dockerfile sets nothing")
	}
	maps.Copy(all, env)
	checkVariables(t, slices.Collect(maps.Keys(all)))
	if !strings.HasPrefix(all["PQ_STORE"], "local:") && !strings.HasPrefix(all["PQ_STORE"], "fdb:") {
		t.Errorf("PQ_STORE is %q", all["PQ_STORE"])
	}
	delete(all, "PQ_STORE")
	all["PQ_HTTP"] = "127.0.0.1:0"
	if all["NATS_URL"] != "" {
		all["NATS_URL"] = testenv.NATS(t).URL()
	} else {
		all["PQ_LISTEN"] = "127.0.0.1:0"
	}
	var entries []string
	for name, value := range all {
		entries = append(entries, name+"="+value)
	}
	return testenv.Daemon(t, entries...)
}

// checkVariables knows the variables that pqd --help prints, and those of the
// libraries inside.
func checkVariables(t *testing.T, names []string) {
	t.Helper()
	_, help, _ := testenv.Run(t, nil, "--help")
	for _, name := range names {
		known := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` `).MatchString(help)
		if !known && name != "GOMEMLIMIT" {
			t.Errorf("%s is no setting of pqd", name)
		}
	}
}

func TestUnit(t *testing.T) {
	t.Parallel()
	settings := make(map[string]string)
	var variables []string
	for line := range bytes.Lines([]byte(read(t, unit))) {
		name, value, is := strings.Cut(strings.TrimSpace(string(line)), "=")
		if !is || strings.HasPrefix(name, "#") {
			continue
		}
		settings[name] = value
		if name == "Environment" {
			for pair := range strings.FieldsSeq(value) {
				variable, _, _ := strings.Cut(pair, "=")
				variables = append(variables, variable)
			}
		}
	}
	if len(variables) == 0 {
		t.Error("the unit sets nothing")
	}
	checkVariables(t, variables)
	if limit, err := time.ParseDuration(settings["TimeoutStopSec"] + "s"); err != nil || limit <= stopsWithin {
		t.Errorf("TimeoutStopSec=%s: pqd may take %s", settings["TimeoutStopSec"], stopsWithin)
	}
	if !strings.Contains(settings["Environment"], "PQ_STORE=local:/var/lib/"+settings["StateDirectory"]+" ") {
		t.Errorf("the store of %s is not the state directory", settings["Environment"])
	}
}
