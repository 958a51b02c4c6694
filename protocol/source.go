package protocol

import (
	"encoding/json"
	"strconv"
	"time"
)

// Source feeds a queue from a stream, or from a queue of another store by a [Link] of that.
type Source struct {
	Name   string                     `json:"name"`
	Remote string                     `json:"remote"`
	Stream string                     `json:"stream,omitempty"`
	Queue  string                     `json:"queue,omitempty"` // with the prefix of its pqd
	Link   string                     `json:"link,omitempty"`
	Mode   string                     `json:"mode,omitempty"`
	Filter []string                   `json:"filter,omitempty"`
	Start  json.RawMessage            `json:"start,omitempty"` // "first", "new", {"seq":n} or {"time":t}
	Map    map[string]json.RawMessage `json:"map,omitempty"`
	Batch  int                        `json:"batch"`
	Paused bool                       `json:"paused"`

	State  string    `json:"state"`
	Reason string    `json:"reason,omitempty"` // why it is so
	Since  time.Time `json:"since,omitzero"`
	Seq    uint64    `json:"seq"`           // the last message that it is done with, or the last batch of a link
	Time   time.Time `json:"time,omitzero"` // of that
	Last   uint64    `json:"last"`          // of the stream, as the runner saw it
	Lag    uint64    `json:"lag"`           // messages from Seq to Last, or items that are ready at the link
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
	SourceStarting = "starting" // nobody has spoken with the stream yet
	SourcePaused   = "paused"
	SourceBlocked  = "blocked"   // the queue or the store is full
	SourceFailing  = "failing"   // the stream cannot be read
	SourceNoRunner = "no_runner" // no bridge runs it
	SourceStopped  = "stopped"   // a person has to look
)

// Why a source has stopped: what its Reason begins with, in front of a colon.
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

// SourceChange has the fields of a source to change. What is nil stays as it is.
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

// SourceValue is the value of a header of the message, or of a token of its subject.
type SourceValue struct {
	Header  string `json:"header,omitempty"`
	Token   int    `json:"token,omitempty"` // from 1
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
	After string `json:"after,omitempty"` // begin behind this name
	Limit int    `json:"limit,omitempty"`
}

// SourcesPage answers it.
type SourcesPage struct {
	Sources []Source `json:"sources"`
	Next    string   `json:"next,omitempty"` // After of the next page; "" when this is the last one
}

// SourceNamed answers a request about a source that is gone.
type SourceNamed struct {
	Queue string `json:"queue"`
	Name  string `json:"name"`
}

// MaxSourcesPage bounds a page of sources.
const MaxSourcesPage = 100

// ItemSource is the message of which a source has made an item, or the item that it has taken from a link.
type ItemSource struct {
	Name    string    `json:"name"` // of the source
	Subject string    `json:"subject,omitempty"`
	Seq     uint64    `json:"seq,omitempty"` // in the stream
	Time    time.Time `json:"time,omitzero"`
	MsgID   string    `json:"msg_id,omitempty"`
	ID      string    `json:"id,omitempty"` // that the item had
}

// ReadItemSource reads a header of an item into what is known of its message, nil: nothing. It returns that if the header is not about it.
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
