package protocol

import (
	"strconv"
	"strings"
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
	ResultOK    = "+OK"  // followed by the end of an extended lease, or by what became of a result
	ResultError = "-ERR" // followed by the code, the reason or -, and a text
)

// Settled is what one line of the answer to a bundle of settlements says.
type Settled struct {
	Until   string // when the lease ends, of one that was extended
	Kept    string // what became of the result, of a settlement with one: see HeaderResult
	Refused *Error // why the settlement took no effect
}

// ReadSettled reads one line of the answer to a bundle of settlements. ok is false if it is none.
func ReadSettled(line string) (s Settled, ok bool) {
	if more, ok := strings.CutPrefix(line, ResultOK); ok && (more == "" || more[0] == ' ') {
		switch more = strings.TrimPrefix(more, " "); more {
		case ResultKept, ResultNone, ResultDropped:
			s.Kept = more
		default:
			s.Until = more
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
