package pops

import (
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/subjects"
)

// Giver serves one pop in a way of its own: it gives items of the queue to a taker elsewhere, and answers by itself. All else is as
// for other pops: the request waits in the same line, and its transaction has others.
type Giver interface {
	// Read reads the request, and returns the pop that it means for the queue.
	Read(m *nats.Msg, verb string) (codec.PopRequest, *failure.Failure)

	// Give gives items within a transaction, which may run again.
	Give(*Giving) (Given, error)

	// Keep drops what is not needed while the request waits.
	Keep()

	// Answer answers with what the last run of Give has given.
	Answer(*desk.Lane, *request.Request) *failure.Failure

	// Refused is called when the request is refused instead.
	Refused(*desk.Lane, *request.Request, *failure.Failure)
}

// Giving is a transaction that gives items.
type Giving struct {
	Tx      kv.Tx
	Store   *fdbpq.Store
	Queue   fdbpq.Queue
	Subject *subjects.Subject
	Items   fdbpq.Selection
	Limit   *codec.Limit
}

// Given are the items that were given, and what else happened.
type Given struct {
	Items    []fdbpq.Item
	Bytes    int
	Repeated bool // an earlier transaction has given them

	Failure *failure.Failure // why there are none
	Final   bool             // and no wait would bring any
	Retry   time.Duration    // until there may be some; 0: unknown
	Fits    int              // so many items fit into the answer, fewer than were given; 0: all do
	More    bool             // another transaction has to look on

	Ended  int // items that the taker has now
	Events []fdbpq.Event
}
