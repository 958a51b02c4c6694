package show

import (
	"time"
	"unicode/utf8"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/protocol"
)

// Result is what became of an item, as JSON.
type Result struct {
	Queue      string          `json:"queue"`
	ID         string          `json:"id"`
	Outcome    protocol.Finish `json:"outcome"`
	FinishedAt time.Time       `json:"finished_at"`
	Deliveries int64           `json:"deliveries"`
	Reason     string          `json:"dead_reason,omitempty"`
	DeadLetter string          `json:"dead_letter,omitempty"`
	Next       string          `json:"next,omitempty"`
	NextID     string          `json:"next_id,omitempty"`
	Dropped    bool            `json:"dropped,omitempty"`
	Result     *string         `json:"body,omitempty"`        // if it is UTF-8
	Base64     []byte          `json:"body_base64,omitempty"` // if it is not
}

// ShownResult makes JSON of a result.
func ShownResult(queue, id string, from *client.Result) *Result {
	r := &Result{
		Queue: queue, ID: id, Outcome: from.Outcome, FinishedAt: from.FinishedAt, Deliveries: from.Deliveries,
		Reason: from.Reason, DeadLetter: from.DeadLetter, Next: from.Next, NextID: from.NextID, Dropped: from.Dropped,
	}
	if utf8.Valid(from.Body) {
		r.Result = new(string(from.Body))
	} else {
		r.Base64 = from.Body
	}
	return r
}

// Describe writes everything about a result but its bytes, for people.
func (r *Result) Describe() string {
	var f Facts
	f.Add("Outcome", "%s", r.Outcome)
	if r.Reason != "" {
		f.Add("Reason", "%s", r.Reason)
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
