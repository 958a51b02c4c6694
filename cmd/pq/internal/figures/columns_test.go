package figures

import (
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/protocol"
)

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
