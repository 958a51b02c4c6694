package pops

import (
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/listening"
	"github.com/pqbridge/pqbridge/bridge/internal/waiting"
)

// askFirst is how many waiting pops the bridge asks about before a transaction serves them. Usually one item has
// arrived. If there are items for more pops, the transaction asks about those.
const askFirst = 8

// awayPause is the time between looks whether the connection is back.
const awayPause = 100 * time.Millisecond

// attempt is the attempt of a transaction to serve waiting pops. It begins with a question about the clients of the first ones.
type attempt struct {
	waiting.Attempt[*pop]
	of       *Waits
	queue    string
	asked    int      // the first pops, about which the question is
	question question // about their clients
	silent   bool     // the server did not say in time which clients have gone
}

// newAttempt returns the waiting pops that the next transaction tries to serve, see hear. arrived says that there may be an item for
// them.
//
// Without a connection no pop can be served, and it is unknown which clients will be back.
func newAttempt(w *Waits, queue string, arrived bool) attempt {
	a := attempt{of: w, queue: queue}
	if w.sight.Away() {
		if w.line.WaitingAt(queue) > 0 {
			w.line.Retry(queue, awayPause)
		}
		return a
	}
	a.Attempt = w.line.Attempt(queue)
	if arrived || !a.Watched {
		a.ask(askFirst)
	}
	return a
}

// ask asks about the clients of the first pops.
func (a *attempt) ask(first int) {
	a.asked = min(first, len(a.Pops))
	a.question.ask(a.of.sight, a.Pops[:a.asked])
}

// hear drops pops whose clients have gone. If all clients of a question have gone, it asks about the next ones, as far as it may.
// Otherwise it reports false.
func (a *attempt) hear(mayAsk bool) (enough bool) {
	for enough = a.dropGone(); !enough; enough = a.dropGone() {
		if len(a.Pops) == 0 {
			a.Attempt = a.of.line.Attempt(a.queue)
		}
		if len(a.Pops) > 0 && !mayAsk {
			break
		}
		a.ask(len(a.Pops))
	}
	now := time.Now()
	for _, r := range a.Pops {
		r.BeginAttempt(now)
	}
	return enough
}

// dropGone waits for the answer to the question of an attempt, and drops pops whose clients have gone. It reports whether one of
// the others may be there: the server has not answered in time, or there is no question, or no pop.
func (a *attempt) dropGone() bool {
	if a.question.asked == nil || a.asked == 0 {
		return true
	}
	gone, answered := a.question.hear()
	there, left := false, a.Pops[:0]
	for i, r := range a.Pops {
		if i < a.asked && gone[r.Msg.Reply] {
			a.of.line.Remove(r.place)
			a.of.Done(&r.Request, ErrGone)
			continue
		}
		r.asked = i < a.asked && answered
		there = there || i < a.asked
		left = append(left, r)
	}
	a.Pops, a.silent = left, !answered
	return there || !answered
}

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
