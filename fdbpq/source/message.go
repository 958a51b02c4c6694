package source

import (
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq"
)

// Message is a message of the stream.
type Message struct {
	Mark
	Item    fdbpq.NewItem
	Missed  int64 // messages between the one before and this one, which the stream has dropped
	None    bool  // it is no item
	Refused error // why it can be no item: it becomes a dead letter
	Large   error // why it can be no dead letter either
}

// Mark is what a source knows of a message: enough to notice that the stream has another one
// in its place.
type Mark struct {
	Seq     uint64
	Time    int64  // at which the stream got it
	Subject uint64 // a hash of its subject
	Content uint32 // CRC-32C of its headers and payload

	// Where the source takes from a link, Seq is the number of the last batch, and these say the rest:
	Batch string // the id of that
	Part  int64  // items of the batch behind it that it is done with
	Next  string // the id of that one, if Part is not 0
}

// what names a message of a source, or the last item of a link.
func (m *Mark) what() string {
	if m.Next != "" {
		return fmt.Sprintf("item %d of batch %d", m.Part, m.Seq+1)
	}
	return fmt.Sprintf("message %d", m.Seq)
}
