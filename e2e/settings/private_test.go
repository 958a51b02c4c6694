package settings_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// Only pqd's user can read the store and its backups, also files that had other modes
// before. Other files in the directory are not changed.
func TestStoreIsPrivate(t *testing.T) {
	t.Parallel()
	p := testenv.Daemon(t)
	nc := p.Connect(t)
	pqd.Push(t, nc, "jobs", 1, "x")
	nc.Close()
	copied := filepath.Join(t.TempDir(), "copy")
	if code, _, stderr := testenv.Run(t, []string{"PQ_STORE=local:" + p.Dir}, "backup", copied); code != 0 {
		t.Fatalf("backup: %s", stderr)
	}
	expectPrivate(t, p.Dir)
	expectPrivate(t, copied)
	p.Stop(t)

	open := func(dir string) {
		t.Helper()
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Chmod(path, 0o755)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	open(p.Dir)
	p.Start(t)
	p.AwaitLog(t, "removed the access of other users")
	expectPrivate(t, p.Dir)
	p.Stop(t)

	other := filepath.Join(p.Dir, "a letter")
	pqd.Write(t, other, "")
	open(p.Dir)
	p.Start(t)
	p.AwaitLog(t, "removed the access of other users")
	for _, path := range []string{p.Dir, other} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(p.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	expectPrivate(t, p.Dir)
	p.Stop(t)
}

func expectPrivate(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode()&0o077 != 0 {
			t.Errorf("others have permissions: %s %s", info.Mode(), path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Requests that pqd refuses are logged a few times, as a warning.
func TestClientsDoNotFloodTheLog(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "nats.conf")
	pqd.Write(t, config, `
authorization: { users: [
  { user: pqd, password: secret, permissions: { publish: { deny: "_INBOX.denied.>" } } }
  { user: app, password: other }
] }
`)
	p := testenv.Daemon(t, "PQ_NATS_CONFIG="+config, "NATS_USER=pqd", "NATS_PASSWORD=secret")
	const times, most = 50, 2 * 10 // a minute: of the clients of a host, and of pqd's own connection
	began := time.Now()
	for range times {
		if nc, err := nats.Connect(p.URL, nats.UserInfo("app", "wrong")); err == nil {
			nc.Close()
			t.Fatal("let in with a wrong password")
		}
	}
	p.AwaitLog(t, "error of a NATS client")
	nc := p.Connect(t, nats.UserInfo("app", "other"))
	for range times {
		if err := nc.PublishRequest("pq.jobs.info", "_INBOX.denied.x", nil); err != nil {
			t.Fatal(err)
		}
	}
	p.AwaitLog(t, "an answer may not be published")
	pqd.Push(t, nc, "jobs", 1, "x")
	nc.Close()
	p.Stop(t)
	log, allowed := p.Log(), most*(1+int(time.Since(began)/time.Minute))
	for _, text := range []string{"error of a NATS client", "an answer may not be published"} {
		if n := strings.Count(log, `"msg":"`+text+`"`); n < 1 || n > allowed {
			t.Errorf("%q was logged %d times, expected %d at most", text, n, allowed)
		}
	}
	for line := range strings.Lines(log) {
		if strings.Contains(line, `"level":"ERROR"`) && (strings.Contains(line, "auth") || strings.Contains(line, "ermission")) {
			t.Errorf("an error of a client's was logged as one of pqd's: %s", line)
		}
	}
}

// pqd names a file with a secret that all users can read.
func TestOpenSecretsAreNamed(t *testing.T) {
	t.Parallel()
	l := nkeyLogin(t)
	_, file, _ := strings.Cut(l.env[0], "=")
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	srv := testenv.NATS(t, l.server)
	p := testenv.Daemon(t, append(l.env, "NATS_URL="+srv.URL())...)
	p.AwaitLog(t, "every user of this machine can read a secret")
	p.Stop(t)
}
