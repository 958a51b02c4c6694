package topologies_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"go.yaml.in/yaml/v3"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// tokenOf is the token of a tenant, or of the operator.
func tokenOf(name string) string { return "the HTTP token of " + name }

// web is a pqd whose tenants A and B have tokens. B has queues that are nobody else's business.
type web struct {
	*testing.T
	*testenv.Process
	dir    string
	nc     *nats.Conn // the operator's
	id     string     // of B's item
	ack    string     // of B's lease
	secret []string   // what no answer to A may have
}

// startWeb starts it, without queues.
func startWeb(t *testing.T, env ...string) *web {
	t.Helper()
	w := &web{T: t, dir: t.TempDir()}
	for _, name := range []string{"operator", "A", "B"} {
		pqd.Write(t, filepath.Join(w.dir, name), tokenOf(name)+"\n")
	}
	w.write("A", "B")
	w.Process = testenv.Daemon(t, append(env, "PQ_TENANTS="+filepath.Join(w.dir, "tenants.json"), "PQ_CONSOLE=admin", "PQ_CONSOLE_TOKEN="+filepath.Join(w.dir, "operator"))...)
	return w
}

func openWeb(t *testing.T) *web {
	t.Helper()
	w := startWeb(t, "PQ_PROFILE=true")
	w.nc = w.Connect(t)
	for _, m := range []struct{ subject, body string }{
		{"pq.A.jobs.push", "of A"}, {"pq.B.jobs.push", "payload-of-B"}, {"pq.B.only-of-B.push.3", "payload-of-B"}, {"pq.B.only-of-B.push", "payload-of-B"},
		{"pq.B.jobs.admin.schedule.nightly", `{"spec":"@every 1h","item":{"payload":"schedule-of-B"}}`},
	} {
		w.request(m.subject, m.body)
	}
	lease := nats.NewMsg("pq.B.only-of-B.pop.min")
	lease.Header = nats.Header{"PQ-Lease": {"1h"}, "PQ-Holder": {"holder-of-B"}}
	item, err := w.nc.RequestMsg(lease, testenv.Patience())
	if err != nil || item.Header.Get("PQ-Ack") == "" {
		t.Fatalf("%v, %v", item, err)
	}
	w.id, w.ack = item.Header.Get("PQ-ID"), item.Header.Get("PQ-Ack")
	var system struct {
		StoreID string `json:"store_id"`
	}
	if err := json.Unmarshal([]byte(w.request("pq._sys.info", "")), &system); err != nil || system.StoreID == "" {
		t.Fatal(err)
	}
	w.secret = []string{"payload-of-B", "holder-of-B", "schedule-of-B", `"B.jobs"`, system.StoreID}
	return w
}

// write writes PQ_TENANTS, in which these tenants have tokens.
func (w *web) write(names ...string) {
	w.Helper()
	all := make(map[string]any)
	for _, name := range names {
		all[name] = map[string]string{"token": filepath.Join(w.dir, name)}
	}
	text, err := json.Marshal(map[string]any{"tenants": all})
	if err != nil {
		w.Fatal(err)
	}
	pqd.Write(w.T, filepath.Join(w.dir, "tenants.json"), string(text))
}

// request asks over NATS, as the operator.
func (w *web) request(subject, body string) string {
	w.Helper()
	m, err := w.nc.Request(subject, []byte(body), testenv.Patience())
	if err != nil || m.Header.Get("Nats-Service-Error-Code") != "" {
		w.Fatalf("%s: %v, %v", subject, m, err)
	}
	return string(m.Data)
}

// ask asks over HTTP, as a tenant or the operator; "": without a token.
func (w *web) ask(as, method, path, body string) (int, string) {
	w.Helper()
	var header []string
	if as != "" {
		header = []string{"Authorization", "Bearer " + tokenOf(as)}
	}
	return pqd.Ask(w.T, method, w.HTTP+path, body, header...)
}

