package protocol

import "time"

// Link gives the items of a queue to another store.
type Link struct {
	Name   string `json:"name"`
	To     string `json:"to"` // the id of the store that takes
	Paused bool   `json:"paused"`

	State string    `json:"state"`
	Batch int64     `json:"batch"`          // number of the last batch; 0: there was no batch
	Held  int       `json:"held"`           // items of this batch that the other store has not confirmed
	Since time.Time `json:"since,omitzero"` // when this batch was made
	Given int64     `json:"given"`          // items that the other store has confirmed
}

// The states of a link.
const (
	LinkStarting = "starting" // the taker has got nothing yet
	LinkRunning  = "running"
	LinkPaused   = "paused"
)

// LinkChange has the fields of a link to change. Nil fields stay as they are.
type LinkChange struct {
	To     *string `json:"to,omitempty"`
	Paused *bool   `json:"paused,omitempty"`
}

// LinksRequest is the body of a request for a page of links.
type LinksRequest struct {
	After string `json:"after,omitempty"` // the page begins behind this name; "": with the first link
	Limit int    `json:"limit,omitempty" pq:"page=100"`
}

// LinksPage is the answer to a LinksRequest.
type LinksPage struct {
	Links []Link `json:"links"`
	Next  string `json:"next,omitempty"` // After of the next page; "": this is the last page
}

// LinkDelete is the body of the request that deletes a link.
type LinkDelete struct {
	Force bool `json:"force,omitempty"` // also while it holds items: they return to their places, although the other store may have them
}

// LinkDeleted is the answer to a LinkDelete.
type LinkDeleted struct {
	Queue    string `json:"queue"`
	Name     string `json:"name"`
	Returned int    `json:"returned"` // how many items have returned to their places
}

// LinkTake is the body of a taker's request.
type LinkTake struct {
	Taker  string `json:"taker"`            // the id of the taker's store
	Done   uint64 `json:"done"`             // the number of the last batch that it has
	Batch  string `json:"batch,omitempty"`  // the id of that batch
	Max    int    `json:"max,omitempty"`    // the most items of the next batch
	Accept bool   `json:"accept,omitempty"` // go on with the giver's number of the batch, whatever the taker has

	Left []int64 `json:"left,omitempty"` // items of the batch Done that the taker could not take, by their numbers from 1: the giver keeps them

	// A taker that sets MaxPayload understands answers with a part of a batch.
	MaxPayload int64 `json:"max_payload,omitempty"` // the most bytes of an answer: the max_payload of its server

	Next string `json:"next,omitempty"` // the id of the batch of which it has a part
	Part int64  `json:"part,omitempty"` // so many items of that batch
}

// NoBatch stands for the id of no batch in HeaderLinkBatch.
const NoBatch = "-"

// MaxLinksPage bounds a page of links.
const MaxLinksPage = 100
