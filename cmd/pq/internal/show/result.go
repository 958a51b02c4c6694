package show

import (
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/protocol"
)

// Result is what became of an item, as it is written.
type Result struct{ protocol.ItemResult }

// ShownResult makes JSON of a result.
func ShownResult(queue, id string, from *client.Result) *Result {
	r := &Result{protocol.ItemResult{
		Queue: queue, ID: id, Outcome: from.Outcome, FinishedAt: from.FinishedAt, Deliveries: from.Deliveries, Dropped: from.Dropped,
		DeadReason: from.Reason, DeadLetter: from.DeadLetter, Next: from.Next, NextID: from.NextID,
	}}
	r.SetBody(from.Body)
	return r
}

// Describe writes everything about a result but its bytes, for people.
func (r *Result) Describe() string {
	var f Facts
	f.Add("Outcome", "%s", r.Outcome)
	if r.DeadReason != "" {
		f.Add("Reason", "%s", r.DeadReason)
	}
	switch {
	case r.DeadLetter != "":
		f.Add("Went to", "%s, as %s", r.DeadLetter, r.NextID)
	case r.Next != "":
		f.Add("Went to", "%s, as %s", r.Next, r.NextID)
	}
	f.Add("Finished", "%s (%s)", r.FinishedAt.Local().Format(time.RFC3339), Until(r.FinishedAt))
	f.Add("Deliveries", "%d", r.Deliveries)
	if r.Dropped {
		f.Add("Result", "dropped: the queue had no room for it")
	}
	return f.String()
}
