package clients_test

import (
	"cmp"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// Each item is pushed once and done once, however often pqd is killed beside pq.
func TestPqKills(t *testing.T) {
	nightly.Only(t, "package client has each of its calls, and TestEndsUnderLoad kills pqd")
	t.Parallel()
	for _, role := range []string{"consume", "pop"} {
		t.Run(role, func(t *testing.T) {
			killWhileProgramsRun(t, role, 400, cmp.Or(*pqd.Kills, 2), func(p *testenv.Process, nats string, args ...string) *clientProgram {
				return startProgram(t, p, nats, "sh", nil, append([]string{absolute(t, "../testdata/pq/load.sh")}, args...)...)
			})
		})
	}
}
