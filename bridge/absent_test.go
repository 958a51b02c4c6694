package bridge_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// A page of the names of queues has those between its beginning and its end that do not exist and for which pops wait, each on one
// page. A queue that is made is in the list in their place. Waiting peeks do not count.
func TestAbsentQueues(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for _, queue := range []string{"b", "d", "f"} {
		c.push("pq."+queue+".push", "x")
	}
	for queue, pops := range map[string]int{"a": 1, "c": 2, "c1": 1, "g": 1} {
		c.waitMany(pops, queue)
	}
	c.send("pq.e.peek.min", "", "PQ-Wait", forever)
	testenv.AwaitValue(t, "waiting pops", 6, c.total)
	own := func(queue string, n int) protocol.AbsentQueue { return protocol.AbsentQueue{Queue: queue, Waiting: n} }
	expect := func(subject, body string, want ...protocol.AbsentQueue) {
		t.Helper()
		if got := object[protocol.QueuesPage](c, subject, body).Absent; !slices.Equal(got, want) {
			t.Errorf("%s %s: %v, expected %v", subject, body, got, want)
		}
	}
	const list = "pq._sys.list"
	expect(list, `{"after":""}`, own("a", 1), own("c", 2), own("c1", 1), own("g", 1))
	expect(list, `{"after":"","limit":1}`, own("a", 1))
	expect(list, `{"after":"b","limit":1}`, own("c", 2), own("c1", 1))
	expect(list, `{"after":"d","limit":1}`, own("g", 1))
	expect(list, `{"after":"c"}`, own("c1", 1), own("g", 1))
	expect(list, `{"prefix":"c"}`, own("c", 2), own("c1", 1))
	expect(list, `{"prefix":"c1"}`, own("c1", 1))
	expect(list, "")
	c.ask("pq.c1.admin.config", `{"lease":"1m"}`)
	expect(list, `{"prefix":"c"}`, own("c", 2))
	for i := range protocol.MaxAbsent + 2 {
		c.waitMany(1, fmt.Sprintf("z-%03d", i))
	}
	testenv.AwaitValue(t, "waiting pops", 6+protocol.MaxAbsent+2, c.total)
	if got := object[protocol.QueuesPage](c, list, `{"prefix":"z-"}`).Absent; len(got) != protocol.MaxAbsent || got[0] != own("z-000", 1) {
		t.Errorf("%d queues, %v, expected the first %d", len(got), got[0], protocol.MaxAbsent)
	}
}

// A tenant sees its own absent queues alone.
func TestAbsentQueuesOfTenants(t *testing.T) {
	t.Parallel()
	c := withTenants(t, bridge.Quotas{Waiting: 9})
	c.push("pq.acme.jobs.push", "x")
	c.waitMany(2, "acme.jobz")
	c.waitMany(1, "b.jobs")
	testenv.AwaitValue(t, "waiting pops", 3, c.total)
	for subject, want := range map[string][]protocol.AbsentQueue{
		"pq.acme._sys.list": {{Queue: "jobz", Waiting: 2}}, "pq.b._sys.list": {{Queue: "jobs", Waiting: 1}}, "pq.nobody._sys.list": nil,
		"pq._sys.list": {{Queue: "acme.jobz", Waiting: 2}, {Queue: "b.jobs", Waiting: 1}},
	} {
		if got := object[protocol.QueuesPage](c, subject, `{"after":""}`).Absent; !slices.Equal(got, want) {
			t.Errorf("%s: %v, expected %v", subject, got, want)
		}
	}
}
