package fdbpq

// Event is a change of an item that no consumer asked for. It takes effect when the
// transaction that reports it commits.
type Event struct {
	Type       EventType
	Queue      string
	ID         ID
	Priority   int64
	Deliveries int64
	Endings           // of EventDead, EventLeaseLost and EventRevoked: with the lease that has ended
	Reason     string // of EventDead and EventRevoked: why
	Cause      string // of EventDead: what the item failed of last
	DeadLetter string // of EventDead: queue that the item went to; "" when it was dropped
	Holder     string // of EventLeaseLost and EventRevoked: what the holder of the lease called itself
	NotBefore  int64  // of these: store time from which on the item is ready; 0: it is, or it has left the queue
}

// EventType says what happened to the item.
type EventType string

const (
	EventDead      EventType = "dead"       // the item became a dead letter, or was dropped as one
	EventExpired   EventType = "expired"    // the item outlived its TTL
	EventLeaseLost EventType = "lease_lost" // a lease ran out
	EventRevoked   EventType = "revoked"    // a lease was taken away
	EventEvicted   EventType = "evicted"    // the queue was full and this was its least urgent item
	EventFinished  EventType = "finished"   // the queue keeps what became of the item, see [Queue.Result]. Remove and Drop do not report it
)
