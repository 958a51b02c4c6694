package edits

import (
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/reserve"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
)

// change is a request that changes an item or a queue, and is answered in JSON.
type change struct {
	request.Request
	body []byte // of the answer
}

func (c *change) Answer(re *request.Responder) { re.AnswerBody(&c.Request, c.body) }
func (c *change) SettlesLease() *fdbpq.Lease   { return nil }
func (c *change) MakesRoom(acts bool) bool     { return reserve.Serves(c.Subject.Verb, acts) }
func (c *change) EndsItems(acts bool) bool     { return reserve.ServesLast(c.Subject.Verb, acts) }
func (c *change) Keeps() int                   { return 0 }
func (c *change) EndsLease() bool              { return false }
func (c *change) Tally(*request.Tally)         {}

// did sets the answer to a change. A missing queue is an answer, too; any other error
// fails the transaction.
func (c *change) did(answer any, err error) error {
	if err == nil {
		c.body, err = protocol.Marshal(answer)
	}
	return desk.AnswerNoQueue(&c.Request, err)
}
