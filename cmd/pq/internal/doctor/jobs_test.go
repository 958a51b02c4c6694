package doctor

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// A job hangs if it takes ten times as long as the others of its queue took, in the minutes before no lease began any more.
func TestUsualLengthOfJobs(t *testing.T) {
	t.Parallel()
	of := func(n ...int64) (all []*int64) {
		for _, one := range n {
			all = append(all, &one)
		}
		return all
	}
	for name, tc := range map[string]struct {
		history client.History
		stands  time.Duration
		want    time.Duration
	}{
		"two workers, a job a minute each":     {client.History{Leased: of(2, 2, 2), Settle: []int64{2, 2, 2}}, 0, time.Minute},
		"long jobs":                            {client.History{Leased: of(4, 4, 4, 4, 4, 4, 4, 4), Settle: []int64{0, 0, 0, 0, 1, 0, 0, 0}}, 0, 32 * time.Minute},
		"short ones, until nothing moved":      {client.History{Leased: of(0, 0, 4, 4, 4), Settle: []int64{5, 5, 0, 0, 0}}, 3*time.Minute + time.Second, 0},
		"longer ones, until nothing moved":     {client.History{Leased: of(4, 4, 4, 4, 4), Settle: []int64{2, 2, 0, 0, 0}}, 3*time.Minute + time.Second, 2 * time.Minute},
		"nothing moved for more than there is": {client.History{Leased: of(4), Settle: []int64{9}}, time.Hour, 0},
		"no job has ended":                     {client.History{Leased: of(4, 4), Settle: []int64{0, 0}}, 0, 0},
		"nobody looked":                        {client.History{Leased: []*int64{nil, nil}, Settle: []int64{1, 1}}, 0, 0},
		"no minute is known":                   {client.History{}, time.Minute, 0},
	} {
		tc.history.Step = 60
		if got := usual(&tc.history, tc.stands); got != tc.want {
			t.Errorf("%s: %s, expected %s", name, got, tc.want)
		}
	}
}

// Doctor names workers that hang, and none of a queue whose other jobs took about as long, even where both extend their leases.
func TestDoctorOnLongJobs(t *testing.T) {
	t.Parallel()
	nc := testenv.NATS(t).Connect(t)
	counts := make([]*int64, 60)
	settled := map[string][]int64{"hangs": make([]int64, 60), "slow": make([]int64, 60), "new": make([]int64, 60)}
	settled["hangs"][9], settled["slow"][9] = 900, 4
	for i := range counts {
		counts[i] = new(int64(4))
	}
	if _, err := nc.Subscribe("pq.*.info", func(m *nats.Msg) {
		queue := strings.Split(m.Subject, ".")[1]
		info := client.Info{Queue: queue, Ready: 9, Leased: 4, OldestLease: 1000, LatestLease: 1000, Config: client.Config{Lease: client.Duration(30 * time.Second)}}
		info.Explain = client.Explain{Cause: protocol.CauseLeased, Text: "4 items are leased."}
		if strings.Contains(string(m.Data), "history") {
			info.History = &client.History{Step: 60, Leased: counts, Settle: settled[queue]}
		}
		answer, _ := json.Marshal(info)
		_ = m.Respond(answer)
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Subscribe("pq.*.sources", func(m *nats.Msg) { _ = m.Respond([]byte(`{"sources":[]}`)) }); err != nil {
		t.Fatal(err)
	}
	for queue, want := range map[string]string{"hangs": "warn  queues       hangs (leased): 4 items are leased.", "new": "warn  queues       new (leased): 4 items are leased.", "slow": "ok    queues       1 queue, nothing to remark"} {
		var out strings.Builder
		s := session.New(t.Context(), nil, strings.NewReader(""), &out, &out)
		s.NC, s.Global.Prefix, s.Global.Timeout = nc, "pq", testenv.Patience()
		d := &doctor{session: s, mostQueues: 1, queue: queue}
		var err error
		if d.client, err = s.Connect(); err != nil {
			t.Fatal(err)
		}
		if d.queues(); !strings.HasPrefix(out.String(), want) {
			t.Errorf("%s, expected %s", out.String(), want)
		}
	}
}
