package doctor

import (
	"cmp"
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

// doctor says of each queue of which nothing moves what explain says, and how bad that is; and it tells a queue whose less urgent
// items starve from one with too few workers.
func TestDoctorOnQueuesThatWait(t *testing.T) {
	t.Parallel()
	because := func(cause protocol.Cause, more ...protocol.Explain) (e client.Explain) {
		if len(more) > 0 {
			e = more[0]
		}
		e.Cause, e.Text, e.Next = cause, "Why.", "Do that."
		return e
	}
	lease := protocol.Explain{Item: "X", Since: time.Unix(1, 0)}
	leases := func(d time.Duration) client.Config { return client.Config{Lease: client.Duration(d)} }
	hang := func(oldest, latest float64, each time.Duration) client.Info {
		return client.Info{Ready: 2, Leased: 4, Explain: because(protocol.CauseLeased, lease), OldestLease: oldest, LatestLease: latest, Config: leases(each)}
	}
	results := client.Info{Queue: "5f0c6a1e-9b1d-3c44-8e2a-0d9c1b7f2a34", Ready: 2, Explain: because(protocol.CauseNoWorkers), Oldest: 4000}
	results.Config.TTL = client.Duration(24 * time.Hour)
	full := because(protocol.CauseFull, protocol.Explain{Refuses: protocol.ReasonFull})
	failing := client.Info{Delayed: 2, Rates: client.Rates{Nack: 1}, Explain: because(protocol.CauseFailing, protocol.Explain{Failing: 2, Until: time.Unix(1, 0)})}
	for name, tc := range map[string]struct {
		info client.Info
		says string
		kind kind // of the verdict
	}{
		"paused":        {client.Info{Ready: 2, Explain: because(protocol.CausePaused), Oldest: 3, OldestOfAll: 7200}, "jobs (paused): Why. Do that. pq resume jobs", "stand (paused)"},
		"no workers":    {client.Info{Ready: 2, Explain: because(protocol.CauseNoWorkers), Oldest: 4000, OldestOfAll: 4000}, "jobs (no workers): Why. Do that.", "stand (no workers)"},
		"results":       {results, "", ""},
		"a hung holder": {client.Info{Ready: 2, Explain: because(protocol.CauseBlocked, protocol.Explain{Item: "X", Since: time.Unix(1, 0)})}, "jobs (blocked): Why. Do that. pq revoke jobs X", "stand (blocked)"},
		"rate":          {client.Info{Ready: 2, Explain: because(protocol.CauseRate)}, "jobs (rate): Why. Do that.", "stand (rate)"},
		"band":          {client.Info{Ready: 2, Explain: because(protocol.CauseBand)}, "jobs (band): Why. Do that.", "stand (band)"},
		"held":          {client.Info{Leased: 2, Explain: because(protocol.CauseHeld)}, "jobs (held): Why. Do that. pq link ls jobs", "stand (held)"},
		"of later":      {client.Info{Ready: 2, Explain: because("on_fire")}, "jobs (on fire): Why. Do that.", "stand (on fire)"},

		"full":                         {client.Info{Ready: 5, Explain: full}, "jobs (full): Why. Do that.", takesNone},
		"full and paused":              {client.Info{Ready: 5, Explain: because(protocol.CausePaused, full)}, "jobs (paused): Why. Do that. pq resume jobs", takesNone},
		"dead letters":                 {client.Info{Queue: "jobs-dead", Ready: 1, Explain: because(protocol.CauseDeadLetters)}, "jobs-dead holds 1 dead letter:", holdsDead},
		"no room for dead letters":     {client.Info{Queue: "jobs-dead", Explain: full}, "jobs-dead (full): Why.", takesNone},
		"too few workers":              {client.Info{Ready: 2, Explain: because(protocol.CauseFlows), Oldest: 4000, OldestOfAll: 4000}, "2 items, the next of them waiting for 1h6m", waitsLong},
		"workers that have enough":     {client.Info{Ready: 2, Leased: 1, Explain: because(protocol.CauseLeased, lease), Oldest: 4000, OldestOfAll: 4000}, "jobs (leased): Why. Do that. pq revoke jobs X", waitsLong},
		"a lease of 11 leases":         {client.Info{Leased: 1, Explain: because(protocol.CauseLeased, lease), OldestLease: 660, Config: leases(time.Minute)}, "jobs (leased): Why. Do that. pq revoke jobs X", leasesLong},
		"beside others that flow":      {client.Info{Leased: 2, Explain: because(protocol.CauseFlows), OldestLease: 660, Config: leases(time.Minute)}, "leased for 11m0s: \"pq list jobs --state leased\"", leasesLong},
		"a lease of 9 leases":          {client.Info{Leased: 1, Explain: because(protocol.CauseLeased, lease), OldestLease: 3240, Config: leases(6 * time.Minute)}, "", ""},
		"a lease of 9 minutes":         {client.Info{Leased: 1, Explain: because(protocol.CauseLeased, lease), OldestLease: 540, Config: leases(time.Second)}, "", ""},
		"leases of their own":          {client.Info{Leased: 1, Explain: because(protocol.CauseLeased, lease), OldestLease: 7200}, "", ""},
		"workers that hang":            {hang(302, 301, 30*time.Second), "jobs (leased): Why. Do that. pq revoke jobs X", leasesLong},
		"for ten leases":               {hang(599, 599, time.Minute), "", ""},
		"one goes on":                  {hang(302, 299, 30*time.Second), "", ""},
		"nothing else to do":           {client.Info{Leased: 4, Explain: because(protocol.CauseLeased, lease), OldestLease: 302, LatestLease: 301, Config: leases(30 * time.Second)}, "", ""},
		"a lease of a day":             {client.Info{Leased: 1, Explain: because(protocol.CauseLeased, lease), OldestLease: 86400}, "jobs (leased): Why.", leasesLong},
		"dead letters of many":         {client.Info{Queue: "grave", Ready: 1, Explain: because(protocol.CauseDeadLetters)}, "grave (dead letters): Why.", holdsDead},
		"starvation":                   {client.Info{Ready: 2, Explain: because(protocol.CauseFlows), Oldest: 3, OldestOfAll: 7200}, "waited for 2h0m behind more urgent ones", starves},
		"perhaps longer":               {client.Info{Ready: 2, Explain: because(protocol.CauseFlows), Oldest: 3, OldestOfAll: 7200, OldestAtLeast: true}, "waited for 2h0m or more behind", starves},
		"no room in the store":         {client.Info{Explain: because(protocol.CauseStoreFull, protocol.Explain{Refuses: protocol.ReasonStoreFull})}, "", ""},
		"nor workers":                  {client.Info{Ready: 1, Explain: because(protocol.CauseNoWorkers, protocol.Explain{Refuses: protocol.ReasonStoreFull})}, "jobs (no workers): Why.", "stand (no workers)"},
		"slow, in order":               {client.Info{Ready: 2, Explain: because(protocol.CauseFlows), Oldest: 7000, OldestOfAll: 7200, Rates: client.Rates{Pop: 1}}, "", ""},
		"busy":                         {client.Info{Ready: 2, Explain: because(protocol.CauseFlows), Oldest: 3, OldestOfAll: 60}, "", ""},
		"not all bridges have said":    {client.Info{Ready: 2, Explain: because(protocol.CauseUnknown)}, "", ""},
		"all leased":                   {client.Info{Leased: 2, Explain: because(protocol.CauseLeased)}, "", ""},
		"items fail":                   {failing, "jobs (failing): Why. Do that. pq list jobs --state delayed --attempts", fails},
		"costs more than a tenth more": {client.Info{Cost: &protocol.Cost{Reserved: 1000, Spent: 1101}}, "jobs: its items have cost 1,101, and their pushes said 1,000: correct", costMore},
		"costs half as much":           {client.Info{Cost: &protocol.Cost{Reserved: 1000, Spent: 500}}, "have cost 500 of the 1,000 that their pushes reserved (50 %)", costLess},
		"costs a tenth more":           {client.Info{Cost: &protocol.Cost{Reserved: 1000, Spent: 1100}}, "", ""},
		"costs a little less":          {client.Info{Cost: &protocol.Cost{Reserved: 1000, Spent: 501}}, "", ""},
		"at its rate for long":         {client.Info{Ready: 2, Explain: because(protocol.CauseRate), Oldest: 3601, OldestOfAll: 3601}, "jobs (rate): Why.", waitsLong},
		"costs too little to say":      {client.Info{Cost: &protocol.Cost{Reserved: 999, Spent: 9990}}, "", ""},
		"one item fails":               {client.Info{Delayed: 1, Explain: because(protocol.CauseFailing)}, "jobs (failing), too few attempts for a warning: Why.", failsSome},
		"it fails beside others":       {client.Info{Delayed: 2, Rates: client.Rates{Nack: 1}, Explain: because(protocol.CauseDelayed, protocol.Explain{Failing: 1})}, "jobs: more attempts fail than succeed. Why.", fails},
		"more fail than succeed":       {client.Info{Ready: 2, Rates: client.Rates{Nack: 1}, Explain: because(protocol.CauseFlows)}, "jobs: more attempts fail than succeed: \"pq list jobs --attempts\"", fails},
		"all delayed":                  {client.Info{Delayed: 2, Explain: because(protocol.CauseDelayed)}, "", ""},
		"nothing is here":              {client.Info{Explain: because(protocol.CauseEmpty)}, "", ""},
	} {
		tc.info.Queue = cmp.Or(tc.info.Queue, "jobs")
		var found remarks
		examineQueue(&tc.info, leasedLong(&tc.info), tc.info.Rates.Nack > 0, found.add)
		if tc.says == "" && len(found.kinds) == 0 {
			continue
		}
		if len(found.kinds) != 1 || found.kinds[0] != tc.kind || len(found.texts[tc.kind]) != 1 || !strings.Contains(found.texts[tc.kind][0], tc.says) {
			t.Errorf("%s: %q, expected one that they %q: %q", name, found.texts, tc.kind, tc.says)
		}
	}
	for k, want := range map[kind]verdict{
		takesNone: bad, stands(protocol.CausePaused): warn, holdsDead: warn, waitsLong: warn, leasesLong: warn, starves: warn, fails: warn,
		failsSome: fine, costMore: warn, costLess: fine, stands(protocol.CauseRate): fine,
	} {
		if got := k.verdict(); got != want {
			t.Errorf("queues that %s: %s, expected %s", k, got, want)
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
		info := client.Info{Queue: queue, Explain: client.Explain{Cause: protocol.CausePaused, Text: "The queue is paused."}}
		if queue == "q-3-7" {
			info.Explain = client.Explain{Cause: protocol.CauseFull, Text: "No push is taken.", Refuses: protocol.ReasonFull}
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
	d := &doctor{session: s, mostQueues: pages * queues}
	if d.client, err = s.Connect(); err != nil {
		t.Fatal(err)
	}
	d.queues()
	text := out.String()
	if !d.failed || d.err != nil || strings.Count(text, "\n") != mostOfKind+3 || strings.Count(text, "is paused") != mostOfKind ||
		!strings.Contains(text, "FAIL  queues       q-3-7 (full): No push is taken.") || !strings.Contains(text, "warn  queues       and 229 more queues stand (paused)") ||
		!strings.Contains(text, "ok    queues       240 queues looked at") {
		t.Errorf("%v, %v:\n%s", d.failed, d.err, text)
	}
	out.Reset()
	d.failed, d.mostQueues = false, queues+1
	d.queues()
	text = out.String()
	if d.failed || !strings.Contains(text, "and 70 more queues stand (paused)") || !strings.Contains(text, "warn  queues       there are more than the 80 queues that were looked at") {
		t.Errorf("%v, %v:\n%s", d.failed, d.err, text)
	}
}

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
