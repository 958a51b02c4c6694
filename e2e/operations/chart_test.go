package operations_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.yaml.in/yaml/v3"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// The Helm chart agrees with pqd: what it renders for each of its examples. make lint holds the same to
// the schemas of Kubernetes and of the operators.

const (
	chart    = "../../deploy/helm/pqbridge"
	examples = "../../deploy/helm/examples"
	keda     = "../../deploy/keda.yaml"

	kubernetes = "../../docs/kubernetes.md"

	ofSingle, ofCluster, ofBridges, ofAll = "single.yaml", "cluster.yaml", "foundationdb.yaml", "everything.yaml"
)

// object is a Kubernetes object, with the fields that these tests read.
type object struct {
	Kind     string
	Metadata struct {
		Name   string
		Labels map[string]string
	}
	Data map[string]string // of a ConfigMap
	Spec struct {
		Replicas    int
		ServiceName string `yaml:"serviceName"`
		Template    struct {
			Metadata struct{ Labels map[string]string }
			Spec     pod
		}
		MaxUnavailable *int `yaml:"maxUnavailable"` // of a PodDisruptionBudget

		Selector  any // of a Service: labels; of others: matchLabels and matchExpressions
		Ports     []servicePort
		ClusterIP string `yaml:"clusterIP"`
		NotReady  bool   `yaml:"publishNotReadyAddresses"`
		Groups    any    // of a PrometheusRule
		Endpoints []struct{ Port, Path string }
		DNSNames  []string `yaml:"dnsNames"` // of a Certificate
		Ingress   []struct {
			Ports []struct{ Port string }
		}
		Egress []struct {
			To    []any
			Ports []struct{ Port string }
		}
	}
}

type servicePort struct {
	Name       string
	Port       int
	TargetPort string `yaml:"targetPort"`
}

type pod struct {
	Grace    int         `yaml:"terminationGracePeriodSeconds"`
	Token    *bool       `yaml:"automountServiceAccountToken"`
	Security confinement `yaml:"securityContext"`
	Affinity map[string]any
	Spread   []struct {
		Key string `yaml:"topologyKey"`
	} `yaml:"topologySpreadConstraints"`
	InitContainers []container `yaml:"initContainers"`
	Containers     []container
	Volumes        []struct {
		Name   string
		Secret *struct{}
	}
}

type confinement struct {
	NonRoot      bool `yaml:"runAsNonRoot"`
	User         int  `yaml:"runAsUser"`
	ReadOnly     bool `yaml:"readOnlyRootFilesystem"`
	Capabilities struct{ Drop []string }
}

type container struct {
	Image         string
	Command, Args []string
	Env           []variable
	Ports         []struct {
		Name          string
		ContainerPort int `yaml:"containerPort"`
	}
	Resources struct{ Limits struct{ Memory string } }
	Security  confinement `yaml:"securityContext"`
	Startup   probe       `yaml:"startupProbe"`
	Liveness  probe       `yaml:"livenessProbe"`
	Readiness probe       `yaml:"readinessProbe"`
}

type variable struct {
	Name, Value string
	ValueFrom   struct {
		Secret struct{ Name, Key string } `yaml:"secretKeyRef"`
	} `yaml:"valueFrom"`
}

// value is what the container sees, with something for what a Secret has.
func (v variable) value() string {
	if v.ValueFrom.Secret.Key != "" {
		return "something of 16 or more"
	}
	return v.Value
}

type probe struct {
	HTTP struct{ Path, Port, Scheme string } `yaml:"httpGet"`
}

// overloadPeak is what pqd needs under overload, docs/runbook.md says.
const overloadPeak = 758 << 20

// helm runs helm, which go tool builds once.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var stderr bytes.Buffer
	cmd := pqd.Compiler(t, "go", append([]string{"tool", "-modfile=../../.ci/kubernetes.mod", "helm"}, args...)...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("helm %q: %w\n%s", args, err, stderr.String())
	}
	return string(out), nil
}

// rendered are the objects of an example, by their kinds and names, with further values.
func rendered(t *testing.T, example string, set ...string) map[string]object {
	t.Helper()
	args := []string{"template", "pqd", chart, "--namespace", "queues", "-f", filepath.Join(examples, example)}
	for _, value := range set {
		args = append(args, "--set", value)
	}
	text, err := helm(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]object)
	for decoder := yaml.NewDecoder(strings.NewReader(text)); ; {
		var o object
		if err := decoder.Decode(&o); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%s: %v", example, err)
		}
		all[o.Kind+" "+o.Metadata.Name] = o
	}
}

