package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
)

// readHolder reads the name of a holder.
func readHolder(key, value string) (string, *failure.Failure) {
	if fdbpq.CheckHolder(value) != nil {
		return "", failure.Newf(400, "%s is %s: expected 1 to %d bytes of UTF-8 without control characters", key, failure.Quote(value), fdbpq.MaxHolder)
	}
	return value, nil
}

// ReadHolder reads the name of a holder in a JSON object.
func ReadHolder(name string, value any) (string, *failure.Failure) {
	s, f := ReadString(name, value)
	if f != nil {
		return "", f
	}
	return readHolder(name, s)
}

// TakeOver gives the lease of a +NXT to the holder of the settled lease, unless the +NXT names one.
func (p *PopRequest) TakeOver(holder string) {
	if p.Holder == "" {
		p.Holder = holder
	}
}

// readNack reads the options behind -NAK.
func (s *Settlement) readNack(rest []byte) *failure.Failure {
	if len(rest) == 0 {
		return nil
	}
	if rest[0] != '{' {
		delay, f := ReadDuration("the delay of -NAK", string(rest), 0, fdbpq.MaxDelay)
		s.Delay = &delay
		return f
	}
	return ReadObject("the object behind -NAK", rest, "delay, reason", func(name string, value any) (known bool, f *failure.Failure) {
		switch name {
		case "delay":
			n, f := ReadInteger(name, value, math.MinInt64, math.MaxInt64)
			delay := time.Duration(n)
			if f == nil {
				f = checkDuration(name, delay, 0, fdbpq.MaxDelay)
			}
			s.Delay = &delay
			return true, f
		case "reason":
			s.Reason, f = readReason(name, value)
			return true, f
		}
		return false, nil
	})
}

// readReason reads the reason for the end of a lease.
func readReason(name string, value any) (string, *failure.Failure) {
	reason, f := ReadString(name, value)
	if f == nil && len(reason) > protocol.MaxNackReason {
		f = failure.Newf(400, "%s has %d bytes: allowed are %d", name, len(reason), protocol.MaxNackReason)
	}
	return reason, f
}

// ReadRevoke reads the options of a revoke.
func ReadRevoke(m *nats.Msg, verb string) (r fdbpq.Revocation, f *failure.Failure) {
	f = ReadOptionsOf("revoke", m, verb, "fence, delay, reason", func(name string, value any) (known bool, f *failure.Failure) {
		switch name {
		case "fence":
			r.Fence, f = ReadInteger(name, value, 1, math.MaxInt64)
		case "delay":
			r.Delay = new(time.Duration)
			*r.Delay, f = readDelay(name, value)
		case "reason":
			r.Reason, f = readReason(name, value)
		default:
			return false, nil
		}
		return true, f
	})
	return r, f
}

// ReadCancel reads the options of a cancel.
func ReadCancel(m *nats.Msg, verb string) (c fdbpq.Cancellation, f *failure.Failure) {
	f = ReadOptionsOf("cancel", m, verb, "reason, leased", func(name string, value any) (known bool, f *failure.Failure) {
		switch name {
		case "reason":
			c.Reason, f = readReason(name, value)
		case "leased":
			leased, f := ReadBool(name, value)
			c.Spare = !leased
			return true, f
		default:
			return false, nil
		}
		return true, f
	})
	return c, f
}

// Attempts are the attempts of an item as answers show them, the oldest first.
func Attempts(of fdbpq.Attempts) ([]protocol.Attempt, error) {
	all, err := of.All()
	if err != nil {
		return nil, err
	}
	shown := make([]protocol.Attempt, len(all))
	for i, a := range all {
		shown[i] = protocol.Attempt{N: a.N, End: a.End.UTC(), Holder: a.Holder, Outcome: protocol.Outcome(a.Outcome), Reason: a.Reason}
		if !a.Start.IsZero() {
			shown[i].Start = a.Start.UTC()
		}
	}
	return shown, nil
}

// AttemptsText is the value of a header with the attempts of an item.
func AttemptsText(of fdbpq.Attempts) (string, error) {
	shown, err := Attempts(of)
	if err != nil {
		return "", err
	}
	text, err := protocol.Marshal(shown)
	return string(text), err
}

