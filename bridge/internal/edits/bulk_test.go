package edits

import "testing"

// A tenant has two bulk operations at a time, at any of its queues, and others have their own.
func TestBulkOperationsOfTenants(t *testing.T) {
	t.Parallel()
	q := bulkQueues{all: make(map[string]bool)}
	enter := func(queue string, want bool) {
		t.Helper()
		if got := q.enter(queue); got != want {
			t.Errorf("%s enters: %t", queue, got)
		}
	}
	enter("t.a", true)
	enter("t.a", false)
	enter("t.b", true)
	enter("t.c", false)
	enter("tt.c", true)
	q.leave("t.a")
	enter("t.c", true)
	for _, queue := range []string{"a", "b", "c", "d", "e"} { // without tenants a store has eight
		enter(queue, true)
	}
	enter("f", false)
}
