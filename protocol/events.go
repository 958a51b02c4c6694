package protocol

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// EventKind is a kind of event that bridges publish.
type EventKind struct {
	Type  string // the type, without [EventTypePrefix] in front
	Queue bool   // it is about a queue
	Body  any    // a value of the type of the body
	Doc   string // a sentence
}

// Events are all kinds of events for programs and people. What a viewer may ask for, it hears of.
var Events = []EventKind{
	{"dead", true, ItemEvent{}, "An item became a dead letter, or was dropped as one."},
	{"expired", true, ItemEvent{}, "An item outlived its TTL and is gone."},
	{"lease_lost", true, ItemEvent{}, "A lease ran out."},
	{"revoked", true, ItemEvent{}, "A lease was taken away."},
	{"cancelled", true, ItemEvent{}, "An item was cancelled."},
	{"evicted", true, ItemEvent{}, "An item was dropped because the queue was full."},
	{EventScheduleMissed, true, ScheduleEvent{}, "Times of a schedule passed without an item."},
	{EventSourceStopped, true, SourceEvent{}, "A source has stopped."},
	{EventSourceSkipped, true, SourceEvent{}, "A stream has lost messages that its source had not read."},
	{EventSourcePoisoned, true, SourceEvent{}, "Messages of a source became dead letters."},
	{EventLinkStopped, true, LinkEvent{}, "A link gives nothing until a person has looked."},
	{EventPurged, true, QueueEvent{}, "All items of a queue are gone: it was purged, or deleted."},
	{EventLost + "-<holder>", true, LostEvent{}, "Somebody else has ended a lease of the holder: a bell for the holder, who asks the bridge whether that is so."},
	{EventQueueDeleted, true, QueueEvent{}, "A queue has deleted itself, because it was empty and unused."},
	{EventError, true, ErrorEvent{}, "Pushes without a reply subject were not stored."},
	{EventActive, false, ActiveEvent{}, "A node of a replicated store has become active."},
	{EventClock, false, ClockEvent{}, "A pqd has set the clock of schedules to its own."},
}

// Subject returns the subject of the event, without the prefix in front.
func (e *EventKind) Subject() string {
	if e.Queue {
		return "<queue>.event." + e.Type
	}
	return "_sys.event." + e.Type
}

// EventTypePrefix begins the type of an event in its body.
const EventTypePrefix = "io.pq.v1.event."

// EventError is the type of an [ErrorEvent]. The types of an ItemEvent are in the store, package fdbpq.
const EventError = "error"

// ItemEvent is published when something happened to an item.
type ItemEvent struct {
	Type       string    `json:"type"`
	Time       time.Time `json:"time"`
	Queue      string    `json:"queue"`
	ID         string    `json:"id"`
	Priority   int64     `json:"priority"`
	Deliveries int64     `json:"deliveries"`
	Endings              // how the leases of the item ended, the last one included
	Reason     string    `json:"reason,omitempty"`
	DeadLetter string    `json:"dead_letter,omitempty"`
	Holder     string    `json:"holder,omitempty"`    // of a lease that its holder has lost
	NotBefore  time.Time `json:"not_before,omitzero"` // when the item is ready again
}

// ScheduleEvent is published when times of a schedule passed without an item.
type ScheduleEvent struct {
	Type     string    `json:"type"`
	Time     time.Time `json:"time"`
	Queue    string    `json:"queue"`
	Schedule string    `json:"name"`
	From     time.Time `json:"from"` // the first of these times, and the last
	To       time.Time `json:"to"`
	Count    int64     `json:"count"`
	AtLeast  bool      `json:"at_least,omitempty"` // there may be more than Count says
	Reason   string    `json:"reason"`             // why they passed: down, full or overlap
}

// EventScheduleMissed is the type of a [ScheduleEvent].
const EventScheduleMissed = "schedule_missed"

// ClockEvent is published by a pqd that has set the clock of schedules to its own.
type ClockEvent struct {
	Type string    `json:"type"`
	Time time.Time `json:"time"`
	By   string    `json:"by"` // by how much time, such as "24h0m0s", or "-1h0m0s" backward
}

// SourceEvent is published when something happened to a source.
type SourceEvent struct {
	Type   string    `json:"type"`
	Time   time.Time `json:"time"`
	Queue  string    `json:"queue"`
	Source string    `json:"name"`
	Count  int64     `json:"count,omitempty"`  // how many messages were skipped, or are poison
	Reason string    `json:"reason,omitempty"` // why the source stopped
	Text   string    `json:"text,omitempty"`
}

// The types of a [SourceEvent].
const (
	EventSourceStopped  = "source_stopped"
	EventSourceSkipped  = "source_skipped"
	EventSourcePoisoned = "source_poisoned"
)

// LinkEvent is published when a link gives nothing to its taker until a person has looked.
type LinkEvent struct {
	Type   string    `json:"type"`
	Time   time.Time `json:"time"`
	Queue  string    `json:"queue"`
	Link   string    `json:"name"`
	Reason string    `json:"reason"` // why it stopped: giver_behind or taker_behind
	Text   string    `json:"text"`
}

// EventLinkStopped is the type of a [LinkEvent].
const EventLinkStopped = "link_stopped"

// QueueEvent is published when something happened to a queue as a whole.
type QueueEvent struct {
	Type  string    `json:"type"`
	Time  time.Time `json:"time"`
	Queue string    `json:"queue"`
}

// EventPurged is the type of a [QueueEvent]: all items of the queue are gone, and with them their leases.
const EventPurged = "purged"

// LostEvent is published when a lease of a named holder was ended by somebody else. It is a bell, and no proof: events can be forged, come
// late, twice or not at all. Who hears it extends the lease, and believes that answer. Its subject has [BellOf] the holder, so that a
// holder hears of its own leases alone.
type LostEvent struct {
	Type   string    `json:"type"`
	Time   time.Time `json:"time"`
	Queue  string    `json:"queue"`
	ID     string    `json:"id"`
	Fence  int64     `json:"fence"` // of the lease
	Cause  string    `json:"cause"` // cancelled, removed or revoked
	Reason string    `json:"reason,omitempty"`
}

// EventLost is the type of a [LostEvent].
const EventLost = "lost"

// BellOf is the last token of the subject of a [LostEvent] to a holder: an event's token cannot have all characters of a name.
func BellOf(holder string) string {
	sum := sha256.Sum256([]byte(holder))
	return EventLost + "-" + hex.EncodeToString(sum[:8])
}

// EventQueueDeleted is the type of a [QueueEvent]: the queue was empty and unused for its expire_empty.
const EventQueueDeleted = "queue_deleted"

// EventClock is the type of a [ClockEvent].
const EventClock = "clock"

// ErrorEvent is published when pushes without a reply subject were not stored.
type ErrorEvent struct {
	Type  string    `json:"type"`
	Time  time.Time `json:"time"`
	Queue string    `json:"queue"`
	Code  int       `json:"code"`
	Error string    `json:"error"` // the error of the last of these pushes
	Count int       `json:"count"` // how many pushes there were since the event before
}