// readAttempts reads the header of an import: the attempts, or only the number of the last one, which tells nothing
// else about them.
func readAttempts(value string) ([]fdbpq.Attempt, *failure.Failure) {
	if _, err := strconv.ParseInt(value, 10, 64); err == nil {
		return nil, nil
	}
	if len(value) > protocol.MaxAttemptsText {
		return nil, failure.Newf(400, "%s has %d bytes: allowed are %d", protocol.HeaderAttempts, len(value), protocol.MaxAttemptsText)
	}
	if f := checkJSON(protocol.HeaderAttempts, []byte(value)); f != nil {
		return nil, f
	}
	var shown []protocol.Attempt
	d := json.NewDecoder(bytes.NewReader([]byte(value)))
	d.DisallowUnknownFields()
	err := d.Decode(&shown)
	if err == nil {
		if _, after := d.Token(); !errors.Is(after, io.EOF) {
			err = errors.New("there is more behind the array")
		}
	}
	if err != nil {
		return nil, failure.Newf(400, "%s is %s: expected a JSON array of attempts, as get answers them, and nothing behind it", protocol.HeaderAttempts, failure.Quote(value))
	}
	all := make([]fdbpq.Attempt, len(shown))
	for i, a := range shown {
		all[i] = fdbpq.Attempt{N: a.N, Start: a.Start, End: a.End, Holder: a.Holder, Outcome: fdbpq.Outcome(a.Outcome), Reason: a.Reason}
	}
	return all, nil
}

// Headers that only inform are left out if the answer has no room for them: a worker's words must not make its item
// undeliverable.

// Backoff writes how long a leased item stays away if it is given back now, if there is room for the header.
func (w *HeaderWriter) Backoff(lease *fdbpq.Lease, room *int) {
	if lease != nil && lease.Backoff > 0 {
		w.optional(protocol.HeaderBackoff, lease.Backoff.String(), room)
	}
}

// Endings writes how the earlier leases of an item ended, as far as there is room.
func (w *HeaderWriter) Endings(item *fdbpq.Item, room *int) {
	w.some(protocol.HeaderFailures, item.Failures, room)
	w.some(protocol.HeaderInterruptions, item.Interruptions, room)
	w.some(protocol.HeaderReturns, item.Returns, room)
	if item.Dead != nil {
		w.some(protocol.HeaderDeadInterruptions, item.Dead.Interruptions, room)
	}
}

// some writes a number that is not 0, if there is room.
func (w *HeaderWriter) some(key string, n int64, room *int) {
	if n == 0 || lineOf(key, maxNumberText) > *room {
		return
	}
	before := len(w.text)
	w.number(key, n)
	*room -= lineOf(key, len(w.text)-before)
}

// Retries writes the holder of an item in the store, and its attempts, as text or as the number of the last one, as
// far as there is room.
func (w *HeaderWriter) Retries(item *fdbpq.StoredItem, text string, room *int) {
	w.Endings(&item.Item, room)
	if item.Holder != "" {
		w.optional(protocol.HeaderHolder, item.Holder, room)
	}
	if n := item.Attempts.Last(); n > 0 && (text == "" || !w.optional(protocol.HeaderAttempts, text, room)) {
		w.optional(protocol.HeaderAttempts, strconv.FormatInt(n, 10), room)
	}
}

// Explain writes why an item is not handed out, if there is room for the header.
func (w *HeaderWriter) Explain(e protocol.Explain, room int) {
	text, err := protocol.Marshal(e)
	if err == nil { // it has no value that JSON does not know
		w.optional(protocol.HeaderExplain, string(text), &room)
	}
}

func (w *HeaderWriter) optional(key, value string, room *int) bool {
	size := lineOf(key, len(value))
	if size > *room {
		return false
	}
	*room -= size
	w.string(key, value)
	return true
}

// Left is how many bytes an answer has for more headers beside an item and those so far.
func (l *Limit) Left(w *HeaderWriter, item int64) int {
	left := l.MaxPayload() - int(item) - blockFrame - len(w.text)
	for _, key := range w.keys {
		left -= lineOf(key, 0)
	}
	return left
}

// BundleLeft does the same for a bundle beside its items.
func (l *Limit) BundleLeft(queue string, items []fdbpq.Item) int {
	left := l.BundleRoom()
	for i := range items {
		left -= l.bundled(queue, &items[i])
	}
	return left
}
