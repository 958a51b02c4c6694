package protocol

import (
	"bytes"
	"errors"
	"time"
)

// Backoff says for how long items of a queue stay away when they come back from a lease, as JSON: "" for not at
// all, an object such as {"delay":"1s"}, or a list such as ["1s","10s"].
type Backoff string

// MarshalJSON implements json.Marshaler.
func (b Backoff) MarshalJSON() ([]byte, error) {
	if b == "" {
		return []byte(`""`), nil
	}
	return []byte(b), nil
}

// UnmarshalJSON implements json.Unmarshaler. It does not look into the object or the list: the bridge does.
func (b *Backoff) UnmarshalJSON(text []byte) error {
	switch {
	case string(text) == `""`:
		*b = ""
	case bytes.HasPrefix(text, []byte("{")), bytes.HasPrefix(text, []byte("[")):
		*b = Backoff(text)
	default:
		return errors.New(`expected "", an object such as {"delay":"1s"}, or a list such as ["1s","10s"]`)
	}
	return nil
}

// Outcome is how a lease ended without success.
type Outcome string

// Outcomes of attempts.
const (
	OutcomeNack       Outcome = "nak"        // its holder said that the work failed
	OutcomeExpired    Outcome = "expired"    // it ran out
	OutcomeBack       Outcome = "back"       // its holder gave the item back, with nothing wrong with it
	OutcomeRevoked    Outcome = "revoked"    // it was taken away
	OutcomeTerminated Outcome = "terminated" // its holder gave the item up
)

// Attempt is a lease of an item that ended without success.
type Attempt struct {
	N       int64     `json:"n"`
	Start   time.Time `json:"start,omitzero"` // zero: not known
	End     time.Time `json:"end"`
	Holder  string    `json:"holder,omitempty"`
	Outcome Outcome   `json:"outcome"`
	Reason  string    `json:"reason,omitempty"`
}

// Nack is the JSON object that may follow -NAK.
type Nack struct {
	Delay  *int64 `json:"delay,omitempty"` // nanoseconds; nil: as the queue's backoff says
	Reason string `json:"reason,omitempty"`
}

// RevokeRequest is what the body of a revoke may say.
type RevokeRequest struct {
	Fence  int64     `json:"fence,omitempty" pq:"min=1"`        // end only the lease with this fence; without it a repeated request may hit the next holder
	Delay  *Duration `json:"delay,omitempty"`                   // how long the item stays away; without it the backoff of the queue says
	Reason string    `json:"reason,omitempty" pq:"maxlen=1024"` // for the attempt and the event
}

// Revoked is the answer to a revoke.
type Revoked struct {
	ID         string `json:"id"`
	Priority   int64  `json:"priority"`
	State      State  `json:"state"` // StateReady, StateDelayed, StateDead or StateGone
	Deliveries int64  `json:"deliveries"`
}

// CancelRequest is what the body of a cancel may say.
type CancelRequest struct {
	Reason string `json:"reason,omitempty" pq:"maxlen=1024"` // for the result, and for the holder of a lease
	Leased *bool  `json:"leased,omitempty"`                  // false: a leased item goes on, and the request is refused
}

// Cancelled is the answer to a cancel.
type Cancelled struct {
	ID         string    `json:"id"`
	Priority   int64     `json:"priority"`
	Outcome    Finish    `json:"outcome"`              // FinishCancelled, or how the item had ended before
	FinishedAt time.Time `json:"finished_at,omitzero"` // when it had ended before; missing: this request has ended it
	Deliveries int64     `json:"deliveries"`
}

// States of an item that has left its queue when its lease was revoked.
const (
	StateDead State = "dead"
	StateGone State = "gone"
)

// GetRequest is what the body of a get may say.
type GetRequest struct {
	Attempts bool `json:"attempts,omitempty"` // PQ-Attempts has all of them, and not only a number
	Explain  bool `json:"explain,omitempty"`  // with PQ-Explain
}
