package protocol

import "time"

// BulkRequest is the body of a page of a bulk operation.
type BulkRequest struct {
	Where  *BulkWhere `json:"where,omitempty"`
	All    bool       `json:"all,omitempty"` // in place of Where: all items
	DryRun bool       `json:"dry_run,omitempty"`
	Limit  *int       `json:"limit,omitempty"` // the most changes of this page; nil: MaxBulk. 0: the operation only begins
	After  string     `json:"after,omitempty"` // Next of the page before this one

	Priority *int64    `json:"priority,omitempty"` // of a move: the new priority
	Delay    *Duration `json:"delay,omitempty"`    // of a revoke: until the items are ready again; nil: none
	Reason   string    `json:"reason,omitempty"`   // of a revoke
	To       string    `json:"to,omitempty"`       // of a requeue
	Spread   Duration  `json:"spread,omitzero"`    // of a requeue
}

// BulkWhere says which items a bulk operation is about. An item has to match all fields that are given. Header,
// Reason, Cause and Origin may end in "*".
type BulkWhere struct {
	State        State             `json:"state,omitempty"` // "": ready, and leased for a revoke
	Min          *int64            `json:"min,omitempty"`   // least priority
	Max          *int64            `json:"max,omitempty"`   // greatest priority
	Key          string            `json:"key,omitempty"`
	Header       map[string]string `json:"header,omitempty"`
	Reason       string            `json:"reason,omitempty"` // of the death, for dead letters
	Cause        string            `json:"cause,omitempty"`  // why their last lease failed
	Origin       string            `json:"origin,omitempty"` // queue in which they died, for dead letters
	Holder       string            `json:"holder,omitempty"` // what the holder of the lease calls itself, for leased items
	PushedBefore time.Time         `json:"pushed_before,omitzero"`
	PushedAfter  time.Time         `json:"pushed_after,omitzero"` // or at that time
	Deliveries   int64             `json:"deliveries,omitempty"`  // at least

	Interruptions int64 `json:"interruptions,omitempty"` // at least
}

// BulkAnswer is the answer to a BulkRequest.
type BulkAnswer struct {
	Done    int    `json:"done"`
	Looked  int    `json:"looked"`
	Next    string `json:"next,omitempty"`    // After of the next page; "" at the end
	Stopped string `json:"stopped,omitempty"` // StoppedFull, or ""
}

// StoppedFull says that the queue to which the items go has no room for the next item.
const StoppedFull = "full"
