package versions_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/history"
	"github.com/pqbridge/pqbridge/testenv"
)

// slow is how long a change may take before it is logged.
const slow = 10 * time.Second

// load is what clients do while programs change.
type load struct {
	url     string
	bridges history.Bridges
	slack   time.Duration           // by which the store's times may be wrong
	change  func(testing.TB) string // has something happen to the programs, and says what
	changes int

	queues, workers, steps int // with histories
}

// run has clients work while programs change, and judges what they saw.
func (l load) run(t *testing.T, x *turns) {
	t.Helper()
	c := &pqd.Campaign{URL: l.url, Random: x.random, Faults: make(map[string]int), Promises: pqd.AllPromises, Attempt: testenv.Attempt()}
	nc, err := nats.Connect(l.url, nats.MaxReconnects(-1), nats.ReconnectWait(pqd.ReconnectWait))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	schedules := pqd.NewSchedules(t, x.random, func() *nats.Conn { return nc })
	c.Fault = func(t testing.TB) string {
		var what string
		begun := time.Now()
		schedules.Happen("a change", func() { what = l.change(t) })
		if took := time.Since(begun); took > slow {
			t.Logf("%s took %s", what, took.Round(time.Millisecond))
		}
		x.counts[what]++
		return what
	}
	mixture := newMixture(t, x.random, x.fields, l.slack, c.Dial())
	h := c.Begin(t, "history", l.queues, l.workers)
	for _, w := range h.Workers {
		w.Vanishes = true
	}
	answers := int64(l.queues * l.workers * l.steps)
	c.Run(t, h, l.steps, c.Moments(l.changes, answers))
	for q, operations := range h.End() {
		testenv.Judge(t, operations, l.bridges)
		x.counts["operations"] += len(operations)
		if t.Failed() {
			t.Logf("queue %d: %s", q, fmt.Sprint(history.Summary(operations)))
		}
	}
	schedules.Judge()
	findings, items := mixture.end()
	x.counts["items of a mixture"] += items
	for _, finding := range findings[:min(len(findings), 10)] {
		t.Error(finding)
	}
	if len(findings) > 0 {
		t.Errorf("%d findings in the journal of %d items", len(findings), items)
	}
}
