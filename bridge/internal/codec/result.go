package codec

import (
	"math"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
)

// Result writes the headers of a result. display turns a store time into wall time.
func (w *HeaderWriter) Result(r *fdbpq.Result, display func(int64) time.Time) {
	w.string(protocol.HeaderOutcome, string(r.Finish))
	w.time(protocol.HeaderFinishedAt, display(r.Finished))
	w.number(protocol.HeaderDeliveries, r.Deliveries)
	if r.Kept == fdbpq.KeptDropped {
		w.string(protocol.HeaderResult, string(r.Kept))
	}
	w.known(protocol.HeaderDeadReason, headerLine(r.Reason))
	if r.Finish == fdbpq.FinishDead {
		w.known(protocol.HeaderDeadLetter, r.Next)
	} else {
		w.known(protocol.HeaderNext, r.Next)
	}
	w.known(protocol.HeaderNextID, r.NextID)
}

// ReadWait reads a request without options but for how long it may wait.
func ReadWait(m *nats.Msg, verb string) (wait time.Duration, f *failure.Failure) {
	if wait, f = readWaitAlone(m.Header, verb); f == nil {
		f = noBody(m, verb)
	}
	return wait, f
}

// readWaitAlone reads for how long a request may wait, which is its only option among the headers.
func readWaitAlone(header nats.Header, verb string) (wait time.Duration, f *failure.Failure) {
	for key, values := range header {
		switch {
		case key == protocol.HeaderWait:
			value, f := single(key, values)
			if f == nil {
				wait, f = ReadDuration(key, value, 0, math.MaxInt64)
			}
			if f != nil {
				return 0, f
			}
		case strings.HasPrefix(key, protocol.HeaderPrefix):
			return 0, failure.Newf(400, "header %s is none of %s: expected %s", failure.Quote(key), verb, protocol.HeaderWait)
		}
	}
	return min(wait, protocol.MaxWait), nil
}

// resultRoom is how many bytes of a result an answer can carry: what comes with them has short headers.
func (l *Limit) resultRoom() int { return max(0, l.MaxPayload()-replyReserve) }

// admitResult refuses a result that no answer could carry.
func (l *Limit) admitResult(result []byte) *failure.Failure {
	return checkSize("a result", len(result), min(protocol.MaxPayload, l.resultRoom()))
}

// UnshowableResult returns why no answer can carry a result, or nil: it came over a server with a larger max_payload.
func (l *Limit) UnshowableResult(id string, r *fdbpq.Result) *failure.Failure {
	if room := l.resultRoom(); len(r.Body) > room {
		return failure.Newf(413, "the result of item %s has %d bytes, and the server's max_payload of %d has room for %d; it stays there",
			id, len(r.Body), l.MaxPayload(), room)
	}
	return nil
}
