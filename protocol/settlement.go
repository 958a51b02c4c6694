package protocol

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Settlements: the first word of a message on an ack subject. They are the words of JetStream, except for +BACK. +OK is
// its other word for +ACK. An empty message is an acknowledgement, too.
const (
	SettleAck       = "+ACK"
	SettleOK        = "+OK"
	SettleNack      = "-NAK"
	SettleBack      = "+BACK"
	SettleProgress  = "+WPI"
	SettleTerminate = "+TERM"
	SettleNext      = "+NXT"
)

// Results of settlements in a bundle: the first words of their lines.
const (
	ResultOK    = "+OK"  // followed by the end of an extended lease, and by what became of a result, or of what an extension said
	ResultError = "-ERR" // followed by the code, the reason or -, and a text
)

// Settled is what one line of the answer to a bundle of settlements says.
type Settled struct {
	Until   string // when the lease ends, of one that was extended
	Kept    string // what became of the result, of a settlement with one: see HeaderResult; ResultDropped of an extension: see HeaderNote
	Refused *Error // why the settlement took no effect
}

// ReadSettled reads one line of the answer to a bundle of settlements. ok is false if it is none.
func ReadSettled(line string) (s Settled, ok bool) {
	if more, ok := strings.CutPrefix(line, ResultOK); ok && (more == "" || more[0] == ' ') {
		switch more = strings.TrimPrefix(more, " "); more {
		case ResultKept, ResultNone, ResultDropped:
			s.Kept = more
		default:
			s.Until, s.Kept, _ = strings.Cut(more, " ")
		}
		return s, true
	}
	words := strings.SplitN(line, " ", 4)
	if len(words) < 3 || words[0] != ResultError {
		return s, false
	}
	code, err := strconv.Atoi(words[1])
	if err != nil || code == 0 {
		return s, false
	}
	e := NewErrorResponse("", code, strings.Join(words[3:], "")).Error
	e.Reason = Reason(strings.TrimPrefix(words[2], "-"))
	s.Refused = &e
	return s, true
}

// ReadResult reads one line of the answer to a bundle of settlements: when an extended lease ends, or why the
// settlement took no effect. ok is false if the line says neither. [ReadSettled] also says what became of a result.
func ReadResult(line string) (until string, refused *Error, ok bool) {
	s, ok := ReadSettled(line)
	return s.Until, s.Refused, ok
}

// Finish is how an item ended: the value of HeaderOutcome.
type Finish string

const (
	FinishDone       Finish = "done"        // it was acknowledged, or popped for good
	FinishDead       Finish = "dead"        // it is a dead letter
	FinishHandedOver Finish = "handed_over" // a push acknowledged it, or a link took it to another store
	FinishExpired    Finish = "expired"
	FinishRemoved    Finish = "removed"
	FinishCancelled  Finish = "cancelled"
	FinishEvicted    Finish = "evicted"
)

// Values of HeaderResult: what became of what a holder said.
const (
	ResultKept    = "kept"
	ResultNone    = "none"    // nobody asked for it
	ResultDropped = "dropped" // there was no room for it
)

// ItemResult is what became of an item, as programs write it: one JSON object.
type ItemResult struct {
	Queue        string    `json:"queue"`
	ID           string    `json:"id"`
	Outcome      Finish    `json:"outcome"`
	FinishedAt   time.Time `json:"finished_at"`
	Deliveries   int64     `json:"deliveries"`
	Body         *string   `json:"body,omitempty"`          // what its holder said, if it is UTF-8
	Base64       []byte    `json:"body_base64,omitempty"`   // what its holder said, if it is not
	Dropped      bool      `json:"dropped,omitempty"`       // its holder said something, and there was no room for it
	CancelReason string    `json:"cancel_reason,omitempty"` // of a cancelled item: why
	DeadReason   string    `json:"dead_reason,omitempty"`
	DeadCause    string    `json:"dead_cause,omitempty"`  // what it failed of last, where DeadReason does not say it
	DeadLetter   string    `json:"dead_letter,omitempty"` // of a dead item: the queue that has it now
	Next         string    `json:"next,omitempty"`        // of an item handed over: the queue that has it now, or link:<name>
	NextID       string    `json:"next_id,omitempty"`     // its id in either
}

// ReadHeaders reads the headers of an answer; get returns the value of one, "" without it.
func (r *ItemResult) ReadHeaders(get func(name string) string) error {
	for name, to := range map[string]any{HeaderFinishedAt: &r.FinishedAt, HeaderDeliveries: &r.Deliveries} {
		if err := ReadValue(to, get(name)); err != nil {
			return fmt.Errorf("header %s: %w", name, err)
		}
	}
	if r.Outcome = Finish(get(HeaderOutcome)); r.Outcome == "" {
		return fmt.Errorf("header %s is missing", HeaderOutcome)
	}
	r.Dropped = get(HeaderResult) == ResultDropped
	r.CancelReason, r.DeadReason, r.DeadCause, r.DeadLetter = get(HeaderCancelReason), get(HeaderDeadReason), get(HeaderDeadCause), get(HeaderDeadLetter)
	r.Next, r.NextID = get(HeaderNext), get(HeaderNextID)
	return nil
}

// SetBody sets Body if JSON can carry the body, and Base64 otherwise; neither if there is none.
func (r *ItemResult) SetBody(body []byte) {
	switch {
	case len(body) == 0:
	case utf8.Valid(body):
		r.Body = new(string(body))
	default:
		r.Base64 = body
	}
}
