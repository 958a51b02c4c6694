package operations_test

import (
	"bytes"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// The files in deploy agree with pqd: metrics, settings, pages, times.

const (
	dashboard = "../../deploy/helm/pqbridge/files/grafana-dashboard.json"
	alerts    = "../../deploy/helm/pqbridge/files/alerts.yml"
	unit      = "../../deploy/pqd.service"
	compose   = "../../docker-compose.yml"
	composed  = "../../deploy/compose-cluster.yml"
	operation = "../../docs/operations.md"
	runbook   = "../../docs/runbook.md"

	stopsWithin = 10 * time.Second
)

func TestCompose(t *testing.T) {
	t.Parallel()
	var file struct {
		Bridge struct {
			Environment map[string]string
			Grace       string `yaml:"stop_grace_period"`
		} `yaml:"x-bridge"`
	}
	if err := yaml.Unmarshal([]byte(pqd.Read(t, compose)), &file); err != nil {
		t.Fatal(err)
	}
	if grace, err := time.ParseDuration(file.Bridge.Grace); err != nil || grace <= stopsWithin {
		t.Errorf("stop_grace_period is %q: pqd may take %s", file.Bridge.Grace, stopsWithin)
	}
	launch(t, file.Bridge.Environment).Stop(t)
}

// Each container of the cluster is one of the nodes that the others know, and has settings
// that belong together: pqd refuses the first thing that the test does not have, a secret.
func TestComposeCluster(t *testing.T) {
	t.Parallel()
	var file struct {
		Services map[string]struct {
			Environment map[string]string
			Grace       string `yaml:"stop_grace_period"`
			Volumes     []string
		}
	}
	if err := yaml.Unmarshal([]byte(pqd.Read(t, composed)), &file); err != nil {
		t.Fatal(err)
	}
	nodes, volumes := 0, make(map[string]bool)
	for name, service := range file.Services {
		if service.Environment["PQ_CLUSTER"] == "" {
			continue
		}
		nodes++
		for _, volume := range service.Volumes {
			volumes[volume] = true
		}
		if grace, err := time.ParseDuration(service.Grace); err != nil || grace <= stopsWithin {
			t.Errorf("%s: stop_grace_period is %q: pqd may take %s", name, service.Grace, stopsWithin)
		}
		if service.Environment["PQ_NODE"] != name {
			t.Errorf("%s is node %q: expected the name by which others reach it", name, service.Environment["PQ_NODE"])
		}
		checkVariables(t, slices.Collect(maps.Keys(service.Environment)))
		var env []string
		for variable, value := range service.Environment {
			if !strings.HasPrefix(value, "/keys/") {
				env = append(env, variable+"="+value)
			}
		}
		if _, _, stderr := testenv.Run(t, env); !strings.Contains(stderr, "PQ_CLUSTER needs PQ_CLUSTER_SECRET") {
			t.Errorf("%s: pqd says %s", name, stderr)
		}
	}
	if nodes != 3 || len(volumes) != nodes+1 {
		t.Errorf("found %d nodes with the volumes %v: expected three, each with a volume of its own and that of the keys", nodes, slices.Collect(maps.Keys(volumes)))
	}
}

// imageVariables are what the Dockerfile sets.
func imageVariables(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, line := range regexp.MustCompile(`(?m)^ENV (.*)$`).FindAllStringSubmatch(pqd.Read(t, "../../Dockerfile"), -1) {
		for _, pair := range strings.Fields(line[1]) {
			name, value, _ := strings.Cut(pair, "=")
			all[name] = value
		}
	}
	if len(all) == 0 {
		t.Fatal("the Dockerfile sets nothing")
	}
	return all
}

// The image starts with the line that it begins with, and no other machine gets in without
// that login. Without it, pqd says what it needs.
func TestImage(t *testing.T) {
	t.Parallel()
	begins, _, _ := strings.Cut(pqd.Read(t, "../../Dockerfile"), "\nARG ")
	var env []string
	for name, value := range imageVariables(t) {
		if name == "PQ_STORE" {
			value = "local:" + filepath.Join(t.TempDir(), "data")
		}
		env = append(env, name+"="+strings.NewReplacer(":4222", ":0", ":8622", ":0").Replace(value))
	}
	code, _, stderr := testenv.Run(t, env)
	if code != 2 || !strings.Contains(stderr, "NATS_USER and NATS_PASSWORD") {
		t.Errorf("without a login: exit code %d, %s", code, stderr)
	}
	given := regexp.MustCompile(`-e (\w+)`).FindAllStringSubmatch(begins[strings.Index(begins, "docker run"):], 2)
	if len(given) != 2 {
		t.Fatalf("the Dockerfile shows %d variables for docker run, expected two", len(given))
	}
	const password = "something of 16 or more"
	for _, name := range given {
		env = append(env, name[1]+"="+password)
	}
	p := testenv.Daemon(t, env...)
	page := "http://127.0.0.1:" + p.HTTP[strings.LastIndex(p.HTTP, ":")+1:]
	if code, body := pqd.Get(t, page+"/"); code != 200 {
		t.Errorf("the console: %d %s", code, body)
	}
	for token, want := range map[string]int{"none of it": 401, password: 200} {
		if code, body := pqd.Ask(t, "GET", page+"/v1/overview", "", "Authorization", "Bearer "+token); code != want {
			t.Errorf("the console with the token %q: %d %s, expected %d", token, code, body, want)
		}
	}
	p.Stop(t)
}

// launch starts pqd with the environment of a container: what the Dockerfile sets
// and then env, but for places and addresses, which are the test's.
func launch(t *testing.T, env map[string]string) *testenv.Process {
	t.Helper()
	all := imageVariables(t)
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
	for line := range bytes.Lines([]byte(pqd.Read(t, unit))) {
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
