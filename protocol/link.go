package protocol

import "time"

// Link gives the items of a queue to another store.
type Link struct {
	Name   string `json:"name"`
	To     string `json:"to"` // the id of that store
	Paused bool   `json:"paused"`

	State string    `json:"state"`
	Batch int64     `json:"batch"`          // number of the last batch; 0: there was none
	Held  int       `json:"held"`           // items of it that the other store has not confirmed
	Since time.Time `json:"since,omitzero"` // when that batch was made
	Given int64     `json:"given"`          // items that the other store has confirmed
}

// The states of a link.
const (
	LinkStarting = "starting" // the taker has got nothing yet
	LinkRunning  = "running"
	LinkPaused   = "paused"
)

// LinkChange has the fields of a link to change. What is nil stays as it is.
type LinkChange struct {
	To     *string `json:"to,omitempty"`
	Paused *bool   `json:"paused,omitempty"`
}

// LinksRequest is the body of a request for a page of links.
type LinksRequest struct {
	After string `json:"after,omitempty"` // a name; "" begins with the first link
	Limit int    `json:"limit,omitempty"`
}

// LinksPage is the answer to a LinksRequest.
type LinksPage struct {
	Links []Link `json:"links"`
	Next  string `json:"next,omitempty"` // After of the next page; "" when this is the last one
}

// LinkDelete is the body of the request that deletes a link.
type LinkDelete struct {
	Force bool `json:"force,omitempty"` // what it holds returns to its places, although the other store may have it
}

// LinkDeleted is the answer to that.
type LinkDeleted struct {
	Queue    string `json:"queue"`
	Name     string `json:"name"`
	Returned int    `json:"returned"` // items
}

// LinkTake is the body of a taker's request.
type LinkTake struct {
	Taker  string `json:"taker"`            // the id of its store
	Done   uint64 `json:"done"`             // the last batch that it has
	Batch  string `json:"batch,omitempty"`  // the id of that
	Max    int    `json:"max,omitempty"`    // items of the next one at most
	Accept bool   `json:"accept,omitempty"` // go on with the giver's number, whatever the taker has

	Left []int64 `json:"left,omitempty"` // items of the batch Done that the taker could not take, by their numbers from 1: the giver keeps them

	// A taker that says this understands answers with a part of a batch.
	MaxPayload int64 `json:"max_payload,omitempty"` // bytes of an answer at most: the max_payload of its server

	Next string `json:"next,omitempty"` // the id of the batch of which it has a part
	Part int64  `json:"part,omitempty"` // that are so many items
}

// NoBatch stands for the id of no batch in HeaderLinkBatch.
const NoBatch = "-"

// MaxLinksPage bounds a page of links.
const MaxLinksPage = 100
