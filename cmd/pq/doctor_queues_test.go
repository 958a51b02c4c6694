package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/client"
)

// doctor tells a queue whose less urgent items starve from one without workers.
func TestDoctorOnQueuesThatWait(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		info client.Info
		says string
	}{
		"no workers":      {client.Info{Ready: 2, Oldest: 4000, OldestOfAll: 4000}, "nobody takes them"},
		"starvation":      {client.Info{Ready: 2, Oldest: 3, OldestOfAll: 7200}, "waited for 2h0m behind more urgent ones"},
		"perhaps longer":  {client.Info{Ready: 2, Oldest: 3, OldestOfAll: 7200, OldestAtLeast: true}, "waited for 2h0m or more behind"},
		"paused":          {client.Info{Ready: 2, Paused: true, Oldest: 3, OldestOfAll: 7200}, "is paused"},
		"slow, in order":  {client.Info{Ready: 2, Oldest: 7000, OldestOfAll: 7200, Rates: client.Rates{Pop: 1}}, ""},
		"busy":            {client.Info{Ready: 2, Oldest: 3, OldestOfAll: 60}, ""},
		"nothing is here": {client.Info{}, ""},
	} {
		tc.info.Queue = "jobs"
		var remarks []string
		examineQueue(&tc.info, func(format string, args ...any) { remarks = append(remarks, fmt.Sprintf(format, args...)) })
		if said := strings.Join(remarks, "\n"); !strings.Contains(said, tc.says) || len(remarks) > 1 || (tc.says == "") != (said == "") {
			t.Errorf("%s: %q, expected something about %q", name, said, tc.says)
		}
	}
}
