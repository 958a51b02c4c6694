package faults_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// pushed pushes an item and returns why it was refused, "" if it was not.
func pushed(t *testing.T, nc *nats.Conn, subject, body string, headers ...string) protocolReason {
	t.Helper()
	reply := pqd.Request(t, nc, subject, body, headers...)
	if testenv.IsAck(reply) {
		return ""
	}
	if code := reply.Header.Get("Nats-Service-Error-Code"); code != "429" {
		t.Fatalf("%s: %v %s, expected 429", subject, reply.Header, reply.Data)
	}
	return protocolReason(reply.Header.Get("PQ-Reason"))
}

type protocolReason string

const storeFull protocolReason = "store_full"

// An embedded store below PQ_MIN_FREE comes up, takes no new items, whatever brings them, and
// does everything else.
func TestNearlyFullDisk(t *testing.T) {
	t.Parallel()
	p := testenv.Daemon(t, "PQ_CONSOLE=admin")
	nc := p.Connect(t, nats.MaxReconnects(-1))
	pqd.Request(t, nc, "pq.jobs.admin.config", `{"hand_over":"jobs,mails","max_deliveries":1}`)
	pqd.PushMsg(t, nc, "pq.jobs.push.0", "died before")
	if settled := pqd.Request(t, nc, pqd.Request(t, nc, "pq.jobs.pop.min", "", "PQ-Lease", "1h").Reply, "+TERM"); settled.Header.Get("Status") != "" {
		t.Errorf("+TERM was answered %v", settled.Header)
	}
	pqd.PushMsg(t, nc, "pq.jobs.push.1", "first", "Nats-Msg-Id", "first")
	pqd.PushMsg(t, nc, "pq.jobs.push.2", "second")
	pqd.PushMsg(t, nc, "pq.jobs.push.3", "third", "PQ-Unique", "third")
	gone := pqd.PushMsg(t, nc, "pq.jobs.push.4", "fourth")
	pqd.PushMsg(t, nc, "pq.jobs.push.5", "fifth")
	stored := pqd.Request(t, nc, "pq.jobs.get."+gone, "")
	p.Stop(t)
	p.Change("PQ_MIN_FREE=" + pqd.NearlyFull(t, t.TempDir()))
	p.Start(t)
	p.AwaitLog(t, "nearly full")
	nc = p.Connect(t)

	refuses := func(what string, why protocolReason, subject, body string, headers ...string) {
		t.Helper()
		if got := pushed(t, nc, subject, body, headers...); got != why {
			t.Errorf("%s: %q, expected %q", what, got, why)
		}
	}
	refuses("a push", storeFull, "pq.jobs.push", "new")
	refuses("a push to a new queue", storeFull, "pq.new.push", "new")
	refuses("a push with an id", storeFull, "pq.jobs.push", "new", "Nats-Msg-Id", "new")
	refuses("a bundle", storeFull, "pq.jobs.push", "0 3\nnew\n", "PQ-Bundle", "1")
	refuses("an import", storeFull, "pq.new.import", "fourth", "PQ-Id", gone)
	refuses("a push of an item that is there", "", "pq.jobs.push.1", "first", "Nats-Msg-Id", "first")
	refuses("an import of an item that is there", "", "pq.jobs.import", string(stored.Data), "PQ-Id", gone)
	refuses("a value that is there", "", "pq.jobs.push.0", "urgent", "PQ-Unique", "third", "PQ-On-Conflict", "raise")
	refuses("a replacement that is longer", storeFull, "pq.jobs.push.0", "longer", "PQ-Unique", "third", "PQ-On-Conflict", "replace")
	refuses("a replacement that is as long", "", "pq.jobs.push.0", "THIRD", "PQ-Unique", "third", "PQ-On-Conflict", "replace")

	lease := func() *nats.Msg {
		t.Helper()
		item := pqd.Request(t, nc, "pq.jobs.pop.min", "", "PQ-Lease", "1h")
		if !testenv.IsItem(item) {
			t.Fatalf("a lease was answered %v", item.Header)
		}
		return item
	}
	item := lease()
	if string(item.Data) != "THIRD" {
		t.Errorf("leased %q", item.Data)
	}
	refuses("a hand-over of more", storeFull, "pq.mails.push", "longer", "PQ-Settle", item.Reply)
	refuses("a hand-over of as much", "", "pq.mails.push", "fifth", "PQ-Settle", item.Reply)
	for _, c := range []struct{ body, after string }{{"+WPI", ""}, {"+ACK", ""}} {
		item := lease()
		if settled := pqd.Request(t, nc, item.Reply, c.body); settled.Header.Get("Status") != "" {
			t.Errorf("%s was answered %v", c.body, settled.Header)
		}
	}
	dies := lease()
	if settled := pqd.Request(t, nc, dies.Reply, "+TERM"); settled.Header.Get("Status") != "" {
		t.Errorf("+TERM was answered %v", settled.Header)
	}
	waits := pqd.Request(t, nc, "pq.jobs.get."+dies.Header.Get("PQ-Id"), `{"explain":true}`)
	if explained := waits.Header.Get("PQ-Explain"); !strings.Contains(explained, `"cause":"store_full"`) || !strings.Contains(explained, "waits until the store has room") || waits.Header.Get("PQ-Lease-Expires") != "" {
		t.Errorf("an item that died is %v", waits.Header)
	}
	for subject, body := range map[string]string{
		"pq.jobs.info": "", "pq.jobs.list": "", "pq.jobs-dead.peek.min": "", "pq.jobs.admin.config": `{"lease":"1m"}`,
		"pq.mails.admin.purge": "",
	} {
		if reply := pqd.Request(t, nc, subject, body); reply.Header.Get("Nats-Service-Error") != "" {
			t.Errorf("%s was answered %v", subject, reply.Header)
		}
	}
	var info struct{ Ready, Leased int }
	if err := json.Unmarshal(pqd.Request(t, nc, "pq.jobs.info", "").Data, &info); err != nil || info.Ready != 1 || info.Leased != 2 {
		t.Errorf("%+v %v are left", info, err)
	}
	if code, body := pqd.Ask(t, "GET", p.HTTP+"/readyz", ""); code != 200 {
		t.Errorf("/readyz answers %d %s", code, body)
	}
	if code, body := pqd.Ask(t, "POST", p.HTTP+"/v1/queues/jobs/push", "new"); code != 429 || !strings.Contains(body, "store_full") {
		t.Errorf("HTTP answered a push %d %s", code, body)
	}
	doctor := pqd.Command(t, testenv.Build(t, "cmd/pq"), "--server", p.URL, "doctor")
	if out, err := doctor.CombinedOutput(); err == nil || !regexp.MustCompile(`FAIL +disk +\d.* of .* are free .*PQ_MIN_FREE(?s:.*)FAIL +store +a queue cannot be made: .*PQ_MIN_FREE.* \(429\)`).Match(out) || bytes.Count(out, []byte("FAIL")) != 2 {
		t.Errorf("pq doctor: %v\n%s", err, out)
	}
	dead := pqd.Request(t, nc, "pq.jobs-dead.peek.min", "")
	refuses("a requeue", "", "pq.jobs-dead.requeue."+dead.Header.Get("PQ-Id"), "")
	if gone := pqd.Request(t, nc, "pq.jobs-dead.peek.min", ""); gone.Header.Get("Status") != "404" {
		t.Errorf("the dead letter is still there: %v", gone.Header)
	}
	if code, body := pqd.Ask(t, "GET", p.HTTP+"/metrics", ""); code != 200 || !strings.Contains(body, `reason="store_full"`) {
		t.Errorf("no metric counts the refusals")
	}

	p.Stop(t)
	p.Change("PQ_MIN_FREE=0")
	p.Start(t)
	refuses("a push to a store with room", "", "pq.jobs.push", "new")
	testenv.Await(t, "what died is a dead letter", func() bool {
		letter := pqd.Request(t, nc, "pq.jobs-dead.peek.min", "")
		return letter.Header.Get("PQ-Origin-Id") == dies.Header.Get("PQ-Id") && string(letter.Data) == string(dies.Data)
	})

	// A doctor whose output nobody reads any more deletes its queue nevertheless.
	unread, output, err := os.Pipe()
	if err != nil || unread.Close() != nil {
		t.Fatal(err)
	}
	doctor = pqd.Command(t, testenv.Build(t, "cmd/pq"), "--server", p.URL, "doctor")
	doctor.Stdout = output
	if err := doctor.Run(); doctor.ProcessState.ExitCode() != 1 {
		t.Errorf("a doctor that nobody reads: %v", err)
	}
	if code, body := pqd.Ask(t, "GET", p.HTTP+"/v1/queues?prefix=doctor-", ""); code != 200 || strings.Contains(body, "doctor-") {
		t.Errorf("it leaves %d %s", code, body)
	}
}

