package protocol

import (
	"time"
)

// ListRequest is the body of a request for a page of items.
type ListRequest struct {
	State  State  `json:"state,omitempty"`  // of the items; "": ready
	After  string `json:"after,omitempty"`  // begin behind the item with this id
	Min    *int64 `json:"min,omitempty"`    // least priority
	Max    *int64 `json:"max,omitempty"`    // greatest priority
	Key    string `json:"key,omitempty"`    // of the items, which are ready ones then
	Bodies bool   `json:"bodies,omitempty"` // with payloads
	Holder string `json:"holder,omitempty"` // of the items, which are leased ones then
	Limit  int    `json:"limit,omitempty"`

	Preview int `json:"preview,omitempty"` // bytes of each payload, up to MaxPreview; not with Bodies

	Attempts bool `json:"attempts,omitempty"` // with LastAttempts
}

// Page is the answer to a ListRequest.
type Page struct {
	Items []Listed `json:"items"`
	Next  string   `json:"next,omitempty"` // After of the next page; "" when this is the last one
}

// Listed is an item of a list.
type Listed struct {
	ID         string `json:"id"`
	Priority   int64  `json:"priority"`
	Key        string `json:"key,omitempty"`
	State      State  `json:"state"`
	Deliveries int64  `json:"deliveries"`
	Endings
	Pushed   time.Time `json:"pushed"`
	Held     bool      `json:"held,omitempty"` // leased without an end, by a link
	Due      time.Time `json:"due,omitzero"`   // when the lease ends, or the delay
	Since    time.Time `json:"since,omitzero"` // when the lease began; zero: not known
	Expires  time.Time `json:"expires,omitzero"`
	Fence    int64     `json:"fence,omitempty"`
	KeyFence int64     `json:"key_fence,omitempty"`
	Dead     *Death    `json:"dead,omitempty"`
	Holder   string    `json:"holder,omitempty"`   // of a leased item: what its holder calls itself
	Attempts int64     `json:"attempts,omitempty"` // number of the last one
	Cause    string    `json:"cause,omitempty"`    // what the item failed of last, if it did and fits
	Size     int64     `json:"size"`               // of payload and headers

	Unique      string `json:"unique,omitempty"`
	UniqueUntil string `json:"unique_until,omitempty"` // UntilLeased, or ""

	LastAttempts []Attempt `json:"last_attempts,omitempty"` // if they were asked for and fit

	// Headers is nil when a value is not UTF-8, which JSON cannot carry, or when the item does
	// not fit into an answer with them. Dead is nil when it does not fit, too.
	Headers map[string][]string `json:"headers,omitzero"`

	// Body is the payload if it was asked for and fits.
	Body []byte `json:"body,omitzero"`

	// Preview is the beginning of the payload if it was asked for. It is missing where that is
	// one of many large payloads of the page.
	Preview []byte `json:"preview,omitzero"`
}
