package codec

import (
	"bytes"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/protocol"
)

// Requests of all clients are read one after another: a request that is too large is refused before it is read.

// checkSize refuses a part of a request with too many bytes.
func checkSize(what string, size, most int) *failure.Failure {
	if size > most {
		return failure.Newf(413, "%s has %d bytes: allowed are %d", what, size, most)
	}
	return nil
}

// CheckDefinition refuses the body of a definition if it is too large.
func CheckDefinition(body []byte) *failure.Failure {
	return checkSize("the body", len(body), protocol.MaxDefinition)
}

// checkSchedule refuses the body of a schedule if it is too large, with its payload or without. Its payload is its
// longest text.
func checkSchedule(body []byte) *failure.Failure {
	if f := checkSize("the schedule", len(body), protocol.MaxScheduleBody); f != nil {
		return f
	}
	return checkSize("the schedule beside its payload", len(body)-longest(body), protocol.MaxDefinition)
}

// longest is the length of the longest string of a JSON text, as it is written.
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