// workload is the only object with pods.
func workload(t *testing.T, objects map[string]object) object {
	t.Helper()
	var found []object
	for _, o := range objects {
		if len(o.Spec.Template.Spec.Containers) > 0 {
			found = append(found, o)
		}
	}
	if len(found) != 1 || len(found[0].Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("found %d objects with pods, expected one, with one container", len(found))
	}
	return found[0]
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

// A pod has the memory that overload needs, and GOMEMLIMIT is less than that. pqd stops in time. It has
// no rights that it does not need, and no secret where everybody reads it. A machine can be drained, and
// two pods do not go at once.
func TestChartPods(t *testing.T) {
	nightly.Only(t, "it renders the chart")
	t.Parallel()
	if !strings.Contains(pqd.Read(t, runbook), fmt.Sprintf("pqd needed %d MiB at most", overloadPeak>>20)) {
		t.Errorf("%s says something else than %d MiB", runbook, overloadPeak>>20)
	}
	replicas := map[string]int{ofSingle: 1, ofCluster: 3, ofBridges: 2, ofAll: 5}
	for example, replicas := range replicas {
		t.Run(example, func(t *testing.T) {
			t.Parallel()
			objects := rendered(t, example)
			w := workload(t, objects)
			p := w.Spec.Template.Spec
			c := p.Containers[0]
			if w.Spec.Replicas != replicas {
				t.Errorf("%d replicas, expected %d", w.Spec.Replicas, replicas)
			}
			if budget, is := objects["PodDisruptionBudget pqd"]; is != (replicas > 1) || is && (budget.Spec.MaxUnavailable == nil || *budget.Spec.MaxUnavailable != 1) {
				t.Errorf("the disruption budget is %+v, expected maxUnavailable 1, and none for one replica", budget.Spec)
			}
			if spread := len(p.Spread) == 1 && p.Spread[0].Key == "topology.kubernetes.io/zone" && p.Affinity["podAntiAffinity"] != nil; spread != (replicas > 1) {
				t.Errorf("the pods are spread by %v and %v: expected over zones and machines", p.Spread, p.Affinity)
			}
			if grace := time.Duration(p.Grace) * time.Second; grace <= stopsWithin {
				t.Errorf("it is killed after %s: pqd may take %s", grace, stopsWithin)
			}
			env := variables(c)
			if hard, soft := bytesOf(t, c.Resources.Limits.Memory), bytesOf(t, env["GOMEMLIMIT"]); hard < overloadPeak*5/4 || soft > hard*3/4 {
				t.Errorf("the limit is %d bytes and GOMEMLIMIT %d: expected room for %d, and a quarter beside Go", hard, soft, overloadPeak)
			}
			if !p.Security.NonRoot || p.Security.User != imageUser(t) || p.Token == nil || *p.Token {
				t.Errorf("the pod's rights are %+v, token %v", p.Security, p.Token)
			}
			for _, c := range append(p.InitContainers, c) {
				if !c.Security.ReadOnly || !slices.Equal(c.Security.Capabilities.Drop, []string{"ALL"}) {
					t.Errorf("%q: its rights are %+v", c.Command, c.Security)
				}
				if len(c.Args) > 0 {
					t.Errorf("it has the arguments %q: expected settings", c.Args)
				}
			}
			for _, v := range c.Env {
				if regexp.MustCompile(`PASSWORD|TOKEN$|HEADERS|_SEED`).MatchString(v.Name) && v.ValueFrom.Secret.Name == "" && !strings.HasPrefix(v.Value, "/etc/pqd/") {
					t.Errorf("%s is %q: expected it from a Secret", v.Name, v.Value)
				}
			}
		})
	}
}

// imageUser is the user of the images.
func imageUser(t *testing.T) int {
	t.Helper()
	found := regexp.MustCompile(`useradd .*--uid (\d+)`).FindStringSubmatch(pqd.Read(t, "../../Dockerfile"))
	if found == nil {
		t.Fatal("the Dockerfile has no user")
	}
	user, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return user
}

func variables(c container) map[string]string {
	env := make(map[string]string)
	for _, v := range c.Env {
		env[v.Name] = v.value()
	}
	return env
}

// Every variable of the chart is a setting of pqd, or of a library in it, and stands there once. Ports
// of containers, Services, probes, policies and settings are the same, and a file that a setting names is
// one of a Secret.
func TestChartSettings(t *testing.T) {
	nightly.Only(t, "it renders the chart")
	t.Parallel()
	for _, example := range []string{ofSingle, ofCluster, ofBridges, ofAll} {
		t.Run(example, func(t *testing.T) {
			t.Parallel()
			objects := rendered(t, example)
			p := workload(t, objects).Spec.Template.Spec
			c := p.Containers[0]
			env := variables(c)
			if len(env) != len(c.Env) {
				t.Error("a variable stands there twice")
			}
			checkVariables(t, slices.DeleteFunc(slices.Collect(maps.Keys(env)), func(name string) bool { return strings.HasPrefix(name, "OTEL_") }))
			ports := map[string]int{"http": portOf(t, env["PQ_HTTP"])}
			if env["NATS_URL"] == "" {
				ports["nats"] = portOf(t, env["PQ_LISTEN"])
			}
			if env["PQ_CLUSTER"] != "" {
				ports["routes"] = 6222 // unless PQ_CLUSTER has others
			}
			found := make(map[string]int)
			for _, port := range c.Ports {
				found[port.Name] = port.ContainerPort
			}
			if !maps.Equal(found, ports) {
				t.Errorf("the container has the ports %v, expected %v", found, ports)
			}
			checkPorts(t, objects, ports)
			scheme := "HTTP"
			if env["PQ_HTTP_CERT"] != "" {
				scheme = "HTTPS"
			}
			for path, of := range map[string]probe{"/healthz": c.Startup, "/healthz ": c.Liveness, "/readyz": c.Readiness} {
				if of.HTTP.Path != strings.TrimSpace(path) || of.HTTP.Port != "http" || of.HTTP.Scheme != scheme {
					t.Errorf("a probe is %+v, expected %s by %s", of.HTTP, path, scheme)
				}
			}
			mounted := make(map[string]bool)
			for _, volume := range p.Volumes {
				mounted[volume.Name] = volume.Secret != nil
			}
			for name, value := range env {
				if dir, is := strings.CutPrefix(filepath.Dir(value), "/etc/pqd/"); is && !mounted[strings.ReplaceAll(dir, "/", "-")] {
					t.Errorf("%s is %s: no Secret is there", name, value)
				}
			}
		})
	}
}

func checkPorts(t *testing.T, objects map[string]object, ports map[string]int) {
	t.Helper()
	services := 0
	for what, o := range objects {
		switch o.Kind {
		case "Service":
			services++
			for _, port := range o.Spec.Ports {
				if ports[port.TargetPort] != port.Port || port.Name != port.TargetPort {
					t.Errorf("%s has the port %+v, the container %v", what, port, ports)
				}
			}
		case "NetworkPolicy":
			for _, rule := range o.Spec.Ingress {
				for _, port := range rule.Ports {
					if ports[port.Port] == 0 {
						t.Errorf("%s is about the port %s, the container has %v", what, port.Port, ports)
					}
				}
			}
			if len(o.Spec.Ingress) != len(ports) {
				t.Errorf("%s has %d rules for the ports %v", what, len(o.Spec.Ingress), ports)
			}
		}
	}
	if services == 0 {
		t.Error("there is no Service")
	}
}

func portOf(t *testing.T, address string) int {
	t.Helper()
	port, err := strconv.Atoi(address[strings.LastIndex(address, ":")+1:])
	if err != nil {
		t.Fatalf("%q: %v", address, err)
	}
	return port
}

// pqd runs with the settings of one pqd, and of a bridge, on the store of this test, and answers the
// probes, also under the names of the Service.
func TestChartStarts(t *testing.T) {
	nightly.Only(t, "it renders the chart")
	t.Parallel()
	for _, example := range []string{ofSingle, ofBridges} {
		t.Run(example, func(t *testing.T) {
			t.Parallel()
			c := workload(t, rendered(t, example)).Spec.Template.Spec.Containers[0]
			p := launch(t, variables(c))
			for _, path := range []string{c.Startup.HTTP.Path, c.Liveness.HTTP.Path, c.Readiness.HTTP.Path} {
				if code, body := pqd.Get(t, p.HTTP+path); code != 200 {
					t.Errorf("the probe %q: %d %s", path, code, body)
				}
			}
			for host, want := range map[string]int{"pqd.queues": 200, "pqd.queues.svc": 200, "pqd.queues.svc.cluster.local:8622": 200, "pqd.others.svc": 421} {
				if code := codeAs(t, p.HTTP+"/metrics", host); code != want {
					t.Errorf("/metrics as %s: %d, expected %d", host, code, want)
				}
			}
			p.Stop(t)
		})
	}
}

// KEDA can scale workers by what pqd itself says, with the token: the fields that the page names are
// numbers there.
func TestScalingByHTTP(t *testing.T) {
	nightly.Only(t, "it renders the chart")
	t.Parallel()
	env := variables(workload(t, rendered(t, ofSingle)).Spec.Template.Spec.Containers[0])
	p := launch(t, env)
	nc := p.Connect(t, nats.UserInfo(env["NATS_USER"], env["NATS_PASSWORD"]))
	pqd.Push(t, nc, "jobs", 5, "an item")
	pqd.Push(t, nc, "jobs", 5, "a leased one")
	if _, err := nc.RequestMsg(&nats.Msg{Subject: "pq.jobs.pop.min", Header: nats.Header{"PQ-Lease": {"1h"}}}, testenv.Patience()); err != nil {
		t.Fatal(err)
	}
	path := regexp.MustCompile(`url: "http://pqd\.default\.svc:8622(/[^"]*)"`).FindStringSubmatch(pqd.Read(t, kubernetes))
	fields := regexp.MustCompile(`valueLocation: (\w+)`).FindAllStringSubmatch(pqd.Read(t, kubernetes), -1)
	if path == nil || len(fields) != 3 {
		t.Fatalf("%s names the path %q and the fields %q", kubernetes, path, fields)
	}
	code, body := pqd.Ask(t, "GET", p.HTTP+path[1], "", "Authorization", "Bearer "+env["NATS_PASSWORD"])
	var said map[string]any
	if err := json.Unmarshal([]byte(body), &said); err != nil || code != 200 {
		t.Fatalf("%s: %d %s %v", path[1], code, body, err)
	}
	for _, field := range fields {
		if number, is := said[field[1]].(float64); !is || number <= 0 {
			t.Errorf("%s is %v, expected a number of the items that are there", field[1], said[field[1]])
		}
	}
	p.Stop(t)
}

// codeAs is the status of a page under a host name.
func codeAs(t *testing.T, page, host string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, page, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = host
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode
}

// Each pod of a cluster is one of the nodes that the others know, under the name that the Service without
// an address gives it, whether it is ready or not, and that is in the certificate. Its settings belong
// together: pqd refuses the first thing that the test does not have, a secret.
func TestChartCluster(t *testing.T) {
	nightly.Only(t, "it renders the chart")
	t.Parallel()
	for _, example := range []string{ofCluster, ofAll} {
		t.Run(example, func(t *testing.T) {
			t.Parallel()
			objects := rendered(t, example)
			w := workload(t, objects)
			nodes := objects["Service "+w.Spec.ServiceName]
			if nodes.Spec.ClusterIP != "None" || !nodes.Spec.NotReady {
				t.Errorf("the Service of the nodes, %s, is %+v", w.Spec.ServiceName, nodes.Spec)
			}
			if selector, labels := labelsOf(nodes.Spec.Selector), w.Spec.Template.Metadata.Labels; len(selector) == 0 || !includes(labels, selector) {
				t.Errorf("the Service selects %v, the pods have %v", selector, labels)
			}
			if certificate, is := objects["Certificate pqd-routes"]; is && !slices.Equal(certificate.Spec.DNSNames, []string{"*." + w.Spec.ServiceName}) {
				t.Errorf("the certificate is for %q", certificate.Spec.DNSNames)
			}
			var members []string
			for i := range w.Spec.Replicas {
				members = append(members, fmt.Sprintf("%s-%d=%s-%d.%s", w.Metadata.Name, i, w.Metadata.Name, i, w.Spec.ServiceName))
			}
			env := variables(w.Spec.Template.Spec.Containers[0])
			if found := strings.Split(env["PQ_CLUSTER"], ","); !slices.Equal(found, members) {
				t.Errorf("PQ_CLUSTER is %q, expected %q", found, members)
			}
			var given []string
			for name, value := range env {
				if !strings.HasPrefix(value, "/etc/") && name != "PQ_NODE" {
					given = append(given, name+"="+value)
				}
			}
			for i := range w.Spec.Replicas {
				node := fmt.Sprintf("PQ_NODE=%s-%d", w.Metadata.Name, i)
				if _, _, stderr := testenv.Run(t, append(given, node)); !strings.Contains(stderr, "PQ_CLUSTER needs PQ_CLUSTER_SECRET") {
					t.Errorf("%s: pqd says %s", node, stderr)
				}
			}
		})
	}
}

// labelsOf are those of a selector, of either form.
func labelsOf(selector any) map[string]string {
	labels := make(map[string]string)
	fields, _ := selector.(map[string]any)
	if match, is := fields["matchLabels"].(map[string]any); is {
		fields = match
	}
	for name, value := range fields {
		if text, is := value.(string); is {
			labels[name] = text
		}
	}
	return labels
}

func includes(all, some map[string]string) bool {
	for name, value := range some {
		if all[name] != value {
			return false
		}
	}
	return true
}

// The alerts and the dashboard of the chart are those of the files in deploy, and Prometheus finds each
// pod once.
func TestChartMonitoring(t *testing.T) {
	nightly.Only(t, "it renders the chart")
	t.Parallel()
	objects := rendered(t, ofCluster)
	var rules struct{ Groups any }
	if err := yaml.Unmarshal([]byte(pqd.Read(t, alerts)), &rules); err != nil {
		t.Fatal(err)
	}
	if found := objects["PrometheusRule pqd"].Spec.Groups; found == nil || !reflect.DeepEqual(found, rules.Groups) {
		t.Errorf("the rules are not those of %s", alerts)
	}
	if found := objects["ConfigMap pqd-dashboard"].Data["pqbridge.json"]; found != pqd.Read(t, dashboard) {
		t.Errorf("the dashboard is not that of %s", dashboard)
	}
	monitor := objects["ServiceMonitor pqd"]
	if len(monitor.Spec.Endpoints) != 1 || monitor.Spec.Endpoints[0].Port != "http" || monitor.Spec.Endpoints[0].Path != "/metrics" {
		t.Errorf("Prometheus scrapes %+v", monitor.Spec.Endpoints)
	}
	without := regexp.MustCompile(`key:(\S+) operator:DoesNotExist`).FindStringSubmatch(fmt.Sprint(monitor.Spec.Selector))
	var scraped []string
	for what, o := range objects {
		if o.Kind == "Service" && includes(o.Metadata.Labels, labelsOf(monitor.Spec.Selector)) && without != nil && o.Metadata.Labels[without[1]] == "" {
			scraped = append(scraped, what)
		}
	}
	if !slices.Equal(scraped, []string{"Service pqd"}) {
		t.Errorf("Prometheus scrapes %q: expected one Service", scraped)
	}
}

// What pqd would refuse, helm refuses before anything is installed, and says what it expects.
func TestChartRefuses(t *testing.T) {
	nightly.Only(t, "it renders the chart")
	t.Parallel()
	for set, says := range map[string]string{
		"mode=single": "pqd needs a login",
		"mode=single,nats.credentialsSecret.name=a":                                                                               "the server inside needs nats.passwordSecret.name",
		"mode=single,nats.passwordSecret.name=a,replicas=2":                                                                       "a store belongs to one process",
		"mode=cluster,nats.passwordSecret.name=a":                                                                                 "cluster.sharedSecret.name",
		"mode=cluster,nats.passwordSecret.name=a,cluster.sharedSecret.name=a":                                                     "cluster.tls.certManager.issuer.name",
		"mode=cluster,nats.passwordSecret.name=a,replicas=4":                                                                      "odd number",
		"mode=cluster,nats.passwordSecret.name=a,nats.url=nats://nats":                                                            "leave nats.url empty",
		"mode=foundationdb,nats.passwordSecret.name=a":                                                                            "needs nats.url",
		"mode=foundationdb,nats.passwordSecret.name=a,nats.url=nats://nats":                                                       "foundationdb.configMap.name",
		"mode=foundationdb,nats.passwordSecret.name=a,nats.url=nats://nats,foundationdb.secret.name=a,networkPolicy.enabled=true": "networkPolicy.egress is empty",
		"nats.passwordSecret.name=a,settings.PQ_REMOTES=/etc/pqd/files/a/b,networkPolicy.enabled=true":                            "networkPolicy.egress is empty",
		"mode=several":                                              "mode",
		"nats.passwordSecret.name=a,replica=3":                      "replica",
		"nats.passwordSecret.name=a,settings.NATS_PASSWORD=x":       "NATS_PASSWORD",
		"nats.passwordSecret.name=a,settings.PQ_CONSOLE_PASSWORD=x": "PQ_CONSOLE_PASSWORD",
		"nats.passwordSecret.name=a,settings.PQ_STORE=x":            "PQ_STORE",
		"nats.passwordSecret.name=a,settings.PQ_MIN_FREE=nonsense":  "PQ_MIN_FREE",
		"nats.passwordSecret.name=a,settings.PQ_SYNC=maybe":         "PQ_SYNC",
		"nats.passwordSecret.name=a,env[0].name=PQ_STORE":           "env",
		"nats.passwordSecret.name=a,fileSecrets[0]=A/b":             "fileSecrets",
		"nats.passwordSecret.name=a,resources.limits.memory=512Mi":  "goMemLimit is 1000MiB, and resources.limits.memory 512Mi",
		"nats.passwordSecret.name=a,resources.limits.memory=1G":     "goMemLimit is 1000MiB",
		"nats.passwordSecret.name=a,goMemLimit=2GiB":                "goMemLimit is 2GiB, and resources.limits.memory 1536Mi",
		"mode=cluster,nats.passwordSecret.name=a,cluster.sharedSecret.name=a,cluster.tls.secretName=a,cluster.maxBytes=100G,storage.size=30Gi": "cluster.maxBytes is 100G, and storage.size 30Gi",
		"mode=cluster,nats.passwordSecret.name=a,cluster.sharedSecret.name=a,cluster.tls.secretName=a,cluster.maxBytes=30G,storage.size=30G":   "cluster.maxBytes is 30G, and storage.size 30G",
	} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			if _, err := helm(t, "template", "pqd", chart, "--set", set); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("helm says %v, expected %q", err, says)
			}
		})
	}
}

