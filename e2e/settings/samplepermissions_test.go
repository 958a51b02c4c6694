package settings_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/subjects"
	"github.com/pqbridge/pqbridge/testenv"
)

// The sample configuration gives each user the permissions of package subjects, with
// which pqd and its clients work.
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
	pqd.Push(t, as("producer"), "jobs", 1, "x")
	if got := pqd.Pop(t, as("worker"), "jobs", "min"); got != "x" {
		t.Errorf("the worker popped %q", got)
	}
	requeueAs(t, p, as, "requeuer")
	p.Stop(t)
	if log := p.Log(); strings.Contains(log, "may do more") || strings.Contains(log, "violation") {
		t.Errorf("pqd complains of its permissions: %s", log)
	}
}

// requeueAs lets the worker give up an item, and a user list and requeue it with pq.
func requeueAs(t *testing.T, p *testenv.Process, as func(user string) *nats.Conn, user string) {
	t.Helper()
	pqd.Push(t, as("producer"), "jobs", 1, "gave up")
	worker := as("worker")
	pqd.Request(t, worker, pqd.Lease(t, worker, "jobs", "1h").Reply, "+TERM by hand")
	pq := func(args ...string) string {
		t.Helper()
		cmd := pqd.Command(t, testenv.Build(t, "cmd/pq"), args...)
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
	if got := pqd.Pop(t, worker, "jobs", "min"); got != "gave up" {
		t.Errorf("the worker popped %q", got)
	}
}
