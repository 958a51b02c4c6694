package bridge

import (
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/pqbridge/pqbridge/protocol"
)

var errShedding = &failure{code: 503, text: "more requests arrive than this bridge can refuse, nothing was done: try again in a moment"}

// sheddingHeader is the answer to a push while the bridge sheds load.
var sheddingHeader = nats.Header{
	protocol.HeaderStatus:      {strconv.Itoa(errShedding.code)},
	protocol.HeaderDescription: {errShedding.describe()},
	micro.ErrorHeader:          {errShedding.text},
	micro.ErrorCodeHeader:      {strconv.Itoa(errShedding.code)},
}

// refusePush refuses a push unread, while the bridge sheds load.
func (d *dispatcher) refusePush(m *nats.Msg) {
	d.stats.refusedUnread(verbPush, errShedding)
	if m.Reply == "" || !d.replies.answers(m.Reply) {
		d.events.lost(d.meantQueue(m.Subject), errShedding)
		return
	}
	d.publish(&nats.Msg{Subject: m.Reply, Header: sheddingHeader})
}
