package faults_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/chromium"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/testenv"
)

const damagedItems = 800

// damagedStore makes a store with the queues jobs and mail, and damages the table that
// has all items, or the newest log.
func damagedStore(t *testing.T, suffix string) (dir, file string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "damaged")
	open := func(use func(*local.DB)) {
		t.Helper()
		db, err := local.Open(dir, local.Options{NoSync: suffix == ".sst"})
		if err != nil {
			t.Fatal(err)
		}
		use(db)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	open(func(db *local.DB) {
		store, err := fdbpq.Open(t.Context(), db, fdbpq.Options{Exclusive: true})
		if err != nil {
			t.Fatal(err)
		}
		for queue, n := range map[string]int{"jobs": damagedItems, "mail": 10} {
			for n > 0 {
				items := make([]fdbpq.NewItem, min(n, 100))
				for i := range items {
					body := make([]byte, 150) // that cannot be compressed
					_, _ = rand.Read(body)
					items[i].Payload = base64.StdEncoding.AppendEncode(nil, body)
				}
				err := db.Update(t.Context(), func(tx kv.Tx) error {
					_, err := store.Queue(queue).Push(tx, items...)
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				n -= len(items)
			}
		}
	})
	if suffix == ".sst" {
		open(func(*local.DB) {}) // what is in the log goes into a table
	}
	var content []byte
	all, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(bytes.TrimRight(text, "\x00")) > len(content) {
			file, content = name, bytes.TrimRight(text, "\x00")
		}
	}
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	at := len(content) / 2
	if _, err := f.WriteAt([]byte{content[at] ^ 0x10}, int64(at)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, file
}

// A damaged table has an error code of its own, since a retry does not help. Requests
// that need no data of it are served. Every page for operators names the file and the
// queues that it may concern; the log does so once.
func TestDamagedStore(t *testing.T) {
	t.Parallel()
	dir, file := damagedStore(t, ".sst")
	name := filepath.Base(file)
	p := testenv.Daemon(t, "PQ_STORE=local:"+dir)
	nc := p.Connect(t)
	for range 2 {
		reply, err := nc.Request("pq.jobs.list", []byte(`{"limit":1000,"bodies":true}`), testenv.Patience())
		for err == nil && reply.Header.Get("Status") == "" {
			next := regexp.MustCompile(`"next":"([^"]+)"`).FindSubmatch(reply.Data)
			if next == nil {
				t.Fatalf("all of the queue can be read: %.200s", reply.Data)
			}
			reply, err = nc.Request("pq.jobs.list", fmt.Appendf(nil, `{"limit":1000,"bodies":true,"after":%q}`, next[1]), testenv.Patience())
		}
		if err != nil {
			t.Fatal(err)
		}
		if reply.Header.Get("Status") != "506" || reply.Header.Get("Description") != "Store Damaged" {
			t.Errorf("a request that needs the damaged file: %v", reply.Header)
		}
	}
	pqd.Push(t, nc, "jobs", -1, "still taken")
	if body := pqd.Pop(t, nc, "jobs", "min"); body != "still taken" {
		t.Errorf("popped %q", body)
	}
	pqd.Pop(t, nc, "mail", "min")

	if code, body := pqd.Get(t, p.HTTP+"/readyz"); code != http.StatusOK || !strings.Contains(body, name) || !strings.Contains(body, "jobs") {
		t.Errorf("/readyz: %d %s, expected 200 and the damage: a Service without endpoints serves nothing", code, body)
	}
	if code, body := pqd.Get(t, p.HTTP+"/healthz"); code != http.StatusOK {
		t.Errorf("/healthz: %d %s, expected 200: another start mends nothing", code, body)
	}
	t.Run("console", func(t *testing.T) {
		b := chromium.Need(t).Drive(t)
		b.Open(p.HTTP + "/#/health")
		b.Sees("Files of the store are damaged.")
		b.Sees(name)
		b.Take("health-damage")
		b.Defects()
	})
	if _, metrics := pqd.Get(t, p.HTTP+"/metrics"); !strings.Contains(metrics, "\npq_store_damaged_files 1\n") || !strings.Contains(metrics, "\npq_ready 1\n") {
		t.Error("/metrics does not tell of one damaged file")
	}
	pq := func(args ...string) (string, error) {
		cmd := pqd.Command(t, testenv.Build(t, "cmd/pq"), append([]string{"--server", p.URL}, args...)...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := pq("doctor"); err == nil || !regexp.MustCompile(`FAIL +damage .*`+name).MatchString(out) {
		t.Errorf("pq doctor: %v\n%s", err, out)
	}
	nc.Close()
	p.Stop(t)
	if n := strings.Count(p.Log(), `"level":"ERROR"`); n != 1 || !strings.Contains(p.Log(), name) {
		t.Errorf("logged %d errors, expected one", n)
	}

	code, _, stderr := testenv.Run(t, []string{"PQ_STORE=local:" + dir}, "check")
	if code != 1 || !strings.Contains(stderr, name) || !strings.Contains(stderr, "salvage") {
		t.Errorf("pqd check: %d, %s", code, stderr)
	}
	salvaged(t, dir, name)
}

// pqd does not start on a damaged log, and says which file it is and what to do.
func TestDamagedLogEndsTheStart(t *testing.T) {
	t.Parallel()
	dir, file := damagedStore(t, ".log")
	code, _, stderr := testenv.Run(t, []string{"PQ_STORE=local:" + dir, "PQ_LISTEN=127.0.0.1:0", "PQ_HTTP=127.0.0.1:0"})
	if code != 1 || !strings.Contains(stderr, filepath.Base(file)) || !strings.Contains(stderr, "salvage") {
		t.Errorf("pqd ended with %d and said %s", code, stderr)
	}
	salvaged(t, dir, filepath.Base(file))
}

// A node's copy needs no salvage while another node has one: the advice is to fetch that.
func TestDamagedCopyIsFetchedAgain(t *testing.T) {
	t.Parallel()
	dir, file := damagedStore(t, ".log")
	data, secret := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	pqd.Write(t, secret, "0123456789abcdef\n")
	copied := filepath.Join(data, "copy-pq")
	if err := os.Rename(dir, copied); err != nil {
		t.Fatal(err)
	}
	node := []string{"PQ_CLUSTER=127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", "PQ_NODE=127.0.0.1:1", "PQ_CLUSTER_SECRET=" + secret, "PQ_DATA=" + data}
	code, _, stderr := testenv.Run(t, node, "check")
	for _, part := range []string{filepath.Base(file), "move " + copied + " away", "fetches a copy from another node"} {
		if code != 1 || !strings.Contains(stderr, part) {
			t.Errorf("exit code %d, expected 1 and %q in: %s", code, part, stderr)
		}
	}
	if strings.Contains(stderr, "restore a backup") {
		t.Errorf("the advice is that of a store of one pqd: %s", stderr)
	}
}

// salvaged has pqd write the readable items, and imports them elsewhere.
func salvaged(t *testing.T, dir, file string) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "salvaged")
	code, stdout, stderr := testenv.Run(t, []string{"PQ_STORE=local:" + dir}, "salvage", to)
	if code != 1 || !strings.Contains(stdout, "jobs: ") || !strings.Contains(stdout, file+" is damaged") || !strings.Contains(stderr, "may lack items") {
		t.Fatalf("pqd salvage: %d, %s%s", code, stdout, stderr)
	}
	log := strings.HasSuffix(file, ".log")
	if strings.Contains(stdout, "as it was") == log {
		t.Errorf("pqd salvage said %s", stdout)
	}
	p := testenv.Daemon(t)
	for queue, least := range map[string]int{"jobs": damagedItems * 3 / 4, "mail": 9} {
		cmd := pqd.Command(t, testenv.Build(t, "cmd/pq"), "--server", p.URL, "import", queue, "--file", filepath.Join(to, queue+".jsonl"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("pq import %s: %v\n%s", queue, err, out)
		}
		if all := strings.Contains(string(out), "are there, unchanged"); all == (log || queue == "jobs") {
			t.Errorf("pq import %s said %s", queue, out)
		}
		nc := p.Connect(t)
		if n := ready(t, nc, queue); n < least || queue == "jobs" && n >= damagedItems {
			t.Errorf("%s has %d items, expected those that can be read", queue, n)
		}
		nc.Close()
	}
}

// ready is how many items of a queue are.
func ready(t *testing.T, nc *nats.Conn, queue string) (n int) {
	t.Helper()
	reply, err := nc.Request("pq."+queue+".info", nil, testenv.Patience())
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`"ready":(\d+)`).FindSubmatch(reply.Data)
	if text == nil {
		t.Fatalf("info: %s", reply.Data)
	}
	_, err = fmt.Sscan(string(text[1]), &n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
