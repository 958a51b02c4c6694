package source

import "github.com/pqbridge/pqbridge/fdbpq"

// Message is a message of the stream.
type Message struct {
	Mark
	Item    fdbpq.NewItem
	Missed  int64 // messages between the one before and this one, which the stream has dropped
	None    bool  // it is no item
	Refused error // why it can be no item: it becomes a dead letter
	Large   error // why it can be no dead letter either
}
