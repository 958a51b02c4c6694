package history

import (
	"fmt"
	"math"
	"time"
)

// Kind is the kind of a request.
type Kind string

const (
	Push   Kind = "push"
	Pop    Kind = "pop" // without a lease
	Lease  Kind = "lease"
	Peek   Kind = "peek"
	Ack    Kind = "ack"
	Nak    Kind = "nak"
	Extend Kind = "extend" // +WPI

	// Configure comes before all others, with the queue's promises about keys.
	Configure Kind = "configure"
)

// End is the end of the queue at which a pop or a peek looks.
type End string

const (
	Min End = "min"
	Max End = "max"
)

// Outcome is the result that the answer gave.
type Outcome string

const (
	Done    Outcome = "done"
	Nothing Outcome = "nothing" // a pop or peek found no item, a settlement no lease
	Unknown Outcome = "unknown" // no answer, or an answer that leaves open what happened
)

// Never is the return of an operation without an answer.
const Never = time.Duration(math.MaxInt64)

// Operation is one request of a client, or several under one message id, which
// happen once.
type Operation struct {
	Client   int           `json:"client"`
	Kind     Kind          `json:"kind"`
	End      End           `json:"end,omitempty"`
	Item     string        `json:"item,omitempty"` // pushed, delivered or settled; each item is pushed once
	Priority int64         `json:"priority"`       // of the item
	Fence    int64         `json:"fence,omitempty"`
	Lease    time.Duration `json:"lease,omitempty"` // asked for; of Extend: how long the lease is from then on; 0 when it is known to be over
	Ack      string        `json:"ack,omitempty"`   // the subject that settles a lease
	Call     time.Duration `json:"call"`            // since the history began
	Return   time.Duration `json:"return"`
	Outcome  Outcome       `json:"outcome"`

	Key      string `json:"key,omitempty"`       // of the item that was pushed or found
	KeyFence int64  `json:"key_fence,omitempty"` // of a lease
	KeyLimit int64  `json:"key_limit,omitempty"` // of Configure: leases of one key at a time; 0: any number
	KeyOrder bool   `json:"key_order,omitempty"` // of Configure: the items of a key one after another

	// Reason is the reason of a 404 to a pop or peek that was sent once.
	Reason string `json:"reason,omitempty"`

	// A repeated settlement may have found that its first attempt took effect. A repeated
	// pop that found nothing is final.
	Repeated bool `json:"repeated,omitempty"`

	// Bundle is the common name of the operations of a bundle. All its pushes take place, or none, and its pops get
	// the items that are first at one moment. They are recorded in their order.
	Bundle string `json:"bundle,omitempty"`
}

// limit is how many leases of a key may last at a time, 0 for any number.
func (o *Operation) limit() int {
	if o.KeyOrder {
		return 1
	}
	return int(o.KeyLimit)
}

func (o Operation) String() string {
	text := string(o.Kind)
	if o.End != "" {
		text += "." + string(o.End)
	}
	if o.Item != "" {
		text += fmt.Sprintf(" %s (priority %d)", o.Item, o.Priority)
	}
	if o.Kind == Configure {
		text += fmt.Sprintf(" key_limit %d, key_order %t", o.KeyLimit, o.KeyOrder)
	}
	if o.Key != "" {
		text += " key " + o.Key
	}
	if o.KeyFence != 0 {
		text += fmt.Sprintf(" key fence %d", o.KeyFence)
	}
	if o.Reason != "" {
		text += " (" + o.Reason + ")"
	}
	if o.Fence != 0 {
		text += fmt.Sprintf(" fence %d", o.Fence)
	}
	if o.Bundle != "" {
		text += " of bundle " + o.Bundle
	}
	if o.Lease != 0 {
		text += fmt.Sprintf(" for %s", o.Lease)
	}
	end := "never"
	if o.Return != Never {
		end = o.Return.String()
	}
	return fmt.Sprintf("client %d: %s: %s [%s, %s]", o.Client, text, o.Outcome, o.Call, end)
}
