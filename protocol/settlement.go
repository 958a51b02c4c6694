package protocol

import (
	"strconv"
	"strings"
)

// Settlements: the first word of a message on an ack subject. They are
// JetStream's but for +BACK, and for +OK, which older clients send for +ACK. An empty
// message is an acknowledgement, too.
const (
	SettleAck       = "+ACK"
	SettleOK        = "+OK"
	SettleNack      = "-NAK"
	SettleBack      = "+BACK"
	SettleProgress  = "+WPI"
	SettleTerminate = "+TERM"
	SettleNext      = "+NXT"

	// SettleUnworked is what earlier clients send for SettleBack. It counts as a failure.
	SettleUnworked = SettleNack + " 0s"
)

// Results of settlements in a bundle: the first words of their lines.
const (
	ResultOK    = "+OK"  // and, behind it, when an extended lease ends
	ResultError = "-ERR" // and, behind it, the code, the reason or -, and a text
)

// ReadResult reads the line of a settlement in the answer to a bundle: when an extended lease ends, or why the settlement took no
// effect. ok is false if the line is neither.
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
