package protocol_test

import (
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/protocol"
)

// A queue of results of Celery's rpc:// is told by its name and its TTL, or its end, and needs no worker. Everything else about it is
// as of other queues.
func TestReplies(t *testing.T) {
	t.Parallel()
	const name = "5f0c6a1e-9b1d-3c44-8e2a-0d9c1b7f2a34"
	type config = protocol.Config
	lasts, ends := config{TTL: protocol.Duration(time.Hour)}, config{ExpireEmpty: protocol.Duration(time.Hour)}
	for _, queue := range []string{"jobs", name + "0", "5F0C6A1E-9B1D-3C44-8E2A-0D9C1B7F2A34", "5f0c6a1e09b1d-3c44-8e2a-0d9c1b7f2a34"} {
		for _, c := range []config{lasts, ends} {
			i := protocol.Info{Queue: queue, Config: c, Explain: protocol.Explain{Cause: protocol.CauseNoWorkers}}
			if i.Replies() || !i.Stands() {
				t.Errorf("%s is taken for replies", queue)
			}
		}
	}
	if i := (protocol.Info{Queue: name}); i.Replies() {
		t.Errorf("%s has no end, and is taken for replies", name)
	}
	for cause, stands := range map[protocol.Cause]bool{protocol.CauseNoWorkers: false, protocol.CausePaused: true, protocol.CauseFlows: false} {
		for _, c := range []config{lasts, ends} {
			i := protocol.Info{Queue: name, Config: c, Explain: protocol.Explain{Cause: cause}}
			if !i.Replies() || i.Stands() != stands {
				t.Errorf("%s: replies %t, stands %t, expected true and %t", cause, i.Replies(), i.Stands(), stands)
			}
		}
	}
}
