package fdbpq

// Event is something that happened to an item without its holder's doing. It
// has happened once the transaction that reported it has committed.
type Event struct {
	Type       EventType
	Queue      string
	ID         ID
	Priority   int64
	Deliveries int64
	Reason     string // of a dead item: why
	DeadLetter string // queue a dead item went to; "" when it was dropped
}

// EventType says what happened.
type EventType string

const (
	EventDead      EventType = "dead"       // the item was given up
	EventExpired   EventType = "expired"    // the item outlived its TTL
	EventLeaseLost EventType = "lease_lost" // a lease ran out
	EventEvicted   EventType = "evicted"    // the queue was full and this was its least urgent item
)

func (c *change) note(e Event) {
	e.Queue = c.name
	c.events = append(c.events, e)
}
