package console_test

import (
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// The page of an item shows how far its holder is, and cancels the item: its holder and its result learn why.
func TestConsoleCancel(t *testing.T) {
	t.Parallel()
	p, nc, b := consolePage(t, "PQ_CONSOLE=admin")
	id := pqd.PushMsg(t, nc, "pq.jobs.push.0", "x", "PQ-Result-TTL", "1h")
	leased := leaseAs(t, nc, "jobs", "w7")
	if _, err := nc.Request(leased.Reply, []byte("+WPI 3 of <b>9</b>"), testenv.Patience()); err != nil {
		t.Fatal(err)
	}
	b.Open(p.HTTP + "/#/q/jobs/i/" + id)
	b.Sees("3 of <b>9</b>, said ")
	b.Take("progress")
	b.Click("Cancel item")
	b.Sees("Its handler hears of that at once, and ends.")
	b.Enter("reason", "we move")
	b.Take("cancel")
	b.Press("Yes, cancel it")
	b.Sees("It is cancelled.")
	b.Until("the page goes back to the queue", `location.hash === "#/q/jobs"`)
	b.Shows(p, "/v1/queues/jobs/items/"+id+"/result", `"outcome":"cancelled"`)
	b.Shows(p, "/v1/queues/jobs/items/"+id+"/result", `"cancel_reason":"we move"`)
	b.Defects()
	p.Stop(t)
}
