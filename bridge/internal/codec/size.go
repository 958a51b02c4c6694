package codec

import (
	"bytes"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/protocol"
)

// Requests are read one after another, those of all clients: one that is too large is refused before
// anybody reads it.

// checkSize refuses what has more bytes than it may have.
func checkSize(what string, size, most int) *failure.Failure {
	if size > most {
		return failure.Newf(413, "%s has %d bytes: allowed are %d", what, size, most)
	}
	return nil
}

// CheckDefinition refuses a body of a request that defines something, and is too large.
func CheckDefinition(body []byte) *failure.Failure {
	return checkSize("the body", len(body), protocol.MaxDefinition)
}

// checkSchedule refuses a body with a schedule that is too large: with its payload, or beside it. Its payload
// is its longest text.
func checkSchedule(body []byte) *failure.Failure {
	if f := checkSize("the schedule", len(body), protocol.MaxScheduleBody); f != nil {
		return f
	}
	return checkSize("the schedule beside its payload", len(body)-longest(body), protocol.MaxDefinition)
}

// longest is how many bytes the longest string of a JSON text has as it stands there.
func longest(text []byte) (most int) {
	for {
		begin := bytes.IndexByte(text, '"')
		if begin < 0 {
			return most
		}
		text = text[begin+1:]
		end := 0
		for end < len(text) && text[end] != '"' {
			if text[end] == '\\' {
				end++
			}
			end++
		}
		most = max(most, end)
		text = text[min(end+1, len(text)):]
	}
}