// A pod reaches names, the other nodes, its NATS servers and what the values add, and nothing else.
func TestChartEgress(t *testing.T) {
	nightly.Only(t, "it renders the chart")
	t.Parallel()
	const names = "53 5353 53 5353"
	for _, c := range []struct {
		example string
		set     []string
		ports   []string // of each rule; with those whom it names
	}{
		{ofSingle, []string{"networkPolicy.enabled=true"}, []string{names}},
		{ofSingle, []string{"networkPolicy.enabled=true", `nats.url=nats://a:4223\, tls://b:4443/\,wss://c\,d`}, []string{names, "4223 4443 443 4222"}},
		{ofBridges, []string{"networkPolicy.enabled=true", "networkPolicy.egress[0].ports[0].port=4500"}, []string{names, "4222", "4500"}},
		{ofAll, nil, []string{names, "6222 to 1", "4222 to 1", "4318 to 1"}},
	} {
		t.Run(fmt.Sprint(c.example, c.set), func(t *testing.T) {
			t.Parallel()
			var found []string
			for _, rule := range rendered(t, c.example, c.set...)["NetworkPolicy pqd"].Spec.Egress {
				var ports []string
				for _, port := range rule.Ports {
					ports = append(ports, port.Port)
				}
				if text := strings.Join(ports, " "); len(rule.To) > 0 {
					found = append(found, fmt.Sprintf("%s to %d", text, len(rule.To)))
				} else {
					found = append(found, text)
				}
			}
			if !slices.Equal(found, c.ports) {
				t.Errorf("rules for %q, expected %q", found, c.ports)
			}
		})
	}
}

// The chart has the version of the newest release in the changelog.
func TestChartVersion(t *testing.T) {
	nightly.Only(t, "it renders the chart")
	t.Parallel()
	newest := regexp.MustCompile(`(?m)^## (\d+\.\d+\.\d+)`).FindStringSubmatch(pqd.Read(t, "../../CHANGELOG.md"))
	if newest == nil {
		t.Fatal("the changelog has no release")
	}
	var about struct {
		Version    string
		AppVersion string `yaml:"appVersion"`
	}
	if err := yaml.Unmarshal([]byte(pqd.Read(t, chart+"/Chart.yaml")), &about); err != nil {
		t.Fatal(err)
	}
	if about.Version != newest[1] || about.AppVersion != newest[1] {
		t.Errorf("the chart's versions are %+v, that of the changelog is %s", about, newest[1])
	}
}