// watch returns what a stream says first of a path, or why there is no stream.
func (w *web) watch(as, path string) string {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), testenv.Patience())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "GET", w.HTTP+"/v1/watch?path="+url.QueryEscape(path), nil)
	if err != nil {
		w.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+tokenOf(as))
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		w.Fatal(err)
	}
	defer answer.Body.Close()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if text := lines.Text(); answer.StatusCode != 200 || strings.HasPrefix(text, "data:") {
			return fmt.Sprint(answer.StatusCode, " ", text)
		}
	}
	w.Fatalf("the stream of %s ended", path)
	return ""
}

// state is all that B has.
func (w *web) state() (all []string) {
	w.Helper()
	for _, queue := range []string{"jobs", "only-of-B"} {
		all = append(all, fieldsOf(w.request("pq.B."+queue+".info", "")), w.request("pq.B."+queue+".admin.config", ""), w.request("pq.B."+queue+".schedules", ""))
		for _, state := range []string{"ready", "leased"} {
			all = append(all, w.request("pq.B."+queue+".list", fmt.Sprintf(`{"state":%q,"bodies":true}`, state)))
		}
	}
	return append(all, w.request("pq.B._sys.list", ""))
}

// has says which of B's secrets a text has, "" for none.
func (w *web) has(text string) string {
	for _, secret := range w.secret {
		if strings.Contains(text, secret) {
			return secret
		}
	}
	return ""
}

// Over HTTP a tenant's token shows its own queues, under their own names, and the operator's those of all.
func TestTenantsOverHTTP(t *testing.T) {
	t.Parallel()
	w := openWeb(t)
	for _, c := range []struct {
		as, method, path, body string
		code                   int
		want                   string // what the answer has
	}{
		{"A", "GET", "/v1/access", "", 200, `{"access":"admin","prefix":"pq.A","tenant":"A"}`},
		{"operator", "GET", "/v1/access", "", 200, `{"access":"admin","prefix":"pq"}`},
		{"A", "GET", "/v1/queues", "", 200, `{"queues":["jobs"]}`},
		{"B", "GET", "/v1/queues", "", 200, `{"queues":["jobs","only-of-B"]}`},
		{"operator", "GET", "/v1/queues", "", 200, `{"queues":["A.jobs","B.jobs","B.only-of-B"]}`},
		{"A", "GET", "/v1/queues?total=true", "", 200, `{"total":1}`},
		{"A", "GET", "/v1/queues?prefix=B.", "", 200, `{"queues":[]}`},
		{"A", "GET", "/v1/overview", "", 200, `{"queues":[{"queue":"jobs","ready":1,`},
		{"A", "GET", "/v1/system", "", 200, `"prefix":"pq.A"`},
		{"A", "GET", "/v1/queues/jobs/peek", "", 200, `"payload":"of A"`},
		{"A", "GET", "/v1/queues/jobs/history", "", 200, `"push":`},
		{"A", "POST", "/v1/queues/mail/push", "of A", 200, `"stream":"mail"`},
		{"A", "GET", "/v1/queues/A.jobs", "", 400, "queue name"},
		{"A", "POST", "/v1/queues/only-of-B/settle?ack=" + w.ack, "+ACK", 400, "pq.A"},
		{"A", "GET", "/v1/queues/only-of-B", "", 404, "no queue only-of-B"},
		{"", "GET", "/v1/queues", "", 401, "token"},
		{"C", "GET", "/v1/queues", "", 401, "token"},
		{"", "GET", "/metrics", "", 401, "token"},
		{"", "GET", "/debug/pprof/", "", 401, "token"},
		{"A", "GET", "/debug/pprof/", "", 403, "operator"},
		{"operator", "GET", "/debug/pprof/", "", 200, "goroutine"},
		{"operator", "GET", "/metrics", "", 200, `queue="B.only-of-B"`},
		{"", "GET", "/readyz", "", 200, "ok"},
	} {
		if code, text := w.ask(c.as, c.method, c.path, c.body); code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("%s %s as %q: %d %s, expected %d and %s", c.method, c.path, c.as, code, text, c.code, c.want)
		}
	}
	var popped struct{ Ack string }
	if _, text := w.ask("A", "POST", "/v1/queues/mail/pop", ""); json.Unmarshal([]byte(text), &popped) != nil || !strings.HasPrefix(popped.Ack, "pq.A.mail.ack.") {
		t.Errorf("popped %s", text)
	}
	if code, text := w.ask("A", "POST", "/v1/queues/mail/settle?ack="+popped.Ack, "+ACK"); code != 200 || text != `{"queue":"mail"}`+"\n" {
		t.Errorf("settled: %d %s", code, text)
	}
	if text := w.watch("A", "/v1/queues"); !strings.Contains(text, `"body":{"queues":["jobs","mail"]}`) {
		t.Errorf("a stream says %s", text)
	}

	// Metrics have its own queues, without the store, and nothing of pqd.
	testenv.Await(t, "the metrics have the new queue", func() bool {
		_, text := w.ask("A", "GET", "/metrics", "")
		return strings.Contains(text, `pq_queue_pushed_total{queue="mail"} 1`)
	})
	_, text := w.ask("A", "GET", "/metrics", "")
	for _, want := range []string{`pq_queue_items{queue="jobs",state="ready"} 1`, `pq_tenant_requests_total{tenant="A"}`} {
		if !strings.Contains(text, want) {
			t.Errorf("A's metrics lack %s", want)
		}
	}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") && !strings.Contains(line, `queue="jobs"`) && !strings.Contains(line, `queue="mail"`) && !strings.Contains(line, `tenant="A"`) || w.has(line) != "" {
			t.Errorf("A's metrics have %s", line)
		}
	}

	// A token goes, and comes, with SIGHUP; a wrong file changes nothing.
	w.write("B")
	w.HangUp(t)
	testenv.Await(t, "A's token is refused", func() bool { code, _ := w.ask("A", "GET", "/v1/queues", ""); return code == 401 })
	pqd.Write(t, filepath.Join(w.dir, "A"), tokenOf("B")+"\n")
	w.write("A", "B")
	w.HangUp(t)
	testenv.Await(t, "pqd has read it", func() bool { return strings.Contains(w.Log(), "have the same token") })
	if code, text := w.ask("B", "GET", "/v1/queues", ""); code != 200 || !strings.Contains(text, "only-of-B") {
		t.Errorf("B: %d %s", code, text)
	}
	w.Stop(t)
}

