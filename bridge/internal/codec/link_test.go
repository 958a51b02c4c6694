package codec_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
)

// A taker stores the ids that a giver names, so it takes no long ones, and none with control characters.
func TestIDsOfAGiver(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("x", 64)
	for _, tc := range []struct {
		giver, batch string
		good         bool
	}{
		{"g", "1 b -", true}, {longest, "1 " + longest + " " + longest, true},
		{"", "1 b -", false}, {longest + "x", "1 b -", false}, {"a\x1b[2J", "1 b -", false}, {"gräf", "1 b -", false},
		{"g", "1 " + longest + "x -", false}, {"g", "1 b " + longest + "x", false}, {"g", "1 b ", false}, {"g", "1  -", false}, {"g", "1 b\x1b -", false},
	} {
		m := &nats.Msg{Header: nats.Header{"PQ-Link-Giver": {tc.giver}, "PQ-Link-Batch": {tc.batch}, "PQ-Bundle": {"0"}}}
		if _, err := new(codec.Wire).ReadLinkBatch("jobs", "hub", m); (err == nil) != tc.good {
			t.Errorf("%q gives %q: %v", tc.giver, tc.batch, err)
		}
	}
}
