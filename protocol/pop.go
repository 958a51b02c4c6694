package protocol

import "time"

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