// A store that takes no new items frees the space of a queue that is purged, though nothing is
// written any more that would make it do so.
func TestFullStoreFreesSpace(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	p := testenv.Daemon(t, "PQ_STORE=local:"+dir)
	nc := p.Connect(t)
	body := make([]byte, 700_000) // that cannot be compressed
	_, _ = rand.Read(body)
	const items = 12
	for range items {
		pqd.PushMsg(t, nc, "pq.jobs.push.1", string(body))
	}
	p.Stop(t)
	p.Change("PQ_MIN_FREE=" + pqd.NearlyFull(t, t.TempDir()))
	p.Start(t) // what is in the log goes into a table
	inTables := func() (size int) {
		tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range tables {
			if info, err := os.Stat(name); err == nil { // otherwise it was removed meanwhile
				size += int(info.Size())
			}
		}
		return size
	}
	testenv.Await(t, "the items are in tables", func() bool { return inTables() >= items*len(body) })
	pqd.Request(t, p.Connect(t), "pq.jobs.admin.purge", "")
	testenv.Await(t, "the space is free", func() bool { return inTables() < len(body) })
}

// The operator bounds the bytes of every queue. Items of whatever size meet that bound, and
// nobody with all rights on a queue raises it.
func TestMaxQueueBytes(t *testing.T) {
	t.Parallel()
	p := testenv.Daemon(t, "PQ_MAX_QUEUE_BYTES=100K")
	nc := p.Connect(t)
	const full protocolReason = "full"
	taken := func(queue string, body string, headers ...string) (n int) {
		t.Helper()
		for ; ; n++ {
			switch why := pushed(t, nc, "pq."+queue+".push", body, headers...); {
			case why == full:
				return n
			case why != "" || n > 1000:
				t.Fatalf("item %d of %s was answered %q", n, queue, why)
			}
		}
	}
	for _, c := range []struct {
		queue, config, body string
		want                int
	}{
		{"large", `{}`, strings.Repeat("x", 10_000), 102_400 / 10_512},
		{"empty", `{}`, "", 102_400 / 512},
		{"own", `{"max_bytes":50000}`, strings.Repeat("x", 10_000), 50_000 / 10_512},
		{"later", `{"overflow":"evict"}`, "", 102_400 / 512},
	} {
		if reply := pqd.Request(t, nc, "pq."+c.queue+".admin.config", c.config); reply.Header.Get("Nats-Service-Error") != "" {
			t.Fatalf("%s: %v", c.config, reply.Header)
		}
		headers := []string{}
		if c.queue == "later" { // what is delayed is not evicted
			headers = []string{"PQ-Delay", "1h"}
		}
		if n := taken(c.queue, c.body, headers...); n != c.want {
			t.Errorf("%s took %d items, expected %d", c.queue, n, c.want)
		}
	}
	for _, higher := range []string{`{"max_bytes":102401}`, `{"result_bytes":102401}`} {
		reply := pqd.Request(t, nc, "pq.own.admin.config", higher)
		if why := reply.Header.Get("Nats-Service-Error"); reply.Header.Get("Nats-Service-Error-Code") != "400" || !strings.Contains(why, "102400") {
			t.Errorf("%s was answered %v", higher, reply.Header)
		}
	}
	var system struct {
		Limits struct {
			QueueBytes int64 `json:"queue_bytes"`
		}
	}
	if err := json.Unmarshal(pqd.Request(t, nc, "pq._sys.info", "").Data, &system); err != nil || system.Limits.QueueBytes != 102_400 {
		t.Errorf("_sys.info shows %+v, %v", system, err)
	}
}
