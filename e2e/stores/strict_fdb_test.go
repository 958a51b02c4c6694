//go:build fdb

package stores_test

import (
	"flag"
	"fmt"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/fdbtest"
	"github.com/pqbridge/pqbridge/testenv"
)

var (
	flagStrictQueues = flag.Int("pq.strict.queues", 12, "queues of TestStrictOnFoundationDB")
	flagStrict       = flag.Bool("pq.strict", true, "configure these queues to be strict")
)

// On FoundationDB, too, each answer of a strict queue has its place in one order of all
// requests, peeks included. It is one pqd, because pushes that overlap at several of them stand in
// any order.
func TestStrictOnFoundationDB(t *testing.T) {
	d := testenv.Daemon(t, fdbtest.Shared(t).Setting())
	defer d.Stop(t)
	nc := d.Connect(t)
	for q := range *flagStrictQueues {
		pqd.Request(t, nc, fmt.Sprintf("pq.strict-%d.admin.config", q), fmt.Sprintf(`{"strict":%t}`, *flagStrict))
	}
	c := &pqd.Campaign{URL: d.URL, Random: pqd.Seeded(t), Attempt: testenv.Patience()}
	t.Logf("%d operations", c.Short(t, "strict", *flagStrictQueues))
}
