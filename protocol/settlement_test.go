package protocol_test

import (
	"testing"

	"github.com/pqbridge/pqbridge/protocol"
)

// A line of the answer to a bundle says one thing, or it is none. Clients that send no results see none.
func TestReadSettled(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]struct {
		until, kept, reason string
		code                int
	}{
		"+OK":                              {},
		"+OK ":                             {},
		"+OK 2030-01-02T03:04:05.6Z":       {until: "2030-01-02T03:04:05.6Z"},
		"+OK kept":                         {kept: protocol.ResultKept},
		"+OK none":                         {kept: protocol.ResultNone},
		"+OK dropped":                      {kept: protocol.ResultDropped},
		"-ERR 410 gone lease lost: gone":   {code: 410, reason: "gone"},
		"-ERR 503 - the store is away now": {code: 503},
		"-ERR 413 -":                       {code: 413},
	} {
		s, ok := protocol.ReadSettled(line)
		if !ok || s.Until != want.until || s.Kept != want.kept || (s.Refused != nil) != (want.code != 0) {
			t.Errorf("%q is read as %+v, %t", line, s, ok)
		} else if s.Refused != nil && (s.Refused.Code != want.code || string(s.Refused.Reason) != want.reason) {
			t.Errorf("%q is read as the refusal %+v", line, s.Refused)
		}
		until, refused, ok := protocol.ReadResult(line)
		if !ok || until != want.until || (refused != nil) != (want.code != 0) {
			t.Errorf("%q is read without results as %q, %v, %t", line, until, refused, ok)
		}
	}
	for _, line := range []string{"", "+OKAY", "+ACK", "-ERR", "-ERR 410", "-ERR x gone", "-ERR 0 -", " +OK"} {
		if s, ok := protocol.ReadSettled(line); ok {
			t.Errorf("%q is read as %+v", line, s)
		}
	}
}
