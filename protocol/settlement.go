package protocol

import (
	"strconv"
	"strings"
)

// Settlements: the first word of a message on an ack subject. They are the words of JetStream, except for +BACK,
// and for +OK, which older clients send in place of +ACK. An empty message is an acknowledgement, too.
const (
	SettleAck       = "+ACK"
	SettleOK        = "+OK"
	SettleNack      = "-NAK"
	SettleBack      = "+BACK"
	SettleProgress  = "+WPI"
	SettleTerminate = "+TERM"
	SettleNext      = "+NXT"

	// SettleUnworked is what earlier clients send in place of SettleBack. It counts as a failure.
	SettleUnworked = SettleNack + " 0s"
)

// Results of settlements in a bundle: the first words of their lines.
const (
	ResultOK    = "+OK"  // followed by the end of an extended lease
	ResultError = "-ERR" // followed by the code, the reason or -, and a text
)

// ReadResult reads one line of the answer to a bundle of settlements: when an extended lease ends, or why the
// settlement took no effect. ok is false if the line says neither.
func ReadResult(line string) (until string, refused *Error, ok bool) {
	if until, ok := strings.CutPrefix(line, ResultOK); ok && (until == "" || until[0] == ' ') {
		return strings.TrimPrefix(until, " "), nil, true
	}
	words := strings.SplitN(line, " ", 4)
	if len(words) < 3 || words[0] != ResultError {
		return "", nil, false
	}
	code, err := strconv.Atoi(words[1])
	if err != nil || code == 0 {
		return "", nil, false
	}
	e := NewErrorResponse("", code, strings.Join(words[3:], "")).Error
	e.Reason = Reason(strings.TrimPrefix(words[2], "-"))
	return "", &e, true
}
