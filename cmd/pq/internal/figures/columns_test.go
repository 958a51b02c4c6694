package figures

import (
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/protocol"
)

// Of a queue that fails the state says how many of its items do.
func TestStateOfFailures(t *testing.T) {
	t.Parallel()
	i := client.Info{Queue: "poison", Delayed: 5, Explain: client.Explain{Cause: protocol.CauseFailing, Failing: 5}}
	if got := State(&i); got != "failing 5" {
		t.Errorf("%q", got)
	}
	if i.Explain.Refuses = protocol.ReasonFull; State(&i) != "failing 5, full" {
		t.Errorf("full: %q", State(&i))
	}
	i.Explain = client.Explain{Cause: protocol.CauseDelayed, Failing: 2}
	if got := State(&i); got != "2 failed" {
		t.Errorf("beside others that succeed: %q", got)
	}
	if i.Explain.Failing = 0; State(&i) != "" {
		t.Errorf("delayed: %q", State(&i))
	}
}

// A queue of results of Celery is named, and is no queue without workers.
func TestStateOfReplies(t *testing.T) {
	t.Parallel()
	i := client.Info{Queue: "5f0c6a1e-9b1d-3c44-8e2a-0d9c1b7f2a34", Ready: 3, Config: client.Config{TTL: client.Duration(time.Hour)}, Explain: client.Explain{Cause: protocol.CauseNoWorkers}}
	if got := State(&i); got != "Celery results" {
		t.Errorf("%q", got)
	}
	if i.Explain.Cause = protocol.CausePaused; State(&i) != "paused, Celery results" {
		t.Errorf("paused: %q", State(&i))
	}
	if i.Config.TTL = 0; State(&i) != "paused" {
		t.Errorf("for ever: %q", State(&i))
	}
}
