package protocol

import (
	"encoding/json"
	"strconv"
	"time"
)

// Source feeds a queue from a stream, or from a queue of another store that has a [Link].
type Source struct {
	Name   string                     `json:"name"`
	Remote string                     `json:"remote"`
	Stream string                     `json:"stream,omitempty"`
	Queue  string                     `json:"queue,omitempty"` // the queue of the other store, with the prefix of its pqd
	Link   string                     `json:"link,omitempty"`
	Mode   string                     `json:"mode,omitempty"`
	Filter []string                   `json:"filter,omitempty"`
	Start  json.RawMessage            `json:"start,omitempty"` // "first", "new", {"seq":n} or {"time":t}
	Map    map[string]json.RawMessage `json:"map,omitempty"`
	Batch  int                        `json:"batch"`
	Paused bool                       `json:"paused"`

	State  string    `json:"state"`
	Reason string    `json:"reason,omitempty"` // why it is in this state
	Since  time.Time `json:"since,omitzero"`
	Seq    uint64    `json:"seq"`           // the last message that the source is done with, or the last batch of a link
	Time   time.Time `json:"time,omitzero"` // when that message was stored
	Last   uint64    `json:"last"`          // the last message of the stream, as the runner saw it
	Lag    uint64    `json:"lag"`           // messages between Seq and Last, or items that are ready at the link
	Runner string    `json:"runner,omitempty"`

	Counts SourceCounts `json:"counts"`
}

// The modes of a source.
const (
	SourceCopies = "copy"
	SourceTakes  = "take"
)

// The states of a source.
const (
	SourceRunning  = "running"
	SourceStarting = "starting" // no bridge has spoken with the stream yet
	SourcePaused   = "paused"
	SourceBlocked  = "blocked"   // the queue or the store is full
	SourceFailing  = "failing"   // the stream cannot be read
	SourceNoRunner = "no_runner" // no bridge runs it
	SourceStopped  = "stopped"   // a person has to look
)

// Why a source has stopped. Its Reason begins with one of these words and a colon.
const (
	StopReplaced = "stream_replaced"
	StopBehind   = "stream_behind"
	StopDiverged = "stream_diverged"
	StopConsumer = "consumer_changed"
	StopPoisoned = "poisoned"

	StopGiverBehind   = "giver_behind"
	StopTakerBehind   = "taker_behind"
	StopGiverReplaced = "giver_replaced"
)

// SourceCounts says what became of the messages of a source.
type SourceCounts struct {
	Delivered int64 `json:"delivered"`
	Skipped   int64 `json:"skipped"`
	Poisoned  int64 `json:"poisoned"`
}

// SourceChange has the fields of a source to change. Nil fields stay as they are.
type SourceChange struct {
	Remote *string         `json:"remote,omitempty"`
	Stream *string         `json:"stream,omitempty"`
	Queue  *string         `json:"queue,omitempty"`
	Link   *string         `json:"link,omitempty"`
	Mode   *string         `json:"mode,omitempty"`
	Filter []string        `json:"filter,omitzero"` // empty, and not nil: all
	Start  json.RawMessage `json:"start,omitempty"`
	Map    map[string]any  `json:"map,omitzero"` // texts, numbers, or SourceValue
	Batch  *int            `json:"batch,omitempty"`
	Paused *bool           `json:"paused,omitempty"`
}

// SourceValue takes a value from a header of the message, or from a token of its subject.
type SourceValue struct {
	Header  string `json:"header,omitempty"`
	Token   int    `json:"token,omitempty"` // the number of the token, from 1
	Default string `json:"default,omitempty"`
}

// SourceResume says how a source goes on. At most one field is set.
type SourceResume struct {
	FromSeq  uint64     `json:"from_seq,omitempty"`
	FromTime *time.Time `json:"from_time,omitempty"`
	Skip     bool       `json:"skip,omitempty"`   // pass over the poisoned message
	Accept   bool       `json:"accept,omitempty"` // take the stream as it is
}

// SourcesRequest is the body of a request for a page of sources.
type SourcesRequest struct {
	After string `json:"after,omitempty"` // the page begins behind this name
	Limit int    `json:"limit,omitempty" pq:"page=100"`
}

// SourcesPage is the answer to a SourcesRequest.
type SourcesPage struct {
	Sources []Source `json:"sources"`
	Next    string   `json:"next,omitempty"` // After of the next page; "": this is the last page
}

// SourceNamed is the answer to a request after which the source is gone.
type SourceNamed struct {
	Queue string `json:"queue"`
	Name  string `json:"name"`
}

// MaxSourcesPage bounds a page of sources.
const MaxSourcesPage = 100

// ItemSource is the message of which a source has made an item, or the item that it has taken from a link.
type ItemSource struct {
	Name    string    `json:"name"` // the name of the source
	Subject string    `json:"subject,omitempty"`
	Seq     uint64    `json:"seq,omitempty"` // the number of the message in the stream
	Time    time.Time `json:"time,omitzero"`
	MsgID   string    `json:"msg_id,omitempty"`
	ID      string    `json:"id,omitempty"` // the id that the item had at the giver of the link
}

// ReadItemSource reads one header of an item and adds it to what is known about the item's message, nil: nothing.
// It returns of unchanged if the header is not about the message.
func ReadItemSource(of *ItemSource, header, value string) (_ *ItemSource, err error) {
	var read ItemSource
	if of != nil {
		read = *of
	}
	switch header {
	case HeaderSource:
		read.Name = value
	case HeaderSourceSubject:
		read.Subject = value
	case HeaderSourceSeq:
		read.Seq, err = strconv.ParseUint(value, 10, 64)
	case HeaderSourceTime:
		read.Time, err = time.Parse(time.RFC3339Nano, value)
	case HeaderSourceMsgID:
		read.MsgID = value
	case HeaderSourceID:
		read.ID = value
	default:
		return of, nil
	}
	return &read, err
}
