package operations_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// metered is a pqd whose metrics of queues a test watches.
type metered struct {
	*testing.T
	process *testenv.Process
	nc      *nats.Conn
}

func meter(t *testing.T, env ...string) *metered {
	t.Helper()
	p := testenv.Daemon(t, env...)
	return &metered{T: t, process: p, nc: p.Connect(t)}
}

// ask sends a request, with pairs of headers, and returns the answer.
func (m *metered) ask(subject, body string, header ...string) *nats.Msg {
	m.Helper()
	return pqd.Request(m.T, m.nc, subject, body, header...)
}

// lease leases the next item.
func (m *metered) lease(queue, duration string) *nats.Msg {
	m.Helper()
	return pqd.Lease(m.T, m.nc, queue, duration)
}

// pushed pushes an item and returns its id.
func (m *metered) pushed(subject, body string, header ...string) string {
	m.Helper()
	return pqd.PushMsg(m.T, m.nc, subject, body, header...)
}

var (
	queueSeries = regexp.MustCompile(`(?m)^pq_queue_(\w+)\{(.*)\} (\S+)$`)
	labelOf     = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// queues are the metrics of queues, by "queue metric", or "queue metric label".
func (m *metered) queues() map[string]float64 {
	m.Helper()
	_, page := pqd.Get(m.T, m.process.HTTP+"/metrics")
	values := make(map[string]float64)
	for _, series := range queueSeries.FindAllStringSubmatch(page, -1) {
		queue, more := "", ""
		for _, label := range labelOf.FindAllStringSubmatch(series[2], -1) {
			switch label[1] {
			case "queue":
				queue = label[2]
			case "store":
			default:
				more = " " + label[2]
			}
		}
		value, err := strconv.ParseFloat(series[3], 64)
		if err != nil {
			m.Fatal(err)
		}
		values[queue+" "+series[1]+more] = value
	}
	return values
}

// counted are the counters of queues that are not 0.
func (m *metered) counted() map[string]float64 {
	m.Helper()
	counters := m.queues()
	maps.DeleteFunc(counters, func(name string, value float64) bool { return !strings.Contains(name, "_total") || value == 0 })
	return counters
}

// moves checks that an operation moves these counters by so much, and no others.
func (m *metered) moves(what string, want string, do func()) {
	m.Helper()
	before := m.counted()
	do()
	var moved []string
	defer func() {
		if m.Failed() {
			m.Fatalf("%s moved %q, expected %q", what, moved, want)
		}
	}()
	testenv.Await(m.T, what, func() bool {
		moved = nil
		now := m.counted()
		for _, name := range slices.Sorted(maps.Keys(now)) {
			if delta := now[name] - before[name]; delta != 0 {
				moved = append(moved, fmt.Sprintf("%s +%g", strings.Replace(name, "_total", "", 1), delta))
			}
		}
		return strings.Join(moved, ", ") == want
	})
}

// Each operation moves the counters of its queue by exactly what it has done.
func TestCountersOfQueues(t *testing.T) {
	t.Parallel()
	m := meter(t)
	ask := func(subject, body string, header ...string) func() {
		return func() { m.ask(subject, body, header...) }
	}
	m.moves("a push", "jobs pushed +1", ask("pq.jobs.push", "x"))
	m.moves("a push and its repetition", "jobs duplicates +1, jobs pushed +1", func() {
		m.ask("pq.jobs.push", "x", "Nats-Msg-Id", "1")
		m.ask("pq.jobs.push", "x", "Nats-Msg-Id", "1")
	})
	m.moves("a push that is refused", "", ask("pq.jobs.push", "x", "PQ-Delay", "soon"))
	m.moves("a pop for good", "jobs popped +1", ask("pq.jobs.pop.min", ""))
	m.moves("a lease and its acknowledgement", "jobs acknowledged +1, jobs popped +1", func() {
		m.ask(m.lease("jobs", "1m").Reply, "+ACK")
	})
	m.moves("a pop of nothing", "jobs not_served empty +1", ask("pq.jobs.pop.min", ""))
	m.moves("a batch and a peek", "jobs popped +3, jobs pushed +4", func() {
		for range 4 {
			m.ask("pq.jobs.push", "x")
		}
		m.ask("pq.jobs.peek.min", "")
		m.ask("pq.jobs.pop.min", "", "PQ-Bundle", "3")
	})
	m.moves("a pop and its repetition", "jobs popped +1", func() {
		for range 2 {
			if item := m.ask("pq.jobs.pop.min", "", "Nats-Msg-Id", "p", "PQ-Repeat", "true"); !testenv.IsItem(item) {
				t.Errorf("the pop answers %v", item.Header)
			}
		}
	})
	m.moves("a NAK", "jobs failures +1, jobs popped +1, jobs pushed +1, jobs returned +1", func() {
		m.ask("pq.jobs.push", "x")
		m.ask(m.lease("jobs", "1m").Reply, "-NAK")
	})
	m.moves("a +WPI, a +NXT, and an acknowledgement that comes too late", "jobs acknowledged +1, jobs not_served empty +1, jobs not_served gone +1, jobs popped +1", func() {
		item := m.lease("jobs", "1m")
		m.ask(item.Reply, "+WPI")
		m.ask(item.Reply, "+NXT")
		if _, err := m.nc.Request(item.Reply, []byte("+ACK"), testenv.Patience()); !errors.Is(err, nats.ErrNoResponders) { // 503 of a settlement
			t.Errorf("an acknowledgement of what is gone: %v", err)
		}
	})
	m.moves("a bundle of settlements", "jobs acknowledged +1, jobs failures +1, jobs popped +2, jobs pushed +2, jobs returned +1", func() {
		m.ask("pq.jobs.push", "x")
		m.ask("pq.jobs.push", "y")
		first, second := m.lease("jobs", "1m"), m.lease("jobs", "1m")
		m.ask(first.Reply, first.Reply+" +ACK\n"+second.Reply+" -NAK", "PQ-Bundle", "2")
	})
	m.moves("a purge", "jobs removed +1", ask("pq.jobs.admin.purge", ""))
	m.moves("a removal", "jobs pushed +1, jobs removed +1", func() {
		m.ask("pq.jobs.remove."+m.pushed("pq.jobs.push", "x"), "")
	})
	m.moves("a removal of nothing", "jobs not_served unknown +1, mail pushed +1", func() {
		m.ask("pq.jobs.remove."+m.pushed("pq.mail.push", "x"), "")
	})
	m.moves("an import, twice", "jobs imported +1, mail pushed +1", func() {
		id := m.pushed("pq.mail.push", "y")
		m.ask("pq.jobs.import", "y", "PQ-Id", id)
		m.ask("pq.jobs.import", "y", "PQ-Id", id)
	})
	m.moves("a hand-over", "jobs acknowledged +1, jobs popped +1, mail pushed +1", func() {
		m.ask("pq.jobs.admin.config", `{"hand_over":"mail"}`)
		m.ask("pq.mail.push", "z", "PQ-Settle", m.lease("jobs", "1m").Reply)
	})
	m.moves("a queue that does not exist", "_other not_served unknown +2", func() {
		m.ask("pq.nothing.pop.min", "")
		m.ask("pq.nothing.info", "")
	})
}

// What happens to items by itself moves a counter of their queue, and so does each reason
// not to serve a request.
func TestCountersOfEventsAndReasons(t *testing.T) {
	t.Parallel()
	m := meter(t)
	ask := func(subject, body string, header ...string) func() {
		return func() { m.ask(subject, body, header...) }
	}
	lease := func(header ...string) func() {
		return ask("pq.jobs.pop.min", "", append(header, "PQ-Lease", "10m")...)
	}
	m.moves("a +TERM", "jobs dead +1, jobs popped +1, jobs pushed +1", func() {
		m.ask("pq.jobs.push", "x")
		m.ask(m.lease("jobs", "1m").Reply, "+TERM")
	})
	m.moves("a last delivery", "jobs dead +1, jobs failures +1, jobs popped +1, jobs pushed +1, jobs returned +1", func() {
		m.ask("pq.jobs.admin.config", `{"max_deliveries":1}`)
		m.ask("pq.jobs.push", "x")
		m.ask(m.lease("jobs", "1m").Reply, "-NAK")
		m.ask("pq.jobs.admin.config", `{"max_deliveries":0}`)
	})
	m.moves("the end of a dead letter", "jobs-dead dead +1, jobs-dead popped +1", func() {
		m.ask(m.lease("jobs-dead", "1m").Reply, "+TERM")
	})
	m.moves("a lease that runs out", "jobs leases_lost +1, jobs popped +1, jobs pushed +1", func() {
		m.ask("pq.jobs.push", "x")
		m.lease("jobs", "1ms")
	})
	m.moves("an item that expires", "jobs expired +1, jobs pushed +1", ask("pq.jobs.push.9", "x", "PQ-TTL", "1ms"))
	m.moves("an eviction", "jobs evicted +1, jobs pushed +1", func() {
		m.ask("pq.jobs.admin.config", `{"max_length":1,"overflow":"evict"}`)
		m.ask("pq.jobs.push", "y")
	})
	m.moves("a full queue", "jobs not_served full +1", func() {
		m.ask("pq.jobs.admin.config", `{"overflow":"refuse"}`)
		m.ask("pq.jobs.push", "z")
		m.ask("pq.jobs.admin.config", `{"max_length":0}`)
	})
	m.moves("only a leased item", "jobs not_served leased +1, jobs popped +1", func() {
		m.ask("pq.jobs.admin.config", `{"lease":"10m"}`)
		lease()()
		lease()()
	})
	m.moves("keys whose items wait", "jobs not_served blocked +2, jobs popped +1, jobs pushed +2", func() {
		m.ask("pq.jobs.admin.config", `{"key_limit":1}`)
		for range 2 {
			m.ask("pq.jobs.push", "x", "PQ-Key", "ann")
		}
		lease()()
		lease()()
		m.ask("pq.jobs.peek.min", "")
	})
	m.moves("a wait that ends", "", lease("PQ-Wait", "10ms"))
	m.moves("a pop from the wrong end", "jobs not_served only_min +1", ask("pq.jobs.pop.max", ""))
	m.moves("a pop without a lease", "jobs not_served lease_required +1", func() {
		m.ask("pq.jobs.admin.config", `{"lease":"0s"}`)
		m.ask("pq.jobs.pop.min", "")
		m.ask("pq.jobs.admin.config", `{"key_limit":0}`)
	})
	m.moves("a paused queue", "jobs not_served paused +1", func() {
		m.ask("pq.jobs.admin.pause", "")
		m.ask("pq.jobs.pop.min", "")
		m.ask("pq.jobs.admin.resume", "")
	})
	m.moves("only a delayed item", "mail not_served delayed +1, mail pushed +1", func() {
		m.ask("pq.mail.push", "x", "PQ-Delay", "1h")
		m.ask("pq.mail.pop.min", "")
	})
	m.ask("pq.mail.admin.delete", "")
	testenv.Await(t, "the deleted queue has no metrics", func() bool {
		return !slices.ContainsFunc(slices.Collect(maps.Keys(m.queues())), func(name string) bool { return strings.HasPrefix(name, "mail ") })
	})
	m.moves("a queue that is made again", "mail pushed +1", ask("pq.mail.push", "x"))
}

// The metrics of a queue say what is in it, and what limits it.
func TestGaugesOfQueues(t *testing.T) {
	t.Parallel()
	m := meter(t)
	shows := func(want map[string]float64) {
		t.Helper()
		var now map[string]float64
		defer func() {
			if t.Failed() {
				t.Fatalf("found %v, expected %v", now, want)
			}
		}()
		testenv.Await(t, "the metrics are as they should be", func() bool {
			now = m.queues()
			for name, value := range want {
				if got, is := now["jobs "+name]; is != (value >= 0) || is && got != value {
					return false
				}
			}
			return true
		})
	}
	const none = -1 // there is no such series
	m.ask("pq.jobs.push", "four", "Nats-Msg-Id", "1", "X", "1")
	shows(map[string]float64{
		"items ready": 1, "items leased": 0, "items delayed": 0, "bytes": 10, "waiting": 0, "paused": 0, "remembered_ids": 1, "results": 0, "result_bytes": 0, "cause no_workers": 1,
		"limit max_length": none, "limit max_bytes": none, "limit key_limit": none, "limit dedup_limit": 1e6, "limit max_deliveries": 16, "limit rate": none, "limit key_rate": none, "limit lease": none, "takes_dead_letters": none,
		"limit result_bytes":     none,
		"oldest_of_all_at_least": 0, "pushed_total": 1, "popped_total": 0, "dead_total": 0,
	})
	m.ask("pq.jobs.admin.config", `{"max_length":100,"max_bytes":100000,"dedup_limit":7,"key_limit":2,"max_deliveries":3,"rate":"120/1m","key_rate":"1/10s","lease":"1h","dead_letters_from":"*","result_bytes":5000}`)
	m.ask("pq.jobs.admin.pause", "")
	m.ask("pq.jobs.push", "more", "PQ-Delay", "1h")
	shows(map[string]float64{
		"items ready": 1, "items delayed": 1, "paused": 1, "cause paused": 1, "cause no_workers": none, "limit max_length": 100, "limit max_bytes": 100000, "limit dedup_limit": 7, "limit key_limit": 2, "limit max_deliveries": 3,
		"limit rate": 2, "limit key_rate": .1, "limit lease": 3600, "takes_dead_letters": 1, "limit result_bytes": 5000,
	})
	m.ask("pq.jobs.admin.resume", "")
	m.lease("jobs", "1h")
	shows(map[string]float64{"items ready": 0, "items leased": 1, "paused": 0, "cause leased": 1, "oldest_seconds": 0, "oldest_of_all_seconds": 0, "oldest_lease_at_least": 0})
	testenv.Await(t, "the lease grows older", func() bool { return m.queues()["jobs oldest_lease_seconds"] > 0.2 })
	waiting, err := m.nc.SubscribeSync(m.nc.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	if err := m.nc.PublishMsg(&nats.Msg{Subject: "pq.jobs.pop.min", Reply: waiting.Subject, Header: nats.Header{"PQ-Wait": {"100s"}}}); err != nil {
		t.Fatal(err)
	}
	shows(map[string]float64{"waiting": 1, "keys": none})
	if err := waiting.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		m.ask("pq.keyed.push", "", "PQ-Key", fmt.Sprint("key ", i/2), "PQ-Delay", "1ms")
		m.ask("pq.keyed.push", "", "PQ-Key", fmt.Sprint("key ", i/2))
	}
	m.ask("pq.keyed.admin.config", `{"key_limit":1,"lease":"1h"}`)
	m.lease("keyed", "1h")
	m.ask("pq.keyed.admin.key.key%202", `{"paused":true}`)
	for i := range 300 {
		m.ask("pq.many.push", "", "PQ-Key", fmt.Sprint("key ", i))
	}
	testenv.Await(t, "keys are counted", func() bool {
		now := m.queues()
		return now["keyed keys_waiting key_limit"] == 1 && now["keyed keys_waiting pause"] == 1 && now["keyed keys_waiting key_rate"] == 0 && now["keyed keys"] == 3 && now["keyed keys_at_least"] == 0 && now["many keys"] == 64 && now["many keys_at_least"] == 1
	})
}

// An item that more urgent ones keep waiting is seen, in info and in the metrics.
func TestStarvationIsSeen(t *testing.T) {
	t.Parallel()
	m := meter(t)
	old := time.Now().Add(-time.Hour)
	m.ask("pq.jobs.import", "starves", "PQ-Id", m.pushed("pq.elsewhere.push.9", "starves"), "Nats-Time-Stamp", old.Format(time.RFC3339Nano))
	m.ask("pq.jobs.push.1", "urgent")
	var info struct {
		Oldest  float64
		OfAll   float64 `json:"oldest_of_all"`
		AtLeast bool    `json:"oldest_at_least"`
	}
	look := func() {
		t.Helper()
		info.AtLeast = false
		if err := json.Unmarshal(m.ask("pq.jobs.info", "").Data, &info); err != nil {
			t.Fatal(err)
		}
	}
	if look(); info.Oldest > 600 || info.OfAll < 3600 || info.AtLeast {
		t.Errorf("%+v, expected the urgent item as the next one, and an hour as the oldest age", info)
	}
	testenv.Await(t, "metrics show the age of the oldest item", func() bool {
		now := m.queues()
		return now["jobs oldest_seconds"] < 600 && now["jobs oldest_of_all_seconds"] >= 3600 && now["jobs oldest_of_all_at_least"] == 0
	})
	for priority := range 70 {
		m.ask(fmt.Sprintf("pq.jobs.push.%d", 10+priority), "less urgent")
		m.ask(fmt.Sprintf("pq.jobs.push.%d", -priority), "more urgent")
	}
	if look(); info.OfAll <= 0 || info.OfAll >= 3600 || !info.AtLeast {
		t.Errorf("%+v, expected a lower bound: the oldest item is behind more priorities than are looked at", info)
	}
	testenv.Await(t, "metrics say that the age is a lower bound", func() bool { return m.queues()["jobs oldest_of_all_at_least"] == 1 })
}

// A queue whose ready items all wait for their key has no next item, and an oldest one.
func TestBlockedItemsAreSeen(t *testing.T) {
	t.Parallel()
	m := meter(t)
	for range 2 {
		m.ask("pq.jobs.push", "x", "PQ-Key", "ann")
	}
	ages := func(next, oldest bool) func() bool {
		return func() bool {
			now := m.queues()
			return now["jobs oldest_seconds"] > 0 == next && now["jobs oldest_of_all_seconds"] > 0 == oldest
		}
	}
	testenv.Await(t, "the queue has a next item", ages(true, true))
	m.ask("pq.jobs.admin.config", `{"key_limit":1,"lease":"1h"}`)
	item := m.lease("jobs", "1h")
	testenv.Await(t, "the key has its lease", ages(false, true))
	m.ask(item.Reply, "+ACK")
	testenv.Await(t, "the next item can go", ages(true, true))
	m.ask("pq.jobs.admin.key.ann", `{"paused":true}`)
	testenv.Await(t, "the key is paused", ages(false, true))
	m.ask("pq.jobs.admin.purge", "")
	testenv.Await(t, "nothing is left", ages(false, false))
}

// With as many queues as have metrics, others are counted together; the ones that work
// get the places of those that do not.
func TestMetricsOfManyQueues(t *testing.T) {
	t.Parallel()
	m := meter(t, "PQ_METRICS_QUEUES=2")
	shown := func() string {
		names := make(map[string]bool)
		for name := range m.queues() {
			queue, _, _ := strings.Cut(name, " ")
			names[queue] = true
		}
		return strings.Join(slices.Sorted(maps.Keys(names)), " ")
	}
	for _, queue := range []string{"a", "b", "c", "d"} {
		m.ask("pq."+queue+".admin.config", `{}`)
	}
	testenv.Await(t, "the first queues by name are shown", func() bool { return shown() == "_other a b" })
	m.moves("work on queues", "_other pushed +3, c pushed +1, d pushed +2", func() {
		for _, queue := range []string{"d", "c", "d", "b", "a", "b"} {
			m.ask("pq."+queue+".push", "x")
		}
	})
	testenv.Await(t, "the queues that work are shown", func() bool { return shown() == "_other c d" })
	_, page := pqd.Get(t, m.process.HTTP+"/metrics")
	if shown, most := pqd.Metric(t, page, "pq_metrics_queues"), pqd.Metric(t, page, "pq_metrics_queues_max"); shown != 2 || most != 2 {
		t.Errorf("%g queues of %g have metrics, expected 2 of 2", shown, most)
	}
}

// The metrics name the build, and what the bridge serves.
func TestInfoMetrics(t *testing.T) {
	t.Parallel()
	m := meter(t, "PQ_PREFIX=my.queues")
	_, page := pqd.Get(t, m.process.HTTP+"/metrics")
	var about struct {
		Version, Store string
		ID             string `json:"store_id"`
	}
	if err := json.Unmarshal(m.ask("my.queues._sys.info", "").Data, &about); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		fmt.Sprintf(`pq_build_info{goversion=%q,version=%q} 1`, runtime.Version(), about.Version),
		fmt.Sprintf(`pq_bridge_info{name=%q,prefix="my.queues",store=%q} 1`, about.Store, about.ID),
	} {
		if !strings.Contains(page, "\n"+line+"\n") {
			t.Errorf("/metrics has no line %s", line)
		}
	}
	free, size := pqd.Metric(t, page, "pq_store_disk_free_bytes"), pqd.Metric(t, page, "pq_store_disk_size_bytes")
	if free <= 0 || size < free {
		t.Errorf("the disk of the store has %g of %g bytes free", free, size)
	}
}
