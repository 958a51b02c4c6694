package events

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/subjects"
)

// The log tells of the first dead letter that a queue has within an hour. Of how many queues it remembers that is bounded, and others
// take their places.
func TestLogOfDeadLetters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		a := New(nil, subjects.Grammar{}, slog.New(slog.NewJSONHandler(&out, nil)), nil, nil)
		dies := func(queue string, told bool) {
			t.Helper()
			out.Reset()
			a.died(&fdbpq.Event{Queue: queue, Deliveries: 3, Reason: "max_deliveries", Cause: "no\npaper"})
			if found := strings.Contains(out.String(), `"queue":"`+queue+`",`); found != told {
				t.Errorf("%s: %q, expected a line: %t", queue, out.String(), told)
			}
		}
		dies("jobs", true)
		if !strings.Contains(out.String(), `"level":"WARN","msg":"an item died, the first one of its queue within an hour","queue":"jobs","id":"FA","deliveries":3,"reason":"max_deliveries","cause":"no paper"`) {
			t.Errorf("the line is %q", out.String())
		}
		dies("mail", true)
		dies("jobs", false)
		<-time.After(deadEvery - 1) // of the bubble's time
		dies("jobs", false)
		dies("news", true)
		<-time.After(1) // of the bubble's time
		dies("jobs", true)
		dies("news", false)
		for i := range maxToldOfDead {
			dies(fmt.Sprint("queue-", i), true)
		}
		dies("one-more", true)
		dies("one-more", false)
		if len(a.toldOfDead) != maxToldOfDead {
			t.Errorf("%d queues are remembered, expected %d", len(a.toldOfDead), maxToldOfDead)
		}
		<-time.After(deadEvery) // of the bubble's time
		dies("one-more", true)
		if len(a.toldOfDead) != 1 {
			t.Errorf("%d queues are remembered", len(a.toldOfDead))
		}
	})
}
