package protocol_test

import (
	"encoding/json"
	"testing"

	"github.com/pqbridge/pqbridge/protocol"
)

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
		"dead": {map[string]string{"PQ-Outcome": "dead", "PQ-Finished-At": at, "PQ-Deliveries": "7", "PQ-Dead-Reason": "no wood", "PQ-Dead-Letter": "jobs-dead", "PQ-Next-Id": "n"},
			`{"queue":"jobs","id":"i","outcome":"dead","finished_at":"` + at + `","deliveries":7,"dead_reason":"no wood","dead_letter":"jobs-dead","next_id":"n"}`},
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
