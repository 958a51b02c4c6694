package protocol

import (
	"time"
)

// ListRequest is the body of a request for a page of items.
type ListRequest struct {
	State  State  `json:"state,omitempty"`  // the state of the items; "": ready
	After  string `json:"after,omitempty"`  // the page begins behind the item with this id
	Min    *int64 `json:"min,omitempty"`    // least priority
	Max    *int64 `json:"max,omitempty"`    // greatest priority
	Key    string `json:"key,omitempty"`    // the key of the items; then only ready items are listed
	Bodies bool   `json:"bodies,omitempty"` // with payloads
	Holder string `json:"holder,omitempty"` // the holder of the items; then only leased items are listed
	Limit  int    `json:"limit,omitempty"`

	Preview int `json:"preview,omitempty"` // bytes of each payload, up to MaxPreview; not with Bodies

	Attempts bool `json:"attempts,omitempty"` // with LastAttempts
}

// Page is the answer to a ListRequest.
type Page struct {
	Items []Listed `json:"items"`
	Next  string   `json:"next,omitempty"` // After of the next page; "": this is the last page
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
	Held     bool      `json:"held,omitempty"` // a link holds the item: a lease without an end
	Due      time.Time `json:"due,omitzero"`   // when the lease ends, or the delay
	Since    time.Time `json:"since,omitzero"` // when the lease began; zero: not known
	Expires  time.Time `json:"expires,omitzero"`
	Fence    int64     `json:"fence,omitempty"`
	KeyFence int64     `json:"key_fence,omitempty"`
	Dead     *Death    `json:"dead,omitempty"`
	Holder   string    `json:"holder,omitempty"`   // of a leased item: what its holder calls itself
	Attempts int64     `json:"attempts,omitempty"` // the number of the last attempt
	Cause    string    `json:"cause,omitempty"`    // why its last lease failed, if one did and the reason fits
	Size     int64     `json:"size"`               // of payload and headers

	Unique      string `json:"unique,omitempty"`
	UniqueUntil string `json:"unique_until,omitempty"` // UntilLeased, or ""

	ResultTTL Duration `json:"result_ttl,omitzero"` // for how long the queue keeps what becomes of the item

	LastAttempts []Attempt `json:"last_attempts,omitempty"` // the last attempts, if they were asked for and fit

	// Headers is nil if a value is not UTF-8, which JSON cannot carry, or if the item does not fit into an answer
	// with its headers. Dead is nil if it does not fit either.
	Headers map[string][]string `json:"headers,omitzero"`

	// Body is the payload, if it was asked for and fits.
	Body []byte `json:"body,omitzero"`

	// Preview is the beginning of the payload, if it was asked for. It is missing if the payload is large and the
	// page has many large ones.
	Preview []byte `json:"preview,omitzero"`
}
