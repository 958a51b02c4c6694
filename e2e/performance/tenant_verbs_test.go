package performance_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// ledger is what a hostile tenant has by the answers that it got, whatever pqd counts. It leaves out the queues
// silent, whose pushes are not answered, and cron, whose schedule pushes by itself.
type ledger struct {
	mu       sync.Mutex
	items    int64 // pushed and acknowledged, less what was taken
	unknown  int64 // answered 504
	cost     int64 // requests that were served, and their items
	served   map[string]int
	refused  map[string]int
	last     time.Time // an answer came
	acks     []string  // of leases
	ids      []string  // as <queue>.<verb>.<id> with %s for the verb
	dead     []string
	taken    []string // ids that plain pops took
	unserved int64    // requests without an answer
}

const hostileQueues = 60

// verb is one kind of request. The answer says how many items the tenant has more, how many requests it cost, and
// whether it is the last one.
type verb struct {
	what    string
	next    func(l *ledger, r *rand.Rand) *nats.Msg // its subject without the tenant; nil: not at this time
	answers func(l *ledger, m *nats.Msg) (more, cost int, done bool)
}

func code(m *nats.Msg) string {
	if c := m.Header.Get("Nats-Service-Error-Code"); c != "" {
		return c
	}
	if c := m.Header.Get("Status"); c != "204" {
		return c
	}
	return ""
}

func anyQueue(r *rand.Rand) string { return fmt.Sprintf("q%d", r.IntN(hostileQueues)) }

// keep remembers one of many, the newest ones.
func keep(pool *[]string, one string) {
	if *pool = append(*pool, one); len(*pool) > 4096 {
		*pool = append([]string(nil), (*pool)[2048:]...)
	}
}

// take returns one of a pool, and has it stay there if it is to be used again.
func take(pool *[]string, r *rand.Rand, stays bool) string {
	if len(*pool) == 0 {
		return ""
	}
	i := r.IntN(len(*pool))
	one := (*pool)[i]
	if !stays {
		(*pool)[i] = (*pool)[len(*pool)-1]
		*pool = (*pool)[:len(*pool)-1]
	}
	return one
}

func nothing(*ledger, *nats.Msg) (more, cost int, done bool) { return 0, 1, true }

func afterPush(l *ledger, m *nats.Msg) (more, cost int, done bool) {
	var pushed protocol.PushResponse
	if err := json.Unmarshal(m.Data, &pushed); err != nil || pushed.Error != nil {
		return 0, 1, true
	}
	all := pushed.Items
	if all == nil {
		all = []protocol.PushResult{{ID: pushed.ID, Duplicate: pushed.Duplicate, Evicted: pushed.Evicted}}
	}
	for _, one := range all {
		if one.Error == nil && !one.Duplicate && !one.Evicted {
			more++
			keep(&l.ids, pushed.Stream+".%s."+one.ID)
		}
	}
	return more, len(all), true
}

// swapped is afterPush of a push that takes one item for each that it adds.
func swapped(l *ledger, m *nats.Msg) (more, cost int, done bool) {
	_, cost, done = afterPush(l, m)
	return 0, cost, done
}

// afterPop counts what a plain pop took. What is leased stays.
func afterPop(l *ledger, m *nats.Msg) (more, cost int, done bool) {
	one := func(ack, id string) {
		cost++
		if ack != "" {
			keep(&l.acks, ack)
			return
		}
		more--
		keep(&l.taken, id)
	}
	if m.Header.Get("PQ-Bundle") != "" {
		for rest := m.Data; len(rest) > 0; {
			sizes, frame, _ := bytes.Cut(rest, []byte("\n"))
			var headers, payload int
			if _, err := fmt.Sscan(string(sizes), &headers, &payload); err != nil {
				panic(fmt.Sprintf("a bundle that cannot be read: %q", sizes))
			}
			var ack, id string
			for line := range strings.Lines(string(frame[:headers])) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
				switch name {
				case "PQ-Ack":
					ack = value
				case "PQ-Id":
					id = value
				}
			}
			one(ack, id)
			rest = frame[min(len(frame), headers+payload+1):]
		}
		return more, cost, true
	}
	if !testenv.IsItem(m) {
		return 0, 1, true
	}
	one(m.Header.Get("PQ-Ack"), m.Header.Get("PQ-Id"))
	return more, cost, true
}

