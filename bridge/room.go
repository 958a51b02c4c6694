package bridge

import (
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// What is taken in can be answered: with the headers that answers add, after
// every move, and as a dead letter. An item that is in the store all the same,
// because it came in by way of a server that lets larger messages pass or by a
// program without one, is left where it is: a plain pop would lose it.

const (

	// replyReserve of the server's max_payload is kept for the headers that
	// answers add to those of the item. A very long prefix needs more.
	replyReserve = 1 << 10
)

// Bytes of what the headers of an answer say, at most.
const (
	maxIDText     = 48 // of an id that a push made; an import may bring longer ones
	maxNumberText = 20
	maxTimeText   = len("2006-01-02T15:04:05.999999999Z")
	maxQueueName  = subjects.MaxQueue + len("-dead")
	connText      = 8

	// maxTokenText is what the token of a lease has beside the item's id: flags,
	// durations, a band and numbers, in base64.
	maxTokenText = 102
)

// lineOf is what a header takes with a value of so many bytes.
func lineOf(name string, value int) int { return len(name) + value + lineFrame }

// answerFrame is what an item's answer takes besides the item and the values
// that differ in length from item to item.
var answerFrame = blockFrame +
	lineOf(protocol.HeaderAck, len("..ack..")+connText) + lineOf(protocol.HeaderLeaseExpires, maxTimeText) + lineOf(protocol.HeaderFence, maxNumberText) +
	lineOf(protocol.HeaderID, 0) + lineOf(protocol.HeaderPriority, maxNumberText) + lineOf(protocol.HeaderDeliveries, maxNumberText) +
	lineOf(protocol.HeaderTimeStamp, maxTimeText) + lineOf(protocol.HeaderNumPending, maxNumberText)

// texts are the lengths of those values.
type texts struct {
	queue, id                int
	reason, origin, originID int // of a dead letter
}

// answerSize bounds what the answer adds to an item.
func (t texts) answerSize(prefix int) int {
	// A token has the place that the id names, and numbers.
	token := t.id + maxTokenText
	n := answerFrame + prefix + t.queue + token + t.id
	if t.reason+t.origin+t.originID > 0 {
		n += lineOf(protocol.HeaderDeadReason, t.reason) + lineOf(protocol.HeaderOrigin, t.origin) + lineOf(protocol.HeaderOriginID, t.originID)
	}
	return n
}

// room knows what fits into an answer.
type room struct {
	nc     *nats.Conn
	prefix int
	most   atomic.Int64 // the server's max_payload when it was looked at
}

func (r *room) init(nc *nats.Conn, prefix string) {
	r.nc, r.prefix = nc, len(prefix)
	r.look()
}

// look asks what the server allows, which may be another server by now. It is
// done once for a transaction.
func (r *room) look() { r.most.Store(r.nc.MaxPayload()) }

// payload is the most that an item may have.
func (r *room) payload() int64 {
	return min(protocol.MaxPayload, r.most.Load()-int64(r.reserve(0, nil)))
}

// reserve is what to keep for the headers of answers to an item that comes in,
// under an id of this length, dead already or not. It may die here, too.
func (r *room) reserve(id int, dead *fdbpq.DeadLetter) int {
	id = max(id, maxIDText)
	t := texts{queue: maxQueueName, id: id, reason: protocol.MaxReason, origin: maxQueueName, originID: id}
	if dead != nil {
		t.reason = max(t.reason, len(dead.Reason))
		t.origin = max(t.origin, len(dead.Origin))
		t.originID = max(t.originID, len(dead.OriginID))
	}
	return max(replyReserve, t.answerSize(r.prefix))
}

// admit refuses what could not be answered.
func (r *room) admit(payload, headers []byte, id int, dead *fdbpq.DeadLetter) *failure {
	if len(payload) > protocol.MaxPayload {
		return failf(413, "the payload has %d bytes: allowed are %d", len(payload), protocol.MaxPayload)
	}
	size, reserve := len(payload)+len(headers), r.reserve(id, dead)
	if most := int(r.most.Load()) - reserve; size > most {
		return failf(413, "payload and headers have %d bytes: allowed are %d, the server's max_payload without %d for the headers of answers",
			size, max(0, most), reserve)
	}
	return nil
}

// unanswerable says why an item cannot be sent.
func (r *room) unanswerable(queue string, item *fdbpq.Item) *failure {
	most := r.most.Load()
	if item.Dead == nil && item.Size <= most-2*replyReserve {
		return nil
	}
	t := texts{queue: len(queue), id: len(item.ID.String())}
	if dead := item.Dead; dead != nil {
		t.reason, t.origin, t.originID = len(headerText(dead.Reason)), len(dead.Origin), len(dead.OriginID)
	}
	if size := item.Size + int64(t.answerSize(r.prefix)); size > most {
		return failf(413, "item %s has %d bytes, %d with the headers of its answer: the server's max_payload is %d; it was left in the queue",
			item.ID, item.Size, size, most)
	}
	return nil
}
