package protocol

import "time"

// BulkRequest is the body of a page of a bulk operation.
type BulkRequest struct {
	Where  *BulkWhere `json:"where,omitempty"`
	All    bool       `json:"all,omitempty"` // instead of Where
	DryRun bool       `json:"dry_run,omitempty"`
	Limit  *int       `json:"limit,omitempty"` // of changes; nil: MaxBulk. 0: the operation only begins
	After  string     `json:"after,omitempty"` // Next of the page before

	Priority *int64    `json:"priority,omitempty"` // of a move
	Delay    *Duration `json:"delay,omitempty"`    // of a revoke; nil: none
	Reason   string    `json:"reason,omitempty"`   // of a revoke
	To       string    `json:"to,omitempty"`       // of a requeue
	Spread   Duration  `json:"spread,omitzero"`    // of a requeue
}

// BulkWhere says which items a bulk operation is about: all that is given has to fit. Header, Reason,
// Cause and Origin may end in "*".
type BulkWhere struct {
	State        State             `json:"state,omitempty"` // "": ready, and leased for a revoke
	Min          *int64            `json:"min,omitempty"`   // least priority
	Max          *int64            `json:"max,omitempty"`   // greatest priority
	Key          string            `json:"key,omitempty"`
	Header       map[string]string `json:"header,omitempty"`
	Reason       string            `json:"reason,omitempty"` // of the death
	Cause        string            `json:"cause,omitempty"`  // what they failed of last
	Origin       string            `json:"origin,omitempty"` // queue in which they died
	Holder       string            `json:"holder,omitempty"` // of leased items
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

// StoppedFull says that the queue that items go to has no room for the next one.
const StoppedFull = "full"