// afterBatch is afterPop of one item of several, until the end mark.
func afterBatch(l *ledger, m *nats.Msg) (more, cost int, done bool) {
	more, cost, _ = afterPop(l, m)
	return more, cost, !testenv.IsItem(m)
}

func afterPeek(_ *ledger, m *nats.Msg) (more, cost int, done bool) {
	n, _ := strconv.Atoi(m.Header.Get("PQ-Bundle"))
	return 0, max(1, n), true
}

func afterAck(_ *ledger, m *nats.Msg) (more, cost int, done bool) {
	if m.Header.Get("Status") == "" {
		more = -1
	}
	return more, 1, true
}

// afterNext: the acknowledgement holds where there is no next item, too.
func afterNext(l *ledger, m *nats.Msg) (more, cost int, done bool) {
	if testenv.IsItem(m) {
		more, cost, _ = afterPop(l, m)
		return more - 1, cost, true
	}
	switch code(m) {
	case "404", "408", "409":
		return -1, 1, true
	}
	return 0, 1, true
}

func afterAcks(_ *ledger, m *nats.Msg) (more, cost int, done bool) {
	lines := strings.Split(strings.TrimSpace(string(m.Data)), "\n")
	for _, line := range lines {
		if line == "+OK" {
			more--
		}
	}
	return more, len(lines), true
}

func afterRemove(_ *ledger, m *nats.Msg) (more, cost int, done bool) {
	if code(m) == "" {
		more = -1
	}
	return more, 1, true
}

// counted is of an answer that says how many.
func counted(field string, sign int) func(*ledger, *nats.Msg) (int, int, bool) {
	return func(_ *ledger, m *nats.Msg) (int, int, bool) {
		var said map[string]any
		if code(m) != "" || json.Unmarshal(m.Data, &said) != nil {
			return 0, 1, true
		}
		n, _ := said[field].(float64)
		return sign * int(n), max(1, int(n)), true
	}
}

// listed keeps the ids of dead letters.
func listed(l *ledger, m *nats.Msg) (more, cost int, done bool) {
	var page struct{ Items []struct{ ID, Origin string } }
	if json.Unmarshal(m.Data, &page) != nil {
		return 0, 1, true
	}
	for _, one := range page.Items {
		keep(&l.dead, one.Origin+"-dead.requeue."+one.ID)
	}
	return 0, max(1, len(page.Items)), true
}

// frames are items of a bundle of some bytes, of which each tenth is malformed if so.
func frames(n, size int, malformed bool) string {
	var b strings.Builder
	body := strings.Repeat("x", size)
	for i := range n {
		headers := ""
		if malformed && i%10 == 9 {
			headers = "PQ-Priority: high\n"
		}
		fmt.Fprintf(&b, "%d %d\n%s%s\n", len(headers), size, headers, body)
	}
	return b.String()
}

func someMany(r *rand.Rand) int { return []int{1, 2, 10, 100, 300, 1000}[r.IntN(6)] }

// toItem is a request about one item of a pool.
func toItem(name, rest, body string) func(*ledger, *rand.Rand) *nats.Msg {
	return func(l *ledger, r *rand.Rand) *nats.Msg {
		if id := take(&l.ids, r, true); id != "" {
			return hostile(fmt.Sprintf(id, name)+rest, body)
		}
		return nil
	}
}

func settling(word string) func(*ledger, *rand.Rand) *nats.Msg {
	return func(l *ledger, r *rand.Rand) *nats.Msg {
		if ack := take(&l.acks, r, word == "+WPI"); ack != "" {
			return hostile(strings.TrimPrefix(ack, "pq.FLOOD."), word)
		}
		return nil
	}
}

// toQueue is a request to one of the queues.
func toQueue(rest, body string, header ...string) func(*ledger, *rand.Rand) *nats.Msg {
	return func(_ *ledger, r *rand.Rand) *nats.Msg { return hostile(anyQueue(r)+rest, body, header...) }
}

func pushing(size int) verb {
	return verb{"push", func(_ *ledger, r *rand.Rand) *nats.Msg {
		return hostile(fmt.Sprintf("%s.push.%d", anyQueue(r), r.IntN(9)), strings.Repeat("x", r.IntN(size)))
	}, afterPush}
}

