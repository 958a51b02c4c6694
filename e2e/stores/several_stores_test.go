package stores_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// With the mapping of docs/scaling.md, clients reach the queues of two stores by the
// subjects of one, and each queue is in one of them.
func TestSeveralStores(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/scaling.md")
	if err != nil {
		t.Fatal(err)
	}
	_, mapping, found := strings.Cut(string(page), "<!-- run by TestSeveralStores -->\n```conf\n")
	mapping, _, ended := strings.Cut(mapping, "```")
	if !found || !ended {
		t.Fatal("docs/scaling.md has no mapping")
	}
	config := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(config, []byte("listen: 127.0.0.1:-1\n"+mapping), 0o600); err != nil {
		t.Fatal(err)
	}
	first := testenv.Daemon(t, "PQ_NATS_CONFIG="+config, "PQ_LISTEN=", "PQ_PREFIX=store.0")
	testenv.Daemon(t, "NATS_URL="+first.URL, "PQ_PREFIX=store.1")
	nc := first.Connect(t)
	const queues = 20
	for q := range queues {
		queue := fmt.Sprintf("jobs-%d", q)
		pqd.Push(t, nc, queue, 2, "second")
		pqd.Push(t, nc, queue, 1, "first")
	}
	for q := range queues {
		queue := fmt.Sprintf("jobs-%d", q)
		leased := pqd.Request(t, nc, "pq."+queue+".pop.min", `{"lease":60000000000}`)
		if string(leased.Data) != "first" {
			t.Fatalf("%s: %v", queue, leased)
		}
		if done := pqd.Request(t, nc, leased.Reply, ""); len(done.Header) > 0 {
			t.Errorf("%s: acknowledged: %v", leased.Reply, done)
		}
		if got := pqd.Pop(t, nc, queue, "min"); got != "second" {
			t.Errorf("%s: popped %q", queue, got)
		}
	}
	total := 0
	for store := range 2 {
		var list struct{ Queues []string }
		if err := json.Unmarshal(pqd.Request(t, nc, fmt.Sprintf("store.%d._sys.list", store), "").Data, &list); err != nil {
			t.Fatal(err)
		}
		if len(list.Queues) == 0 {
			t.Errorf("store %d has no queue", store)
		}
		total += len(list.Queues)
	}
	if total != queues {
		t.Errorf("the stores have %d queues together, expected %d", total, queues)
	}
}
