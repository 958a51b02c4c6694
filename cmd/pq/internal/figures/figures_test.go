package figures

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pqbridge/pqbridge/client"
)

// Queues that nobody can ask about are named or counted, and names do nothing to a terminal.
func TestUnaskedLines(t *testing.T) {
	t.Parallel()
	var u Unasked
	u.Note(&client.QueuesPage{Queues: []string{"jobs", "acme.jobs"}, Absent: []client.AbsentQueue{{Queue: "emailz", Waiting: 1}, {Queue: "news", Waiting: 3}}})
	for i := range mostAbsent {
		u.Note(&client.QueuesPage{Absent: []client.AbsentQueue{{Queue: fmt.Sprint("more-", i), Waiting: 1}}})
	}
	lines := u.Lines()
	if len(lines) != 1+mostAbsent+1 || !slices.Equal(lines[:3], []string{
		"left out 1 queue of tenants: a tenant has its own prefix, such as pq.acme",
		"queue emailz does not exist yet, and 1 pop waits for its first push: is the name of the worker's queue right?",
		"queue news does not exist yet, and 3 pops wait for its first push: is the name of the worker's queue right?",
	}) || lines[len(lines)-1] != "and pops wait for 2 more queues that do not exist" {
		t.Errorf("%q", lines)
	}
}
