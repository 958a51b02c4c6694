package protocol

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
	{"evicted", true, ItemEvent{}, "An item was dropped because the queue was full."},
	{EventScheduleMissed, true, ScheduleEvent{}, "Times of a schedule passed without an item."},
	{EventSourceStopped, true, SourceEvent{}, "A source has stopped."},
	{EventSourceSkipped, true, SourceEvent{}, "A stream has lost messages that its source had not read."},
	{EventSourcePoisoned, true, SourceEvent{}, "Messages of a source became dead letters."},
	{EventLinkStopped, true, LinkEvent{}, "A link gives nothing until a person has looked."},
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
