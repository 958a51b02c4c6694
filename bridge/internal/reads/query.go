package reads

import (
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/protocol"
)

// Query is a request that changes nothing. One that may cost its tenant more than a request has the method Expects, too
// (bridge/dispatch.go).
type Query interface {
	desk.Work

	// Find reads the answer. It may run again, on another state of the store.
	Find(*View) error

	// Bytes is roughly how many bytes the answer has. They end a batch.
	Bytes() int64

	// Answer sends the answer.
	Answer(*Lane)
}

// jsonQuery is a query that is answered in JSON.
type jsonQuery struct {
	request.Request
	body []byte // of the answer
}

func (l *jsonQuery) Bytes() int64    { return int64(len(l.body)) }
func (l *jsonQuery) Answer(by *Lane) { by.AnswerBody(&l.Request, l.body) }

func (l *jsonQuery) answerJSON(body any) (err error) {
	l.body, err = protocol.Marshal(body)
	return err
}
