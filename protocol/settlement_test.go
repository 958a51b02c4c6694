package protocol_test

import (
	"encoding/json"
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

// A result has what each header says. One that cannot be read is an error.
func TestItemResult(t *testing.T) {
	t.Parallel()
	const at = "2001-02-03T04:05:06.000000007Z"
	for what, tc := range map[string]struct {
		header map[string]string
		want   string
	}{
		"done": {map[string]string{"PQ-Outcome": "done", "PQ-Finished-At": at, "PQ-Deliveries": "0"},
			`{"queue":"jobs","id":"i","outcome":"done","finished_at":"` + at + `","deliveries":0}`},
		"dead": {map[string]string{"PQ-Outcome": "dead", "PQ-Finished-At": at, "PQ-Deliveries": "7", "PQ-Dead-Reason": "max_deliveries",
			"PQ-Dead-Cause": "no wood", "PQ-Dead-Letter": "jobs-dead", "PQ-Next-Id": "n"},
			`{"queue":"jobs","id":"i","outcome":"dead","finished_at":"` + at + `","deliveries":7,"dead_reason":"max_deliveries","dead_cause":"no wood","dead_letter":"jobs-dead","next_id":"n"}`},
		"handed over": {map[string]string{"PQ-Outcome": "handed_over", "PQ-Finished-At": at, "PQ-Deliveries": "1", "PQ-Next": "link:l", "PQ-Later": "a later version's"},
			`{"queue":"jobs","id":"i","outcome":"handed_over","finished_at":"` + at + `","deliveries":1,"next":"link:l"}`},
		"no outcome":    {map[string]string{"PQ-Finished-At": at, "PQ-Deliveries": "1"}, ""},
		"no time":       {map[string]string{"PQ-Outcome": "done", "PQ-Deliveries": "1"}, ""},
		"no deliveries": {map[string]string{"PQ-Outcome": "done", "PQ-Finished-At": at}, ""},
		"another time":  {map[string]string{"PQ-Outcome": "done", "PQ-Finished-At": "soon", "PQ-Deliveries": "1"}, ""},
	} {
		r := protocol.ItemResult{Queue: "jobs", ID: "i"}
		err := r.ReadHeaders(func(name string) string { return tc.header[name] })
		if err != nil {
			if tc.want != "" {
				t.Errorf("%s: %v", what, err)
			}
			continue
		}
		if text, err := json.Marshal(r); err != nil || string(text) != tc.want {
			t.Errorf("%s: %s, expected %s", what, text, tc.want)
		}
	}
}