func bundling(size int, each bool) verb {
	what, header := "push of a bundle", []string{}
	if each {
		what, header = "push of a bundle, each on its own", []string{"PQ-Each", "true"}
	}
	return verb{what, func(_ *ledger, r *rand.Rand) *nats.Msg {
		n := someMany(r)
		return hostile(anyQueue(r)+".push", frames(n, r.IntN(size), each), append(header, "PQ-Bundle", strconv.Itoa(n))...)
	}, afterPush}
}

// filling are verbs that add, to stand at the limit.
func filling(size int) []verb {
	return []verb{pushing(size), pushing(size), bundling(size, false), bundling(size, true)}
}

var emptying = verb{"purge", toQueue(".admin.purge", ""), func(l *ledger, m *nats.Msg) (more, cost int, done bool) {
	more, _, done = counted("purged", -1)(l, m)
	return more, 1, done
}}

const plannedPayload = 100

// everyVerb is all that a tenant may send.
var everyVerb = []verb{
	pushing(100), pushing(100), pushing(2000), bundling(50, false), bundling(50, true), bundling(50, true),
	{"push with an id", func(_ *ledger, r *rand.Rand) *nats.Msg {
		return hostile(anyQueue(r)+".push", "x", "Nats-Msg-Id", fmt.Sprint(r.IntN(500)))
	}, afterPush},
	{"push with a unique value", func(_ *ledger, r *rand.Rand) *nats.Msg {
		return hostile(anyQueue(r)+".push", strings.Repeat("u", r.IntN(3000)), "PQ-Unique", fmt.Sprint(r.IntN(5)),
			"PQ-On-Conflict", []string{"keep", "replace", "raise"}[r.IntN(3)])
	}, afterPush},
	{"push with a key", func(_ *ledger, r *rand.Rand) *nats.Msg {
		return hostile("keyed.push", "x", "PQ-Key", fmt.Sprint(r.IntN(1000)), "PQ-Delay", "1s")
	}, afterPush},
	{"push to a new queue", func(_ *ledger, r *rand.Rand) *nats.Msg {
		return hostile(fmt.Sprintf("n%d.push", r.IntN(1_000_000)), "x")
	}, afterPush},
	{"push in place of a lease", func(l *ledger, r *rand.Rand) *nats.Msg {
		ack := take(&l.acks, r, false)
		queue, _, found := strings.Cut(strings.TrimPrefix(ack, "pq.FLOOD."), ".")
		if !found {
			return nil
		}
		return hostile(queue+".push", strings.Repeat("h", r.IntN(2000)), "PQ-Settle", ack)
	}, swapped},
	{"pop", toQueue(".pop.min", ""), afterPop},
	{"pop of a bundle", func(_ *ledger, r *rand.Rand) *nats.Msg {
		return hostile(anyQueue(r)+".pop.max", "", "PQ-Bundle", fmt.Sprint(someMany(r)))
	}, afterPop},
	{"pop of a batch", func(_ *ledger, r *rand.Rand) *nats.Msg {
		return hostile(anyQueue(r)+".pop.min", fmt.Sprint(someMany(r)))
	}, afterBatch},
	{"pop that waits", func(_ *ledger, r *rand.Rand) *nats.Msg {
		return hostile(fmt.Sprintf("empty%d.pop.min", r.IntN(1000)), "", "PQ-Wait", "2s")
	}, afterPop},
	{"lease", toQueue(".pop.min", "", "PQ-Lease", "2s"), afterPop},
	{"lease of a bundle", toQueue(".pop.min", "", "PQ-Lease", "2s", "PQ-Bundle", "100"), afterPop},
	{"lease that ends at once", toQueue(".pop.min", "", "PQ-Lease", "1ms"), afterPop},
	{"pop in two steps", toQueue(".pop.min", "", "PQ-Confirm", "1s"), afterPop},
	{"peek", toQueue(".peek.max", "", "PQ-Bundle", "100"), afterPeek},
	{"+ACK", settling("+ACK"), afterAck},
	{"-NAK", settling(`-NAK {"delay":1000000,"reason":"no"}`), nothing},
	{"+BACK", settling("+BACK"), nothing},
	{"+WPI", settling("+WPI"), nothing},
	{"+TERM", settling("+TERM it cannot be done"), nothing},
	{"+NXT", settling("+NXT"), afterNext},
	{"settlements", func(l *ledger, r *rand.Rand) *nats.Msg {
		byQueue := make(map[string][]string)
		for range 100 {
			ack := take(&l.acks, r, false)
			queue, _, _ := strings.Cut(strings.TrimPrefix(ack, "pq.FLOOD."), ".")
			if ack != "" {
				byQueue[queue] = append(byQueue[queue], ack)
			}
		}
		for queue, acks := range byQueue {
			return hostile(queue+".ack.bundle.settle", strings.Join(acks, "\n"), "PQ-Bundle", strconv.Itoa(len(acks)))
		}
		return nil
	}, afterAcks},
	{"import", func(l *ledger, r *rand.Rand) *nats.Msg {
		if id := take(&l.taken, r, true); id != "" {
			return hostile(anyQueue(r)+".import", "again", "PQ-Id", id)
		}
		return nil
	}, afterPush},
	{"get", toItem("get", "", ""), nothing},
	{"move", toItem("move", ".3", ""), nothing},
	{"remove", toItem("remove", "", ""), afterRemove},
	{"cancel", toItem("cancel", "", ""), afterRemove},
	{"revoke", toItem("revoke", "", ""), nothing},
	{"list of dead letters", toQueue("-dead.list", `{"limit":1000}`), listed},
	{"requeue", func(l *ledger, r *rand.Rand) *nats.Msg {
		if id := take(&l.dead, r, false); id != "" {
			return hostile(id, "")
		}
		return nil
	}, nothing},
	{"requeues", toQueue("-dead.admin.requeue", `{"all":true}`), counted("done", 0)},
	{"moves", func(_ *ledger, r *rand.Rand) *nats.Msg {
		return hostile(anyQueue(r)+".admin.move", fmt.Sprintf(`{"all":true,"priority":%d}`, r.IntN(9)))
	}, counted("done", 0)},
	{"removes", toQueue(".admin.remove", `{"all":true,"limit":20}`), counted("done", -1)},
	{"revokes", toQueue(".admin.revoke", `{"all":true}`), counted("done", 0)},
	emptying,
	{"pause", toQueue(".admin.pause", ""), nothing},
	{"resume", toQueue(".admin.resume", ""), nothing},
	{"resume again", toQueue(".admin.resume", ""), nothing},
	{"config", func(_ *ledger, r *rand.Rand) *nats.Msg {
		return hostile(anyQueue(r)+".admin.config", fmt.Sprintf(`{"max_deliveries":%d,"dedup_window":"%ds","hand_over":"*"}`, 2+r.IntN(4), 2+r.IntN(9)))
	}, nothing},
	{"config of a new queue", func(_ *ledger, r *rand.Rand) *nats.Msg {
		return hostile(fmt.Sprintf("void%d.admin.config", r.IntN(40)), `{"priority":3}`)
	}, nothing},
	{"delete", func(_ *ledger, r *rand.Rand) *nats.Msg {
		return hostile(fmt.Sprintf("void%d.admin.delete", r.IntN(40)), "")
	}, nothing},
	{"settings of a key", func(_ *ledger, r *rand.Rand) *nats.Msg {
		return hostile(fmt.Sprintf("keyed.admin.key.%d", r.IntN(1000)), fmt.Sprintf(`{"weight":%d}`, 1+r.IntN(9)))
	}, nothing},
	{"no settings of a key", func(_ *ledger, r *rand.Rand) *nats.Msg {
		return hostile(fmt.Sprintf("keyed.admin.key.%d", r.IntN(1000)), `{"weight":null}`)
	}, nothing},
	{"schedule", func(_ *ledger, r *rand.Rand) *nats.Msg {
		body := fmt.Sprintf(`{"spec":"@at 2099-01-01T00:00:00Z","overlap":"allow","item":{"payload":%q}}`, strings.Repeat("s", plannedPayload))
		return hostile(fmt.Sprintf("planned.admin.schedule.s%d", r.IntN(200)), body)
	}, nothing},
	{"run of a schedule", func(_ *ledger, r *rand.Rand) *nats.Msg {
		return hostile(fmt.Sprintf("planned.admin.schedule.s%d.run", r.IntN(200)), "")
	}, afterPush},
	{"delete of a schedule", func(_ *ledger, r *rand.Rand) *nats.Msg {
		return hostile(fmt.Sprintf("planned.admin.schedule.s%d.delete", r.IntN(200)), "")
	}, nothing},
	{"info", toQueue(".info", `{"history":true}`), nothing},
	{"keys", func(*ledger, *rand.Rand) *nats.Msg { return hostile("keyed.keys", "") }, nothing},
	{"schedules", func(*ledger, *rand.Rand) *nats.Msg { return hostile("planned.schedules", "") }, nothing},
	{"sources", toQueue(".sources", ""), nothing},
	{"links", toQueue(".links", ""), nothing},
	{"its queues", func(*ledger, *rand.Rand) *nats.Msg { return hostile("_sys.list", "") }, nothing},
	{"itself", func(*ledger, *rand.Rand) *nats.Msg { return hostile("_sys.info", "") }, nothing},
	{"list", toQueue(".list", `{"limit":1000,"bodies":true}`), nothing},
	{"unknown verb", toQueue(".nonsense", ""), nothing},
	{"malformed header", toQueue(".push", "x", "PQ-Nonsense", "1"), nothing},
	{"malformed priority", toQueue(".push.high", "x"), nothing},
	{"malformed bundle", toQueue(".push", "1 2 3", "PQ-Bundle", "7"), nothing},
	{"malformed body", toQueue(".admin.config", "{"), nothing},
	{"invented lease", toQueue(".ack.connection.token", ""), nothing},
	{"what is the operator's", func(*ledger, *rand.Rand) *nats.Msg { return hostile("_sys.cluster.status", "") }, nothing},
}

