package pops

import (
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/listening"
)

// A client that waits for a pop may go without a word. The server is asked about it three times: at intervals while the pop waits
// ([Waits.Sweep]), before a transaction tries to serve it (attempt), and before a transaction with items for it commits
// (transaction.Check).

// ErrGone is the end of a pop whose client has gone. It is counted, not sent.
var ErrGone = &failure.Failure{Code: 408, Text: "the client stopped listening for its answer"}

// question is a question to the server about the clients of pops.
type question struct {
	asked *listening.Question // nil: nobody was asked
}

// ask asks about the clients of some pops, and does not wait for the answer.
func (q *question) ask(sight *listening.Sight, of []*pop) {
	replies := make([]string, len(of))
	for i, r := range of {
		replies[i] = r.Msg.Reply
	}
	q.asked = sight.Ask(replies)
}

// hear waits briefly for the answer, and returns the reply subjects of the clients that have gone. It reports whether the server
// has answered in time.
func (q *question) hear() (gone map[string]bool, answered bool) {
	replies, answered := q.asked.Gone()
	q.asked = nil
	gone = make(map[string]bool, len(replies))
	for _, reply := range replies {
		gone[reply] = true
	}
	return gone, answered
}

// drop forgets the question, whose answer nobody needs.
func (q *question) drop() {
	q.asked.Close()
	q.asked = nil
}
