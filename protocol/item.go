package protocol

import (
	"maps"
	"slices"
	"time"
	"unicode/utf8"
)

// State is the state of an item.
type State string

// States of items.
const (
	StateReady   State = "ready"
	StateLeased  State = "leased"
	StateDelayed State = "delayed"
)

// Death says why and when an item became a dead letter, and in which queue.
type Death struct {
	Reason     string    `json:"reason"`
	Origin     string    `json:"origin"`               // the queue in which it died
	OriginID   string    `json:"origin_id"`            // the id that it had in that queue
	At         time.Time `json:"at,omitzero"`          // when it died
	Deliveries int64     `json:"deliveries,omitempty"` // how often it had been delivered in that queue

	Interruptions int64 `json:"interruptions,omitempty"` // how many interruptions it had in that queue
}

// Endings say how earlier leases of an item ended.
type Endings struct {
	Failures      int64 `json:"failures,omitempty"`      // its holder said that the work failed
	Interruptions int64 `json:"interruptions,omitempty"` // it ran out
	Returns       int64 `json:"returns,omitempty"`       // it was given back with nothing wrong with the item, or taken away
}

// RequeueRequest is what the body of a requeue may say.
type RequeueRequest struct {
	To string `json:"to,omitempty"` // the queue that the dead letter comes from
}

// Changed answers a request that changed an item.
type Changed struct {
	ID       string `json:"id"`
	Priority int64  `json:"priority"`
}

// Item is an item as programs write and read it, one JSON object a line. An
// export consists of such lines and an [ExportEnd].
type Item struct {
	Queue      string   `json:"queue,omitempty"`
	ID         string   `json:"id,omitempty"`
	Priority   int64    `json:"priority"`
	Key        string   `json:"key,omitempty"`
	State      State    `json:"state,omitempty"`
	WaitsFor   string   `json:"waits_for,omitempty"`
	KeyAhead   int64    `json:"key_ahead,omitempty"` // ready items of its key that go before it
	Explain    *Explain `json:"explain,omitempty"`   // why it waits, if that was asked for
	Deliveries int64    `json:"deliveries,omitempty"`
	Endings
	Pushed       time.Time           `json:"pushed,omitzero"`
	Due          time.Time           `json:"due,omitzero"`   // when the lease ends, or the delay
	Since        time.Time           `json:"since,omitzero"` // of lists: when the lease began
	Expires      time.Time           `json:"expires,omitzero"`
	Size         int64               `json:"size,omitempty"`
	Headers      map[string][]string `json:"headers,omitempty"`        // headers whose values are UTF-8
	RawHeaders   map[string][][]byte `json:"headers_base64,omitempty"` // headers with other values
	Payload      *string             `json:"payload,omitempty"`        // the payload, if it is UTF-8
	Base64       []byte              `json:"payload_base64,omitempty"` // the payload, if it is not UTF-8
	Ack          string              `json:"ack,omitempty"`
	LeaseExpires time.Time           `json:"lease_expires,omitzero"`
	Fence        uint64              `json:"fence,omitempty"`
	KeyFence     uint64              `json:"key_fence,omitempty"`
	Unique       string              `json:"unique,omitempty"`
	UniqueUntil  string              `json:"unique_until,omitempty"`
	ResultTTL    Duration            `json:"result_ttl,omitzero"` // for how long the queue keeps what becomes of it
	Cost         int64               `json:"cost,omitempty"`      // of a delivery; 0: 1
	Dead         *Death              `json:"dead,omitempty"`
	Holder       string              `json:"holder,omitempty"`        // of a leased item: what its holder calls itself
	Attempts     int64               `json:"attempts,omitempty"`      // the number of the last attempt
	Cause        string              `json:"cause,omitempty"`         // of lists: why its last lease failed
	LastAttempts []Attempt           `json:"last_attempts,omitempty"` // the last attempts, if they were asked for
	Backoff      string              `json:"backoff,omitempty"`       // of a lease: how long the item stays away if it is given back now
	Progress     string              `json:"progress,omitempty"`      // what the last holder that said anything has said of how far it is
	ProgressAt   time.Time           `json:"progress_at,omitzero"`    // when it did
	Schedule     string              `json:"schedule,omitempty"`      // the schedule that has pushed the item
	ScheduledAt  time.Time           `json:"scheduled_at,omitzero"`   // the time for which it did
	Source       *ItemSource         `json:"source,omitempty"`        // the message of which a source has made the item
}

// SetPayload sets Payload if JSON can carry the payload, and Base64 otherwise.
func (i *Item) SetPayload(payload []byte) {
	if utf8.Valid(payload) {
		i.Payload = new(string(payload))
	} else {
		i.Base64 = payload
	}
}

// SetHeaders sets Headers to the headers that JSON can carry, and RawHeaders to the others.
func (i *Item) SetHeaders(headers map[string][]string) {
	i.Headers, i.RawHeaders = headers, nil
	if ValidUTF8(headers) {
		return
	}
	i.Headers, i.RawHeaders = maps.Clone(headers), make(map[string][][]byte)
	for name, values := range headers {
		if !slices.ContainsFunc(values, isRaw) {
			continue
		}
		delete(i.Headers, name)
		for _, value := range values {
			i.RawHeaders[name] = append(i.RawHeaders[name], []byte(value))
		}
	}
}

// AllHeaders returns all headers, those of Headers and those of RawHeaders.
func (i *Item) AllHeaders() map[string][]string {
	if len(i.RawHeaders) == 0 {
		return i.Headers
	}
	all := maps.Clone(i.Headers)
	if all == nil {
		all = make(map[string][]string)
	}
	for name, values := range i.RawHeaders {
		for _, value := range values {
			all[name] = append(all[name], string(value))
		}
	}
	return all
}

// ValidUTF8 reports whether the values of headers are UTF-8, so that JSON can carry them.
func ValidUTF8(headers map[string][]string) bool {
	for _, values := range headers {
		if slices.ContainsFunc(values, isRaw) {
			return false
		}
	}
	return true
}

func isRaw(value string) bool { return !utf8.ValidString(value) }

// Bytes returns the payload.
func (i *Item) Bytes() []byte {
	if i.Payload != nil {
		return []byte(*i.Payload)
	}
	return i.Base64
}

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
	Progress bool `json:"progress,omitempty"` // with Progress of the items
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
	Cost      int64    `json:"cost,omitempty"`      // of a delivery; 0: 1

	LastAttempts []Attempt `json:"last_attempts,omitempty"` // the last attempts, if they were asked for and fit

	Progress   string    `json:"progress,omitempty"`   // what the last holder that said anything has said of how far it is, if it was asked for and fits
	ProgressAt time.Time `json:"progress_at,omitzero"` // when it did

	// Headers is nil if a value is not UTF-8, which JSON cannot carry, or if the item does not fit into an answer
	// with its headers. Dead is nil if it does not fit either.
	Headers map[string][]string `json:"headers,omitzero"`

	// Body is the payload, if it was asked for and fits.
	Body []byte `json:"body,omitzero"`

	// Preview is the beginning of the payload, if it was asked for. It is missing if the payload is large and the
	// page has many large ones.
	Preview []byte `json:"preview,omitzero"`
}
