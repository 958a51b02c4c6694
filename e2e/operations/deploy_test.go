package operations_test

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
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

// service is a container of a compose file.
type service struct {
	Image       string
	Build       any
	Profiles    []string
	Environment map[string]string
	Grace       string `yaml:"stop_grace_period"`
	Volumes     []string
	Ports       []string
}

// services are the containers of a compose file. No other machine reaches any of them, and each pqd may take its time to
// stop.
func services(t *testing.T, path string) map[string]service {
	t.Helper()
	var file struct{ Services map[string]service }
	if err := yaml.Unmarshal([]byte(pqd.Read(t, path)), &file); err != nil {
		t.Fatal(err)
	}
	for name, s := range file.Services {
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s: %s has the port %s: expected it on 127.0.0.1 alone", path, name, port)
			}
		}
		grace, err := time.ParseDuration(s.Grace)
		if strings.HasPrefix(s.Image, "pqbridge") && len(s.Ports) > 0 && (err != nil || grace <= stopsWithin) {
			t.Errorf("%s: %s has stop_grace_period %q: pqd may take %s", path, name, s.Grace, stopsWithin)
		}
	}
	return file.Services
}

// Without a profile there is one pqd, with its store in a volume; the profile has bridges.
func TestCompose(t *testing.T) {
	t.Parallel()
	bridges := 0
	for name, s := range services(t, compose) {
		switch {
		case s.Profiles == nil:
			if name != "pqd" || s.Environment["NATS_URL"] != "" || !slices.Equal(s.Volumes, []string{"pqd:/data"}) {
				t.Errorf("%s starts by default: %+v", name, s)
			}
			launch(t, s.Environment).Stop(t)
		case name == "nats" && s.Environment["NATS_PASSWORD"] == "":
			t.Error("Compose does not start nats anew with another password: it looks at the environment, and not at the content of a file")
		case s.Environment["PQ_STORE"] != "":
			if bridges++; bridges == 1 {
				launch(t, s.Environment).Stop(t)
			}
		}
	}
	if bridges != 2 {
		t.Errorf("found %d bridges, expected two", bridges)
	}
}

// Images that are built in different ways have different names: what was built last under a name is what starts.
func TestImagesHaveNames(t *testing.T) {
	t.Parallel()
	embedded := map[string]any{"ENGINES": "embedded"}
	for path, images := range map[string]map[string]any{
		compose:  {"pqbridge": map[string]any{"context": ".", "args": embedded}, "pqbridge-foundationdb": "."},
		composed: {"pqbridge-cluster": map[string]any{"context": "..", "args": embedded}},
	} {
		found := make(map[string]any)
		for name, s := range services(t, path) {
			if s.Build == nil {
				continue
			}
			if other, is := found[s.Image]; is && !reflect.DeepEqual(other, s.Build) {
				t.Errorf("%s: %s is built as %v and, for %s, as %v", path, s.Image, other, name, s.Build)
			}
			found[s.Image] = s.Build
		}
		if !reflect.DeepEqual(found, images) {
			t.Errorf("%s builds %v, expected %v", path, found, images)
		}
	}
	begins, _, _ := strings.Cut(pqd.Read(t, "../../Dockerfile"), "\nARG ")
	for _, command := range []string{"docker build --build-arg ENGINES=embedded -t pqbridge .\n", "docker build -t pqbridge-foundationdb .\n"} {
		if !strings.Contains(begins, command) {
			t.Errorf("the Dockerfile does not show %q", command)
		}
	}
}

// The image belongs to the user of a release's image, and nobody else reads its data: volumes move between the two.
func TestImageHasTheReleasesUser(t *testing.T) {
	t.Parallel()
	for _, part := range []string{fmt.Sprintf("useradd --uid %d --user-group --no-create-home ", imageUser(t)), "install -d -o pq -g pq -m 700 /data\n"} {
		if !strings.Contains(pqd.Read(t, "../../Dockerfile"), part) {
			t.Errorf("the Dockerfile lacks %q", part)
		}
	}
	if release := pqd.Read(t, "../../deploy/release/image.go"); !strings.Contains(release, fmt.Sprintf("imageUser = %d\n", imageUser(t))) || !strings.Contains(release, `dir("data", 0o700, imageUser)`) {
		t.Error("the image of a release has another user, or other data")
	}
}

// What git leaves out of the repository, docker leaves out of a build.
func TestDockerIgnoresWhatGitDoes(t *testing.T) {
	t.Parallel()
	ignored := strings.Fields(pqd.Read(t, "../../.dockerignore"))
	for pattern := range strings.FieldsSeq(pqd.Read(t, "../../.gitignore")) {
		from, rooted := strings.CutPrefix(strings.TrimSuffix(pattern, "/"), "/")
		anywhere := "**/" + from[strings.LastIndex(from, "/")+1:]
		if !slices.Contains(ignored, anywhere) && (!rooted || !slices.Contains(ignored, from)) {
			t.Errorf("%s is in .gitignore, and neither it nor %s in .dockerignore", pattern, anywhere)
		}
	}
}

// Each container of the cluster is one of the nodes that the others know, and has settings
// that belong together: pqd refuses the first thing that the test does not have, a secret.
func TestComposeCluster(t *testing.T) {
	t.Parallel()
	nodes, volumes := 0, make(map[string]bool)
	for name, service := range services(t, composed) {
		if service.Environment["PQ_CLUSTER"] == "" {
			continue
		}
		nodes++
		for _, volume := range service.Volumes {
			volumes[volume] = true
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
	if limit := regexp.MustCompile(`--stop-timeout (\d+)`).FindStringSubmatch(begins); limit == nil {
		t.Error("docker kills pqd before it may have stopped: expected --stop-timeout")
	} else if seconds, err := time.ParseDuration(limit[1] + "s"); err != nil || seconds <= stopsWithin {
		t.Errorf("--stop-timeout is %s: pqd may take %s", limit[1], stopsWithin)
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
