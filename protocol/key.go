package protocol

import "encoding/json"

// KeysRequest is the body of a request for a page of keys.
type KeysRequest struct {
	After string `json:"after,omitempty"` // the page begins behind this key, which need not exist
	Limit int    `json:"limit,omitempty" pq:"page=100"`
}

// KeysPage is the answer to a KeysRequest.
type KeysPage struct {
	Keys []KeyInfo `json:"keys"`
	Next string    `json:"next,omitempty"` // After of the next page; "": this is the last page
}

// KeyInfo is what is known of a key.
type KeyInfo struct {
	Key    string `json:"key"`
	Ready  int    `json:"ready"`
	More   bool   `json:"more,omitempty"` // more items are ready than Ready says, which was counted up to a bound
	Leased int    `json:"leased"`
	Limit  int64  `json:"limit"`            // how many may be leased at a time; 0: no limit
	Rate   string `json:"rate"`             // of deliveries; "": no bound
	Tokens *int64 `json:"tokens,omitempty"` // how many deliveries the rate allows now
	Weight int64  `json:"weight"`           // the share of the key where keys take turns

	CostRate   string `json:"cost_rate,omitempty"`   // of the cost of deliveries; "": no bound
	CostTokens *int64 `json:"cost_tokens,omitempty"` // how much cost the rate allows now; negative: what the key owes

	// WaitsFor says why its next item is not handed out, "" if nothing keeps it.
	WaitsFor string `json:"waits_for,omitempty"`

	// Retry is the time until the rates of the key allow a delivery again.
	Retry Duration `json:"retry,omitzero"`

	Settings KeySettings `json:"settings"`
}

// KeySettings are the settings of a key that an administrator has made. A nil field follows the queue's
// configuration, or the pushes.
type KeySettings struct {
	Limit  *int64  `json:"limit,omitempty"`
	Rate   *string `json:"rate,omitempty"`
	Weight *int64  `json:"weight,omitempty"`
	Paused *bool   `json:"paused,omitempty"`

	CostRate *string `json:"cost_rate,omitempty"`
}

// KeyChange has the settings of a key to change. Nil fields stay as they are.
type KeyChange struct {
	KeySettings
	Drop []string `json:"-"` // names of the settings to remove, so that the queue decides again: limit, rate, weight, paused, cost_rate
}

// MarshalJSON implements json.Marshaler: a setting that is dropped is null.
func (c KeyChange) MarshalJSON() ([]byte, error) {
	object := make(map[string]any)
	if c.Limit != nil {
		object["limit"] = *c.Limit
	}
	if c.Rate != nil {
		object["rate"] = *c.Rate
	}
	if c.Weight != nil {
		object["weight"] = *c.Weight
	}
	if c.Paused != nil {
		object["paused"] = *c.Paused
	}
	if c.CostRate != nil {
		object["cost_rate"] = *c.CostRate
	}
	for _, name := range c.Drop {
		object[name] = nil
	}
	return json.Marshal(object)
}
