package faults_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// A start, a little work and an orderly stop log no warning.
func TestCleanStopIsQuiet(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"embedded NATS": "", "another NATS": testenv.NATS(t).URL()} {
		t.Run(name, func(t *testing.T) {
			p := testenv.Daemon(t, "NATS_URL="+url)
			nc := p.Connect(t)
			pqd.Push(t, nc, "jobs", 1, "x")
			pqd.Pop(t, nc, "jobs", "min")
			if err := nc.PublishMsg(&nats.Msg{Subject: "pq.jobs.pop.min", Reply: nc.NewInbox(), Header: nats.Header{"PQ-Wait": {"100s"}}}); err != nil {
				t.Fatal(err)
			}
			pqd.Push(t, nc, "elsewhere", 1, "what is sent later is answered, so the pop has arrived")
			p.Stop(t)
			for line := range strings.Lines(p.Log()) {
				if strings.Contains(line, `"level":"WARN"`) || strings.Contains(line, `"level":"ERROR"`) {
					t.Errorf("logged %s", line)
				}
			}
		})
	}
}
