package performance_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// walks are how many files, and packages, of this project a request goes through: those with a block that runs for each of many
// requests. A change may lower them. Who follows a request reads so many.
var walks = map[string]struct{ files, packages int }{
	"push":   {87, 21},
	"pop":    {104, 26},
	"ack":    {90, 23},
	"result": {53, 17},
}

const walked = 500 // requests of each kind

// The way of a request is not longer than it was. A program is run with so many requests of the first kind, then with those of the
// first two, and so on: a block belongs to the way of a kind if it runs for each of its requests more often than without them.
func TestWalk(t *testing.T) {
	nightly.Only(t, "make check runs it by its name: it builds everything with counters of coverage")
	program := filepath.Join(t.TempDir(), "walk.test")
	if out, err := pqd.Compiler(t, "go", "test", "-c", "-vet=off", "-covermode=atomic", "-coverpkg=github.com/pqbridge/pqbridge/...", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	before := walk(t, program, 0)
	for i, kind := range []string{"push", "pop", "ack", "result"} {
		after := walk(t, program, i+1)
		files, packages := way(before, after)
		t.Logf("%s goes through %d files of %d packages", kind, files, packages)
		if most := walks[kind]; files == 0 || files > most.files || packages > most.packages {
			t.Errorf("%s goes through %d files of %d packages: expected at most %d of %d", kind, files, packages, most.files, most.packages)
		}
		before = after
	}
}

// walk has a program do requests of some kinds, and returns how often each block ran.
func walk(t *testing.T, program string, kinds int) map[string]int {
	t.Helper()
	profile := filepath.Join(t.TempDir(), "profile")
	run := pqd.Command(t, program, "-test.run=^TestWalked$", "-test.coverprofile="+profile)
	run.Env = append(os.Environ(), fmt.Sprint("PQ_WALK=", kinds))
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		t.Fatal(err)
	}
	counts := make(map[string]int)
	for line := range strings.Lines(string(text)) {
		block, count, _ := strings.Cut(strings.TrimSpace(line), " ") // name:from,to statements count
		if n, err := strconv.Atoi(count[strings.LastIndexByte(count, ' ')+1:]); err == nil {
			counts[block] = n
		}
	}
	return counts
}

// way counts the files, and their packages, that have a block that ran for each request. What serves tests does not count.
func way(before, after map[string]int) (files, packages int) {
	seen, in := make(map[string]bool), make(map[string]bool)
	for block, n := range after {
		name, _, _ := strings.Cut(block, ":")
		if n-before[block] < walked || strings.Contains(name, "/testenv/") || strings.Contains(name, "/e2e/") || strings.Contains(name, "/patience/") {
			continue
		}
		seen[name], in[filepath.Dir(name)] = true, true
	}
	return len(seen), len(in)
}

// TestWalked does the requests of as many kinds as PQ_WALK says.
func TestWalked(t *testing.T) {
	kinds, err := strconv.Atoi(os.Getenv("PQ_WALK"))
	if err != nil {
		t.Skip("TestWalk runs it")
	}
	b := testenv.Bridge(t, bridge.Options{Exclusive: true})
	nc := b.NATS.Connect(t)
	ask := func(subject, body string, headers ...string) *nats.Msg {
		m := nats.NewMsg(subject)
		m.Data = []byte(body)
		for i := 0; i < len(headers); i += 2 {
			m.Header.Set(headers[i], headers[i+1])
		}
		answer, err := nc.RequestMsg(m, testenv.Most)
		if err != nil || answer.Header.Get("Nats-Service-Error-Code") != "" || answer.Header.Get("Status") != "" {
			t.Fatalf("%s: %v, %v", subject, answer, err)
		}
		return answer
	}
	var ids, acks []string
	for _, do := range []func(i int){
		func(int) {
			_, id, _ := strings.Cut(string(ask("pq.jobs.push.1", "x", "PQ-Result-TTL", "1h").Data), `"id":"`)
			id, _, _ = strings.Cut(id, `"`)
			ids = append(ids, id)
		},
		func(int) { acks = append(acks, ask("pq.jobs.pop.min", "", "PQ-Lease", "1h").Header.Get("PQ-Ack")) },
		func(i int) { ask(acks[i], "+ACK done") },
		func(i int) { ask("pq.jobs.result."+ids[i], "") },
	}[:kinds] {
		for i := range walked {
			do(i)
		}
	}
}
