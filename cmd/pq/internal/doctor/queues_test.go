package doctor

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
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
		"full, in items":  {client.Info{Ready: 5, Config: client.Config{MaxLength: 5}}, "jobs is full (max_length 5)"},
		"full, in bytes":  {client.Info{Ready: 5, Bytes: 4096, Config: client.Config{MaxBytes: 4096}}, "jobs is full (max_bytes 4,096)"},
		"paused":          {client.Info{Ready: 2, Paused: true, Oldest: 3, OldestOfAll: 7200}, "is paused"},
		"slow, in order":  {client.Info{Ready: 2, Oldest: 7000, OldestOfAll: 7200, Rates: client.Rates{Pop: 1}}, ""},
		"busy":            {client.Info{Ready: 2, Oldest: 3, OldestOfAll: 60}, ""},
		"nothing is here": {client.Info{}, ""},
	} {
		tc.info.Queue = "jobs"
		var remarks []string
		examineQueue(&tc.info, func(_ kind, format string, args ...any) { remarks = append(remarks, fmt.Sprintf(format, args...)) })
		if said := strings.Join(remarks, "\n"); !strings.Contains(said, tc.says) || len(remarks) > 1 || (tc.says == "") != (said == "") {
			t.Errorf("%s: %q, expected something about %q", name, said, tc.says)
		}
	}
}

// Many queues take longer than the time for one answer, and their remarks do not fill the screen.
func TestDoctorOnManyQueues(t *testing.T) {
	t.Parallel()
	const pages, queues = 6, 40
	timeout := testenv.Times(time.Second)
	nc := testenv.NATS(t).Connect(t)
	_, err := nc.Subscribe("pq.*.info", func(m *nats.Msg) {
		queue := strings.Split(m.Subject, ".")[1]
		info := client.Info{Queue: queue, Paused: queue != "q-3-7"}
		if queue == "q-3-7" {
			info.Ready, info.Config.MaxLength = 5, 5
		}
		answer, _ := json.Marshal(info)
		_ = m.Respond(answer)
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Subscribe("pq.*.sources", func(m *nats.Msg) { _ = m.Respond([]byte(`{"sources":[]}`)) }); err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Subscribe("pq._sys.list", func(m *nats.Msg) {
		var asked protocol.QueuesRequest
		if err := json.Unmarshal(m.Data, &asked); err != nil {
			t.Error(err)
		}
		page := 0
		if *asked.After != "" {
			page, _ = strconv.Atoi(*asked.After)
		}
		answer := protocol.QueuesPage{}
		for i := range queues {
			answer.Queues = append(answer.Queues, fmt.Sprintf("q-%d-%d", page, i))
		}
		if page++; page < pages {
			answer.Next = strconv.Itoa(page)
		}
		text, _ := json.Marshal(answer)
		time.AfterFunc(timeout/4, func() { _ = m.Respond(text) }) // all of them take longer than the timeout
	}); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	s := session.New(t.Context(), nil, strings.NewReader(""), &out, &out)
	s.NC, s.Global.Prefix, s.Global.Timeout = nc, "pq", timeout
	d := &doctor{session: s}
	if d.client, err = s.Connect(); err != nil {
		t.Fatal(err)
	}
	d.queues()
	text := out.String()
	if d.failed || d.err != nil || strings.Count(text, "\n") != mostOfKind+2 || strings.Count(text, "is paused") != mostOfKind ||
		!strings.Contains(text, "q-3-7 is full") || !strings.Contains(text, "and 229 more queues are paused") {
		t.Errorf("%v, %v:\n%s", d.failed, d.err, text)
	}
}
