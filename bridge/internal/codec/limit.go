package codec

import (
	"sync/atomic"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// The bridge admits only items that it can answer: with the headers that answers add,
// after every move, and as a dead letter. The store may still have a larger item, from
// a server with a larger max_payload or from a program without a server. Such an item
// stays in its queue: a pop without a lease would lose it.

// replyReserve of the server's max_payload is kept for the headers that answers add to
// those of the item. A very long prefix needs more.
const replyReserve = 1 << 10

// The longest values of an answer's headers, in bytes.
const (
	maxIDText     = 48 // of an id that a push made; an imported one may be longer
	maxNumberText = 20
	maxTimeText   = len("2006-01-02T15:04:05.999999999Z")
	maxQueueName  = subjects.MaxQueue + len("-dead")
	connText      = 8

	// maxTokenText is the length of a lease's token without the item's id: flags,
	// durations, a band and numbers, in base64.
	maxTokenText = 102
)

// lineOf is the size of a header whose value has this many bytes.
func lineOf(name string, value int) int { return len(name) + value + lineFrame }

// answerFrame is the size of an item's answer without the item and without the values
// whose length depends on the item.
var answerFrame = blockFrame +
	lineOf(protocol.HeaderAck, len("..ack..")+connText) + lineOf(protocol.HeaderLeaseExpires, maxTimeText) + lineOf(protocol.HeaderFence, maxNumberText) +
	lineOf(protocol.HeaderID, 0) + lineOf(protocol.HeaderPriority, maxNumberText) + lineOf(protocol.HeaderDeliveries, maxNumberText) +
	lineOf(protocol.HeaderTimeStamp, maxTimeText) + lineOf(protocol.HeaderNumPending, maxNumberText)

// texts are the lengths of the values that depend on the item.
type texts struct {
	queue, id, key           int
	reason, origin, originID int // of a dead letter
}

// answerSize bounds the bytes that the answer adds to an item.
func (t texts) answerSize(prefix int) int {
	// A token has the place that the id names, and numbers.
	token := t.id + maxTokenText
	n := answerFrame + prefix + t.queue + token + t.id
	if t.key > 0 {
		n += lineOf(protocol.HeaderKey, t.key) + lineOf(protocol.HeaderKeyFence, maxNumberText)
	}
	if t.reason+t.origin+t.originID > 0 {
		n += lineOf(protocol.HeaderDeadReason, t.reason) + lineOf(protocol.HeaderOrigin, t.origin) + lineOf(protocol.HeaderOriginID, t.originID) +
			lineOf(protocol.HeaderDeadAt, maxTimeText) + lineOf(protocol.HeaderDeadNumber, maxNumberText)
	}
	return n
}

// textsOf are the lengths for an item of a queue.
func textsOf(queue string, item *fdbpq.Item) texts {
	var text [2 * maxIDText]byte
	t := texts{queue: len(queue), id: len(appendID(text[:0], item.ID)), key: len(item.Key)}
	if dead := item.Dead; dead != nil {
		t.reason, t.origin, t.originID = len(headerLine(dead.Reason)), len(dead.Origin), len(dead.OriginID)
	}
	return t
}

// Limit is the size that the answer with an item may have.
type Limit struct {
	server     func() int64
	prefix     int
	maxPayload atomic.Int64 // the server's, at the last refresh
}

// Refresh reads the server's max_payload: the connection may have changed to another
// server. Each transaction does it once.
func (l *Limit) Refresh() { l.maxPayload.Store(l.server()) }

// MaxPayload is the server's max_payload at the last refresh.
func (l *Limit) MaxPayload() int { return int(l.maxPayload.Load()) }

// Payload is the size of the largest payload that an item may have.
func (l *Limit) Payload() int64 {
	return min(protocol.MaxPayload, l.maxPayload.Load()-int64(l.reserve(0, 0, nil)))
}

// reserve is the size to keep for the headers of answers with an admitted item, whose
// id and key have these lengths. The item may be a dead letter already, or become one.
func (l *Limit) reserve(id, key int, dead *fdbpq.DeadLetter) int {
	id = max(id, maxIDText)
	t := texts{queue: maxQueueName, id: id, key: key, reason: protocol.MaxReason, origin: maxQueueName, originID: id}
	if dead != nil {
		t.reason = max(t.reason, len(headerLine(dead.Reason)))
		t.origin = max(t.origin, len(dead.Origin))
		t.originID = max(t.originID, len(dead.OriginID))
	}
	return max(replyReserve, t.answerSize(l.prefix))
}

// BundleRoom is how many bytes of a bundle's answer its items may have.
func (l *Limit) BundleRoom() int { return max(1, l.MaxPayload()-bundleFrame) }

// bundleFrame is the size of the header block of a bundle.
var bundleFrame = blockFrame + lineOf(protocol.HeaderBundle, maxNumberText)

// ItemFrame bounds the bytes that a bundle adds to an item that a push has made.
func (l *Limit) ItemFrame(queue string) int {
	return l.frame(texts{queue: len(queue), id: maxIDText})
}

// frame bounds the bytes that a bundle adds to an item.
func (l *Limit) frame(t texts) int {
	return t.answerSize(l.prefix) - blockFrame + len("  \n") + 2*len("8388608")
}

// bundled bounds the bytes of an item in a bundle.
func (l *Limit) bundled(queue string, item *fdbpq.Item) int {
	values := asked(item)
	n := int(item.Size) + l.frame(textsOf(queue, item)) + values.room()
	if item.Progress != "" {
		n += lineOf(protocol.HeaderProgress, len(item.Progress)) + lineOf(protocol.HeaderProgressAt, maxTimeText)
	}
	return n
}

// asked are the values that an answer to a pop shows, see [HeaderWriter.Asks].
func asked(item *fdbpq.Item) shown { return shown{ResultTTL: item.ResultTTL, Cost: item.Cost} }

// Bundled returns how many of the first items a bundle can carry.
func (l *Limit) Bundled(queue string, items []fdbpq.Item) int {
	room := l.BundleRoom()
	for i := range items {
		room -= l.bundled(queue, &items[i])
		if room < 0 {
			return i
		}
	}
	return len(items)
}

// ErrBundleRoom refuses a bundle that has no room for its first item.
var ErrBundleRoom = &failure.Failure{Code: 413, Text: "no bundle has room for the item: pop it without " + protocol.HeaderBundle}

// Admit refuses an item that no answer could carry, an answer that shows all its values least of all.
func (l *Limit) Admit(payload, headers []byte, key string, values shown, id int, dead *fdbpq.DeadLetter) *failure.Failure {
	if len(payload) > protocol.MaxPayload {
		return failure.Newf(413, "the payload has %d bytes: allowed are %d", len(payload), protocol.MaxPayload)
	}
	size, reserve := len(payload)+len(headers), l.reserve(id, len(key), dead)+values.room()
	if most := l.MaxPayload() - reserve; size > most {
		return failure.Newf(413, "payload and headers have %d bytes: allowed are %d, the server's max_payload without %d for the headers of answers",
			size, max(0, most), reserve)
	}
	return nil
}

// Unanswerable returns why no answer can carry an item, or nil.
func (l *Limit) Unanswerable(queue string, item *fdbpq.Item) *failure.Failure {
	return l.unanswerable(queue, item, asked(item))
}

// Unshowable does the same for an answer that shows an item by its id, with all its values.
func (l *Limit) Unshowable(queue string, item *fdbpq.StoredItem) *failure.Failure {
	return l.unanswerable(queue, &item.Item, shownOfStored(item))
}

func (l *Limit) unanswerable(queue string, item *fdbpq.Item, values shown) *failure.Failure {
	if f := uncarried(item); f != nil {
		return f
	}
	most := l.maxPayload.Load() - int64(values.room())
	if item.Dead == nil && item.Size <= most-2*replyReserve {
		return nil
	}
	t := textsOf(queue, item)
	if size := item.Size + int64(t.answerSize(l.prefix)); size > most {
		return failure.Newf(413, "item %s has %d bytes, %d with the headers of its answer: the server's max_payload is %d; it was left in the queue",
			item.ID, item.Size, size, most)
	}
	return nil
}

// ErrTooManyToRepeat: the answer to the first attempt was no bundle, or the server's
// max_payload was larger.
var ErrTooManyToRepeat = &failure.Failure{Code: 413, Text: "no bundle has room for the items of the first pop with this id: ask for them with " +
	protocol.HeaderBatch + " instead of " + protocol.HeaderBundle}

// ErrTooLargeToRepeat: the server's max_payload was larger when the first attempt was answered.
var ErrTooLargeToRepeat = &failure.Failure{Code: 413, Text: "an item of the first pop with this id does not fit into an answer any more: " +
	"repeat the pop when the server's max_payload is as large as it was"}
