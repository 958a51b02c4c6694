package bridge

import (
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/protocol"
)

var errShedding = &failure.Failure{Code: 503, Text: "more requests arrive than this bridge can refuse, nothing was done: try again in a moment"}

// sheddingHeader is the answer to a push while the bridge sheds load.
var sheddingHeader = nats.Header{
	protocol.HeaderStatus:      {strconv.Itoa(errShedding.Code)},
	protocol.HeaderDescription: {errShedding.Describe()},
	micro.ErrorHeader:          {errShedding.Text},
	micro.ErrorCodeHeader:      {strconv.Itoa(errShedding.Code)},
}

// refusePush refuses a push unread, while the bridge sheds load.
func (d *dispatcher) refusePush(m *nats.Msg) {
	d.Stats.RefusedUnread(&verbPush.Verb, errShedding)
	if m.Reply == "" || !d.replies.answers(m.Reply) {
		d.Events.Lost(d.meantQueue(m.Subject), 1, errShedding)
		return
	}
	d.Publish(&nats.Msg{Subject: m.Reply, Header: sheddingHeader})
}
