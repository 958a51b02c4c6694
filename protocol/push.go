package protocol

import "time"

// Types of JSON answers.
const (
	PushResponseType  = "io.pq.v1.push_response"
	ErrorResponseType = "io.pq.v1.error_response"
)

// PushResponse answers a push or an import: a JetStream publish acknowledgement
// with fields of ours, or an error.
type PushResponse struct {
	Type      string `json:"type"`
	Stream    string `json:"stream"` // the queue
	Seq       int64  `json:"seq"`    // the number of the push in its queue
	Duplicate bool   `json:"duplicate,omitempty"`
	ID        string `json:"id"`
	Priority  int64  `json:"priority"`
	Evicted   bool   `json:"evicted,omitempty"` // the queue was full, and this was its least urgent item
	Error     *Error `json:"error,omitempty"`

	// Items are the results of a bundle, in its order. In the answer to a bundle Seq is the Seq of the last item,
	// Duplicate says that no item was added, and ID and Priority are missing.
	Items []PushResult `json:"items,omitempty"`
}

// PushResult is the result of one item of a bundle.
type PushResult struct {
	Seq       int64  `json:"seq"`
	Duplicate bool   `json:"duplicate,omitempty"`
	ID        string `json:"id"`
	Priority  int64  `json:"priority"`
	Evicted   bool   `json:"evicted,omitempty"`
	Error     *Error `json:"error,omitempty"` // in place of all other fields, if the item was refused and each item is pushed on its own
}

// ErrorResponse is an error in the form of JetStream's answers.
type ErrorResponse struct {
	Type  string `json:"type"`
	Error Error  `json:"error"`
}

// Error is an error in the form of JetStream's.
type Error struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
	Item        *int   `json:"item,omitempty"`     // of a bundle: the number of the item that the error is about, from 0
	Progress    string `json:"progress,omitempty"` // over HTTP, of an item that has no result yet: how far it is; otherwise a header has it
	Reason      Reason `json:"reason,omitempty"`   // the reason, over HTTP and of an item of a bundle; otherwise a header has it
}

// errCodeBase keeps our error codes apart from JetStream's, which are below 30000.
const errCodeBase = 30_000

// NewErrorResponse returns the body that answers a request with an error.
func NewErrorResponse(responseType string, code int, description string) ErrorResponse {
	return ErrorResponse{Type: responseType, Error: Error{Code: code, ErrCode: errCodeBase + code, Description: description}}
}

// PopRequest is the body of a pop or a peek. Without parameters the body is empty.
type PopRequest struct {
	Batch    int           `json:"batch,omitempty"`
	Bundle   int           `json:"bundle,omitempty"`  // the most items, all in one message
	Expires  time.Duration `json:"expires,omitempty"` // how long to wait
	Lease    time.Duration `json:"lease,omitempty"`
	Confirm  time.Duration `json:"confirm,omitempty"` // for how long to keep the item that is popped for good, until it is acknowledged
	MaxBytes int           `json:"max_bytes,omitempty"`
	Min      *int64        `json:"min,omitempty"`
	Max      *int64        `json:"max,omitempty"`
	Holder   string        `json:"holder,omitempty"` // what the holder of the leases calls itself
	MsgID    string        `json:"msg_id,omitempty"` // the id with which the pop can be repeated
	Repeat   bool          `json:"repeat,omitempty"` // this pop is a repetition: if it finds nothing, that is final
}