// hostileNames are what A writes where a path has a name. Those that are names are of A's own queues.
func (w *web) hostileNames() []string {
	return []string{
		"only-of-B", "B.only-of-B", "B%2eonly-of-B", "B%252eonly-of-B", "B%2fonly-of-B", "..%2fB.only-of-B", "../B.only-of-B", "..", ".", "%2e%2e", "*", "%2a", ">", "%3e", "B.*",
		"jobs.info%20B.only-of-B", "_sys", "_sys.list", "jobs%0d%0apub", "jobs%00", "", "%ff", "A.jobs", "pq.B.only-of-B", "..B.only-of-B", w.id, "nightly",
	}
}

// isOwn reports whether A may have a queue of this name.
func isOwn(name string) bool {
	return !strings.HasPrefix(name, "_") && name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

// Whatever a tenant's user writes to whichever path of the description, nothing of another tenant, or of all, is in an answer, and
// nothing of another tenant changes.
func TestTenantAttacksOverHTTP(t *testing.T) {
	t.Parallel()
	w := openWeb(t)
	_, text := w.ask("A", "GET", "/v1/openapi.yaml", "")
	var described struct {
		Paths map[string]map[string]yaml.Node
	}
	if err := yaml.Unmarshal([]byte(text), &described); err != nil || len(described.Paths) < 30 {
		t.Fatalf("%d paths, %v", len(described.Paths), err)
	}
	before := w.state()
	ofAll := []string{"/v1/bridges", "/v1/cluster", "/v1/cluster/replace", "/v1/cluster/step-down", "/v1/history"}
	bodies := map[string][]string{
		"POST":  {"", "x", "{}", `{"all":true,"to":"B.jobs"}`, `{"where":{},"to":"B.jobs","priority":1}`, `[{"payload":"x","settle":"` + w.ack + `"}]`},
		"PATCH": {"{}", `{"dead_letter":"B.jobs"}`, `{"dead_letters_from":"B.jobs"}`, `{"hand_over":"B.jobs"}`, `{"spec":"@every 1s","item":{"payload":"x","headers":{"PQ-Settle":"` + w.ack + `"}}}`},
	}
	for _, path := range slices.Sorted(maps.Keys(described.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(described.Paths[path])) {
			var operation struct {
				Body any `yaml:"requestBody"`
			}
			node := described.Paths[path][method]
			if method == "parameters" || path == "/v1/watch" {
				continue
			}
			if err := node.Decode(&operation); err != nil {
				t.Fatal(err)
			}
			method = strings.ToUpper(method)
			texts := []string{""}
			if operation.Body != nil {
				texts = bodies[method]
			}
			filled := w.filled(path)
			for _, at := range slices.Sorted(maps.Keys(filled)) {
				served := filled[at]
				for _, body := range texts {
					code, text := w.ask("A", method, at, body)
					if secret := w.has(text); secret != "" || slices.Contains(ofAll, path) && code != 403 || code < 400 && !served {
						t.Errorf("%s %s %s: %d %s has %q", method, at, body, code, text, secret)
					}
				}
				if method == "GET" && strings.Contains(at, "B.only") {
					if text := w.watch("A", at); w.has(text) != "" || !served && !strings.HasPrefix(text, "4") && !strings.Contains(text, `"status":4`) {
						t.Errorf("a stream of %s: %s", at, text)
					}
				}
			}
			if method == "GET" && !strings.Contains(path, "{") {
				if text := w.watch("A", path); w.has(text) != "" || slices.Contains(ofAll, path) && !strings.HasPrefix(text, "403") {
					t.Errorf("a stream of %s: %s", path, text)
				}
			}
		}
	}
	for _, query := range []string{
		"/v1/queues?prefix=B.", "/v1/queues?after=%00", "/v1/queues?after=A.zzz", "/v1/queues?prefix=..", "/v1/overview?prefix=B", "/v1/overview?after=A.jobs", "/v1/queues?total=true",
		"/v1/queues/jobs/items?after=" + w.id, "/v1/queues/jobs/items?holder=holder-of-B", "/v1/queues/jobs/items?state=leased", "/metrics?name[]=pq_queue_items", "//v1/queues/B.jobs", "/v1//queues/B.jobs", "/v1/../v1/queues/B.jobs",
	} {
		if _, text := w.ask("A", "GET", query, ""); w.has(text) != "" {
			t.Errorf("%s: %s", query, text)
		}
	}
	_, own := w.ask("A", "GET", "/v1/queues", "")
	for _, c := range []struct {
		code          int // of the answer
		header, value string
	}{
		{200, "X-Original-URL", "/v1/queues/B.jobs"}, {200, "X-Forwarded-Host", "B"}, {200, "Cookie", "pqbridge-token=" + tokenOf("B")}, {200, "Proxy-Authorization", "Bearer " + tokenOf("B")},
		{400, "PQ-Tenant", "B"}, {400, "Nats-Msg-Id", "x"}, {421, "Host", "pq.B"}, {403, "Origin", "http://pq.B"}, {403, "Sec-Fetch-Site", "same-site"},
		{401, "Authorization", "Bearer " + tokenOf("A") + ", Bearer " + tokenOf("B")}, {401, "Authorization", tokenOf("B")}, {401, "Authorization", "Bearer"}, {401, "Authorization", "Bearer B"},
		{401, "Authorization", fmt.Sprintf("Bearer %x", sha256.Sum256([]byte(tokenOf("B"))))}, {401, "Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("B:"+tokenOf("B")))},
	} {
		code, text := pqd.Ask(t, "GET", w.HTTP+"/v1/queues", "", "Authorization", "Bearer "+tokenOf("A"), c.header, c.value)
		if code != c.code || code == 200 && text != own {
			t.Errorf("%s: %s: %d %s, expected %d", c.header, c.value, code, text, c.code)
		}
	}
	for _, query := range []string{
		"/v1/queues/jobs/push?header=PQ-Settle:" + w.ack, "/v1/queues/jobs/push?header=X:%0d%0aPQ-Settle:" + w.ack, "/v1/queues/jobs/push?tenant=B",
		"/v1/queues/jobs/push?settle=" + w.ack, "/v1/queues/only-of-B/settle?ack=" + w.ack, "/v1/queues/jobs/settle?ack=" + w.ack, "/v1/queues/jobs/settle?ack=" + strings.Replace(w.ack, "pq.B.only-of-B", "pq.A.jobs", 1),
		"/v1/queues/B.only-of-B/settle?ack=" + w.ack, "/v1/queues/jobs/settle?ack=pq.B.jobs.purge", "/v1/queues/jobs/settle?ack=_INBOX.x", "/v1/queues/jobs/items/" + w.id + "/requeue?to=B.jobs",
	} {
		if code, text := w.ask("A", "POST", query, "+ACK"); code < 400 || w.has(text) != "" {
			t.Errorf("%s: %d %s", query, code, text)
		}
	}
	if after := w.state(); !slices.Equal(before, after) {
		t.Errorf("B had\n%s\nand has\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
	if code, text := w.ask("B", "POST", "/v1/queues/only-of-B/settle?ack="+w.ack, "+ACK"); code != 200 {
		t.Errorf("B settles its lease: %d %s", code, text)
	}
	w.Stop(t)
}

// A tenant's token gives no right that the NATS user of HTTP does not have: here for one queue of one tenant.
func TestRightsOfTenantsOverHTTP(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "nats.conf")
	pqd.Write(t, config, `
		listen: "127.0.0.1:-1"
		authorization { users: [
			{user: pqd, password: p}
			{user: web, password: p, permissions: {publish: ["pq.A.jobs.>"], subscribe: ["_INBOX.web.>"]}}
		]}`)
	w := startWeb(t, "PQ_NATS_CONFIG="+config, "PQ_LISTEN=", "NATS_USER=pqd", "NATS_PASSWORD=p", "PQ_CONSOLE_USER=web", "PQ_CONSOLE_PASSWORD=p", "PQ_CONSOLE_INBOX=_INBOX.web")
	w.nc = w.Connect(t, nats.UserInfo("pqd", "p"))
	for _, queue := range []string{"A.jobs", "A.mail", "B.jobs"} {
		w.request("pq."+queue+".push", "x")
	}
	for _, c := range []struct {
		as, path string
		code     int
	}{
		{"A", "jobs", 200}, {"A", "mail", 403}, {"B", "jobs", 403}, {"operator", "A.jobs", 200}, {"operator", "A.mail", 403}, {"operator", "B.jobs", 403},
	} {
		for method, path := range map[string]string{"GET": "/v1/queues/" + c.path, "POST": "/v1/queues/" + c.path + "/push"} {
			if code, text := w.ask(c.as, method, path, ""); code != c.code {
				t.Errorf("%s %s as %s: %d %s, expected %d", method, path, c.as, code, text, c.code)
			}
		}
	}
	w.Stop(t)
}

// filled are a path with hostile names for its segments, and whether A may have what it leads to.
func (w *web) filled(path string) map[string]bool {
	if !strings.Contains(path, "{") {
		return map[string]bool{path: true}
	}
	all := make(map[string]bool)
	for _, name := range w.hostileNames() {
		for _, queue := range []string{name, "jobs"} {
			segments := strings.Split(strings.Replace(path, "{queue}", queue, 1), "/")
			for i, segment := range segments {
				if strings.HasPrefix(segment, "{") {
					segments[i] = name
				}
			}
			all[strings.Join(segments, "/")] = isOwn(queue)
		}
	}
	return all
}
