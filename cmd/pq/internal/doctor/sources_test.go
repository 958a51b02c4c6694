package doctor

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// doctor says of each source that stands why, and what to do.
func TestDoctorOnSourcesThatStand(t *testing.T) {
	t.Parallel()
	for state, says := range map[string][]string{
		protocol.SourceStopped:  {"stopped, stream_behind: it ends at 3", `"pq source show jobs orders"`},
		protocol.SourcePaused:   {`"pq source resume jobs orders"`},
		protocol.SourceBlocked:  {"stream_behind: it ends at 3: make room"},
		protocol.SourceFailing:  {"is failing, stream_behind: it ends at 3"},
		protocol.SourceNoRunner: {"no pqd runs source orders: let a running pqd have remote hub, stream ORDERS and queue jobs in PQ_REMOTES"},
		protocol.SourceRunning:  nil,
		protocol.SourceStarting: nil,
	} {
		one := client.Source{Name: "orders", Remote: "hub", Stream: "ORDERS", Mode: protocol.SourceCopies, State: state, Reason: "stream_behind: it ends at 3"}
		var remarks []string
		examineSource("jobs", &one, func(_ kind, format string, args ...any) { remarks = append(remarks, fmt.Sprintf(format, args...)) })
		if (len(remarks) > 0) != (says != nil) || len(remarks) > 1 {
			t.Errorf("%s: %q", state, remarks)
		}
		for _, text := range says {
			if !strings.Contains(remarks[0], text) {
				t.Errorf("%s: %q, expected %q", state, remarks[0], text)
			}
		}
	}
}

// A source that is far behind is no remark, unless it falls back further.
func TestDoctorOnSourcesThatLag(t *testing.T) {
	t.Parallel()
	nc := testenv.NATS(t).Connect(t)
	var asked atomic.Int64
	for subject, answer := range map[string]func() any{
		"pq.jobs.info": func() any { return client.Info{Queue: "jobs"} },
		"pq.jobs.sources": func() any {
			n := uint64(asked.Add(1))
			source := func(name string, lag uint64) protocol.Source {
				return protocol.Source{Name: name, Stream: "ORDERS", State: protocol.SourceRunning, Lag: lag}
			}
			return protocol.SourcesPage{Sources: []protocol.Source{source("slow", 5000+n), source("fast", 90000-n), source("new", n)}}
		},
	} {
		if _, err := nc.Subscribe(subject, func(m *nats.Msg) {
			text, _ := json.Marshal(answer())
			_ = m.Respond(text)
		}); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	s := session.New(t.Context(), nil, strings.NewReader(""), &out, &out)
	s.NC, s.Global.Prefix, s.Global.Timeout = nc, "pq", testenv.Patience()
	d := &doctor{session: s, queue: "jobs"}
	var err error
	if d.client, err = s.Connect(); err != nil {
		t.Fatal(err)
	}
	d.queues()
	if text := out.String(); !strings.Contains(text, "source slow is 5,002 messages behind stream ORDERS") || strings.Count(text, "\n") != 1 {
		t.Errorf("it says\n%s", text)
	}
}

// A batch that is out for long is a remark; one that came a moment ago, or a link that holds nothing, is none.
func TestDoctorOnLinks(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, c := range []struct {
		held int
		out  time.Duration
		want string
	}{
		{0, time.Hour, ""},
		{7, heldLong, ""},
		{7, time.Hour, "orders: link hub holds 7 items for 1h0m0s: the store abc has not confirmed them"},
	} {
		got := ""
		l := client.Link{Name: "hub", To: "abc", Held: c.held, Since: now.Add(-c.out)}
		examineLink("orders", &l, now, func(k kind, format string, args ...any) {
			if got = fmt.Sprintf(format, args...); k != linkHolds {
				t.Errorf("%s is a remark of queues that %s", got, k)
			}
		})
		if got != c.want {
			t.Errorf("%d items, out for %s: %q, expected %q", c.held, c.out, got, c.want)
		}
	}
}