// intruder is one connection of a hostile tenant.
type intruder struct {
	*ledger
	nc      *nats.Conn
	inbox   string
	random  *rand.Rand
	pending map[string]verb
	slots   chan struct{}
	asked   int
}

func newIntruder(t *testing.T, l *ledger, nc *nats.Conn) *intruder {
	t.Helper()
	i := &intruder{ledger: l, nc: nc, inbox: nc.NewInbox(), random: rand.New(rand.NewPCG(rand.Uint64(), 0)), pending: make(map[string]verb)}
	sub, err := nc.Subscribe(i.inbox+".*", i.answer)
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		t.Fatal(err)
	}
	return i
}

func (i *intruder) answer(m *nats.Msg) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.last = time.Now()
	v, found := i.pending[m.Subject]
	if !found {
		i.refused["answered late"]++
		return
	}
	more, cost, done := v.answers(i.ledger, m)
	i.items += int64(more)
	switch c := code(m); c {
	case "429":
		i.refused["429 "+m.Header.Get("PQ-Reason")]++
	case "":
		i.served[v.what]++
		i.cost += int64(cost)
	default:
		i.refused[c]++
		i.cost += int64(cost)
		if c == "504" {
			i.unknown++
		}
	}
	if done {
		delete(i.pending, m.Subject)
		select {
		case i.slots <- struct{}{}:
		default: // of a request from before, beyond the window of this time
		}
	}
}

// send has so many requests under way until it is stopped.
func (i *intruder) send(t *testing.T, verbs []verb, window int, stop <-chan struct{}) {
	slots := make(chan struct{}, window)
	for range window {
		slots <- struct{}{}
	}
	i.mu.Lock()
	i.slots = slots
	i.mu.Unlock()
	for {
		select {
		case <-stop:
			return
		case <-slots:
		}
		i.mu.Lock()
		var m *nats.Msg
		var v verb
		for m == nil {
			v = verbs[i.random.IntN(len(verbs))]
			m = v.next(i.ledger, i.random)
		}
		i.asked++
		m.Subject, m.Reply = "pq.FLOOD."+m.Subject, fmt.Sprintf("%s.%d", i.inbox, i.asked)
		i.pending[m.Reply] = v
		i.mu.Unlock()
		if err := i.nc.PublishMsg(m); err != nil {
			t.Error(err)
			return
		}
		if i.asked%50 == 0 {
			if err := i.nc.Publish("pq.FLOOD.silent.push", []byte("x")); err != nil {
				t.Error(err)
				return
			}
		}
	}
}
