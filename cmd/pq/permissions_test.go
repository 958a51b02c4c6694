package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/testenv"
)

// With the permissions that `pq permissions` prints, and no others, the bridge and each
// role can work, and none has the rights of another.
func TestPrintedPermissions(t *testing.T) {
	t.Parallel()
	config := "authorization { users: ["
	for _, args := range [][]string{
		{"pqd"}, {"producer", "jobs"}, {"consumer", "jobs"}, {"importer", "jobs"}, {"viewer", "*"}, {"admin", "jobs", "jobs-dead"},
	} {
		code, text := pq(t, []string{"HOME=" + t.TempDir()}, append([]string{"permissions"}, args...)...)
		if code != 0 {
			t.Fatalf("%v: exit code %d: %s", args, code, text)
		}
		config += regexp.MustCompile(`\$\w+_PASSWORD`).ReplaceAllString(text, "secret")
	}
	file := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(file, []byte(config+"]}"), 0o600); err != nil {
		t.Fatal(err)
	}
	options, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := testenv.NATS(t, func(o *server.Options) { o.Users = options.Users })
	startBridge(t, s, "pqd", "secret")
	as := func(user string, args ...string) (int, string) {
		env := []string{"HOME=" + t.TempDir(), "NATS_URL=" + s.URL(), "NATS_USER=" + user, "NATS_PASSWORD=secret", "NATS_TIMEOUT=" + testenv.Patience().String()}
		return pq(t, env, append([]string{"--inbox-prefix", "_INBOX." + user}, args...)...)
	}
	for _, step := range []struct {
		user string
		args string
	}{
		{"admin", "config jobs lease=1h"},
		{"producer", "push jobs x"},
		{"viewer", "list jobs"},
		{"viewer", "ls"},
		{"consumer", "consume jobs --count 1 true"},
		{"producer", "push jobs x"},
		{"consumer", "consume jobs --count 1 --dead-exit 1 false"},
		{"admin", "dead list jobs"},
		{"admin", "purge jobs --force"},
	} {
		if code, text := as(step.user, strings.Fields(step.args)...); code != 0 {
			t.Errorf("%s may not %s: exit code %d: %s", step.user, step.args, code, text)
		}
	}
	// It may look at the queue, and not at its items: nothing is left of the file.
	dir := t.TempDir()
	if code, text := as("importer", "export", "jobs", "-o", filepath.Join(dir, "jobs.jsonl")); code != session.ExitFailed || !strings.Contains(text, "does not let this user do that") {
		t.Errorf("export without the right to list: exit code %d: %s", code, text)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("an export that failed left %v, %v", left, err)
	}
	// Without its inbox prefix it receives no answers, and reports that.
	env := []string{"HOME=" + t.TempDir(), "NATS_URL=" + s.URL(), "NATS_USER=consumer", "NATS_PASSWORD=secret"}
	for args, says := range map[string]string{
		"consume jobs true":                      "on _INBOX.>: say where it may with --inbox-prefix _INBOX.consumer (",
		"peek jobs":                              "--inbox-prefix _INBOX.consumer",
		"doctor":                                 "--inbox-prefix _INBOX.consumer",
		"doctor jobs":                            "--inbox-prefix _INBOX.consumer",
		"peek jobs --inbox-prefix _INBOX.viewer": "on _INBOX.viewer.>: say where it may with --inbox-prefix _INBOX.consumer (",
		"peek jobs --user viewer --inbox-prefix _INBOX.view": "--inbox-prefix _INBOX.viewer",
	} {
		if code, text := pq(t, env, strings.Fields(args)...); code != session.ExitFailed || strings.Count(text, says) != 1 || strings.Contains(text, "violation: ") {
			t.Errorf("%s without the inbox prefix: exit code %d: %s", args, code, text)
		}
	}
	// Nothing was sent: the item is there, and no other one.
	if code, text := as("producer", "push", "jobs", "the only one"); code != 0 {
		t.Fatalf("exit code %d: %s", code, text)
	}
	lines := filepath.Join(t.TempDir(), "lines")
	if err := os.WriteFile(lines, []byte("a\nb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		"pop jobs", "pop jobs -n 10", "pop jobs --wait 1h", "pop jobs --lease 1h", "pop jobs --id x",
		"push jobs x --user producer", "push jobs --user producer --file " + lines,
	} {
		if code, text := pq(t, env, strings.Fields(args)...); code != session.ExitFailed || strings.Count(text, "--inbox-prefix _INBOX.") != 1 {
			t.Errorf("%s without the inbox prefix: exit code %d: %s", args, code, text)
		}
	}
	if code, text := as("viewer", "ls", "--json"); code != 0 || !strings.Contains(text, `"ready":1,`) || !strings.Contains(text, `"leased":0,`) {
		t.Errorf("the queue is not as it was: exit code %d: %s", code, text)
	}
	for user, args := range map[string]string{
		"producer": "pop jobs", "consumer": "purge jobs --force", "viewer": "push jobs x", "importer": "peek jobs", "admin": "push jobs x",
	} {
		if code, text := as(user, strings.Fields(args)...); code != session.ExitFailed || !strings.Contains(text, "does not let this user do that") {
			t.Errorf("%s: %s: exit code %d: %s", user, args, code, text)
		}
	}
}
