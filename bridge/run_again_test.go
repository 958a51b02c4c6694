package bridge_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// rerunning is the way to a store that has transactions on queues with again in their names run again. There the parts of queues
// with broken in their names fail.
type rerunning struct {
	kv.DB
	next   atomic.Pointer[rerun]
	breaks atomic.Bool
	behind atomic.Int64 // parts that failed behind that of another queue
}

// rerun is what happens to a transaction.
type rerun struct {
	result error  // of its first run; nil: it has lost a conflict
	done   bool   // the first run has taken effect
	before func() // is called before the second run; nil: nothing
}

var (
	errBroken    = errors.New("the queue is broken")
	errDiscarded = errors.New("this run does not count")
)

func (d *rerunning) Update(ctx context.Context, fn func(kv.Tx) error) error {
	var again *rerun
	err := d.DB.Update(ctx, func(base kv.Tx) error {
		tx := &rerunningTx{Tx: base, reads: reads{Reader: base, of: d}}
		err := fn(tx)
		next := d.next.Load()
		if next == nil || !tx.is || next.result != nil && err != nil { // what fails is not committed
			return err
		}
		if d.next.Store(nil); next.done {
			again = next
			return nil
		}
		again = next
		return errDiscarded
	})
	if again == nil {
		return err
	}
	if again.before != nil {
		again.before()
	}
	if again.result != nil {
		return again.result
	}
	return d.DB.Update(ctx, fn)
}

type rerunningTx struct {
	kv.Tx
	reads
}

func (t *rerunningTx) Get(key []byte) ([]byte, error)         { return t.reads.Get(key) }
func (t *rerunningTx) GetAll(keys [][]byte) ([][]byte, error) { return t.reads.GetAll(keys) }
func (t *rerunningTx) Range(b, e []byte, o kv.RangeOptions) ([]kv.Pair, error) {
	return t.reads.Range(b, e, o)
}
func (t *rerunningTx) Snapshot() kv.Reader { return &snapshot{t.Tx.Snapshot(), &t.reads} }

// reads are those of a transaction.
type reads struct {
	kv.Reader
	of *rerunning
	is bool // about a queue with again in its name
}

func (r *reads) notice(keys ...[]byte) error {
	for _, key := range keys {
		if r.of.breaks.Load() && bytes.Contains(key, []byte("broken")) {
			if r.is {
				r.of.behind.Add(1)
			}
			return errBroken
		}
		r.is = r.is || bytes.Contains(key, []byte("again-"))
	}
	return nil
}

func (r *reads) Get(key []byte) ([]byte, error) {
	if err := r.notice(key); err != nil {
		return nil, err
	}
	return r.Reader.Get(key)
}

func (r *reads) GetAll(keys [][]byte) ([][]byte, error) {
	if err := r.notice(keys...); err != nil {
		return nil, err
	}
	return r.Reader.GetAll(keys)
}

func (r *reads) Range(begin, end []byte, o kv.RangeOptions) ([]kv.Pair, error) {
	if err := r.notice(begin); err != nil {
		return nil, err
	}
	return r.Reader.Range(begin, end, o)
}

// snapshot notices reads without a conflict.
type snapshot struct {
	kv.Reader
	of *reads
}

func (s *snapshot) Get(key []byte) ([]byte, error) {
	_ = s.of.notice(key)
	return s.Reader.Get(key)
}

func (s *snapshot) Range(begin, end []byte, o kv.RangeOptions) ([]kv.Pair, error) {
	_ = s.of.notice(begin)
	return s.Reader.Range(begin, end, o)
}

// again is a bridge whose transactions run again.
type again struct {
	*client
	db     *withGate
	way    *rerunning
	past   *fdbpq.Store
	tenant string // of a queue that no test is about, with a dot; "": there are no tenants
	queues int
}

func runningAgain(t *testing.T, o bridge.Options) *again {
	t.Helper()
	a, base := &again{}, engine(t)
	a.way = &rerunning{DB: base}
	a.client, a.db, _ = gateOn(t, true, a.way, base, o)
	var err error
	if a.past, err = fdbpq.Open(t.Context(), base, fdbpq.Options{}); err != nil {
		t.Fatal(err)
	}
	return a
}

// asking is a request, and what comes back.
type asking struct {
	subject, body string
	header        nats.Header

	many   bool // answers, up to one without an item
	nobody bool // hears the answer
	fails  bool // its part of a transaction does
}

// queue is the queue in its subject.
func (r asking) queue() string { return strings.Split(r.subject, ".")[1] }

// turn is which requests take turns together with it: pushes and pops do.
func (r asking) turn() string {
	for verb, turn := range map[string]string{"push": "push", "pop": "pop", "peek": "pop", "ack": "pop", "link": "pop", "import": "import"} {
		if strings.Contains(r.subject, "."+verb) && !strings.Contains(r.subject, ".admin.") {
			return turn
		}
	}
	return "change"
}

// start sends a request, and returns how to get what comes back, as a text. The requests have ended then.
func (a *again) start(r asking) (end func() string) {
	a.Helper()
	to := a.hear(a.NewInbox())
	reply, ended := to.inbox, a.endedPops()
	if r.nobody {
		reply = a.NewInbox()
	}
	if err := a.PublishMsg(&nats.Msg{Subject: r.subject, Reply: reply, Data: []byte(r.body), Header: r.header}); err != nil {
		a.Fatal(err)
	}
	return func() string {
		a.Helper()
		var all []*nats.Msg
		if r.nobody {
			testenv.Await(a, "the pop has ended", func() bool { return a.endedPops() > ended })
		} else {
			all = append(all, a.next(to))
		}
		for r.many && all[len(all)-1].Header.Get("PQ-Id") != "" {
			all = append(all, a.next(to))
		}
		a.inFlight("work", 0)
		a.inFlight("settlement", 0)
		var b strings.Builder
		for _, m := range all {
			fmt.Fprintf(&b, "%q", m.Data)
			for _, name := range slices.Sorted(maps.Keys(m.Header)) {
				fmt.Fprintf(&b, " %s: %q", name, m.Header[name])
			}
			b.WriteByte('\n')
		}
		return b.String()
	}
}

// endedPops is how many pops have ended.
func (a *again) endedPops() (n float64) {
	for name, value := range a.own() {
		if strings.HasPrefix(name, "pq_requests_total{") && strings.HasSuffix(name, ",verb=pop}") {
			n += value
		}
	}
	return n
}

// differing are texts that differ between queues: ids and tokens, times, and the sizes of what has them.
var differing = regexp.MustCompile(`[A-Za-z0-9_-]{18,}|\d{4}-\d\d-\d\dT[0-9:.]+Z?|\d{2,3} \d+\\n|\d{7}|Bytes:\d\d\b|"size":\d\d\b`)

// holds is what the store holds of a queue, and what was counted.
func (a *again) holds(queue string) string {
	a.Helper()
	var b strings.Builder
	for _, name := range []string{queue, queue + "-dead", queue + "-next"} {
		if m := a.ask("pq."+name+".info", ""); m.Header.Get("Nats-Service-Error-Code") != "" {
			fmt.Fprintf(&b, "no %s\n", name)
			continue
		}
		i := a.info(name)
		i.Oldest, i.Rates = 0, nil
		fmt.Fprintf(&b, "%+v\n", i)
		for _, state := range []string{"ready", "leased", "delayed"} {
			fmt.Fprintf(&b, "%s %s\n", state, a.ask("pq."+name+".list", `{"attempts":true,"bodies":true,"state":"`+state+`"}`).Data)
		}
		for _, kind := range []string{"keys", "schedules", "links"} {
			fmt.Fprintf(&b, "%s %s\n", kind, a.ask("pq."+name+"."+kind, "").Data)
		}
	}
	fmt.Fprintf(&b, "counted %v\n", bridge.Counted(a.env.Bridge, queue))
	return b.String()
}

// seen is what a request at a queue has done, without what differs between queues.
func (a *again) seen(queue, answers string) string {
	a.Helper()
	all := strings.ReplaceAll(answers+a.holds(queue), queue, "QUEUE")
	return differing.ReplaceAllString(all, "…")
}

// outcome is what comes of a request.
type outcome struct{ turn, saw string }

// of prepares a request, starts it, and returns what comes of it.
func (a *again) of(prepare func(a *again, queue string) asking, start func(asking) (end func() string)) outcome {
	a.Helper()
	a.queues++
	queue := fmt.Sprintf("again-%04d", a.queues)
	r := prepare(a, queue)
	answers := start(r)()
	a.way.next.Store(nil) // or a later transaction would run again
	return outcome{r.turn(), a.seen(queue, answers)}
}

// each has each request run alone, and then otherwise: in some ways, of which the gate takes one for each request in turn.
func (a *again) each(t *testing.T, alone func(asking) func() string, ways func(turn string) map[string]func(asking) func() string) {
	t.Helper()
	for i, name := range slices.Sorted(maps.Keys(runAgain)) {
		a.within(t, name, func() {
			want := a.of(runAgain[name], alone)
			all := ways(want.turn)
			names := slices.Sorted(maps.Keys(all))
			for n := range nightly.Fewer(len(names)) {
				way := names[(i+n)%len(names)]
				if got := a.of(runAgain[name], all[way]); got.saw != want.saw {
					a.Errorf("expected what comes of it alone:\n%s\n%s:\n%s", want.saw, way, got.saw)
				}
			}
		})
	}
}

// sharing has a request share a transaction with one that stands behind it, and fails.
func (a *again) sharing(r asking, fails func(queue string) asking) (end func() string) {
	a.Helper()
	a.queues++
	broken := fails(fmt.Sprintf("broken-%d", a.queues))
	first := asking{subject: "pq." + a.tenant + "held.pop.min"}
	switch r.turn() {
	case "change":
		first.subject = "pq.held.admin.resume"
	case "import":
		first = asking{subject: "pq.held.import", body: "x", header: h("PQ-Unique", "u")}
	}
	a.way.breaks.Store(true)
	open, held := a.db.close(), a.db.held.Load()
	ends := []func() string{a.start(first)}
	testenv.Await(a, "a transaction is under way", func() bool { return a.db.held.Load() > held })
	ends = append(ends, a.start(r))
	a.awaitLine(1)
	ends = append(ends, a.start(broken))
	a.awaitLine(2)
	behind := a.way.behind.Load()
	open()
	return func() string {
		a.Helper()
		ends[0]()
		answers := ends[1]()
		if m := ends[2](); !strings.Contains(m, "500") {
			a.Errorf("the request behind it is answered by %s", m)
		}
		if a.way.behind.Load() == behind && !r.fails {
			a.Error("no transaction failed behind it")
		}
		a.way.breaks.Store(false)
		return answers
	}
}

// A later part of a transaction that many queues share fails, whichever it is. What comes of a request before it is what would have
// come without it. The part of a push goes before those of pops.
func TestPartsRunAgainBecauseOfALaterOne(t *testing.T) {
	t.Parallel()
	a := runningAgain(t, bridge.Options{Exclusive: true})
	at := func(verb, body string, header ...string) func(queue string) asking {
		return func(queue string) asking {
			return asking{subject: "pq." + queue + "." + verb, body: body, header: h(header...)}
		}
	}
	pop := at("pop.min", "", "PQ-Lease", "1h")
	ack := func(queue string) asking { return asking{subject: a.leasedAt(queue), body: "+ACK"} }
	remove := func(queue string) asking {
		return at("remove."+a.push("pq."+queue+".push", "x").ID, "")(queue)
	}
	later := map[string]map[string]func(queue string) asking{
		"push":   {"before a push": at("push", "x"), "before a pop": pop, "before an ack": ack},
		"pop":    {"before a pop": pop, "before an ack": ack},
		"change": {"before a configuration": at("admin.config", `{"max_length":5}`), "before a removal": remove},
		"import": {"before an import": at("import", "x", "PQ-Unique", "u")},
	}
	a.each(t, a.start, func(turn string) map[string]func(asking) func() string {
		ways := make(map[string]func(asking) func() string)
		for way, fails := range later[turn] {
			ways[way] = func(r asking) func() string { return a.sharing(r, fails) }
		}
		return ways
	})
}

// A transaction loses a conflict, or its result is unknown: what comes of it is what its last run has done.
func TestTransactionsRunAgain(t *testing.T) {
	t.Parallel()
	a := runningAgain(t, bridge.Options{Exclusive: true})
	ways := make(map[string]func(asking) func() string)
	for way, again := range map[string]rerun{
		"after a conflict": {}, "after an unknown result": {result: kv.ErrUnknown}, "done, with an unknown result": {result: kv.ErrUnknown, done: true},
	} {
		ways[way] = func(r asking) func() string {
			a.way.next.Store(&again)
			return a.start(r)
		}
	}
	a.each(t, a.start, func(string) map[string]func(asking) func() string { return ways })
}

// The queue of a request is deleted before the second run of its transaction. Nothing of the first run is left.
func TestTransactionsRunAgainElsewhere(t *testing.T) {
	t.Parallel()
	a := runningAgain(t, bridge.Options{Exclusive: true})
	before := func(r asking) func() string {
		a.deleted(r)
		return a.start(r)
	}
	between := func(r asking) func() string {
		a.way.next.Store(&rerun{before: func() { a.deleted(r) }})
		return a.start(r)
	}
	a.each(t, before, func(string) map[string]func(asking) func() string {
		return map[string]func(asking) func() string{"deleted between": between}
	})
}

// The client of a plain pop goes before the transaction runs again. The first run has heard that it listened.
func TestClientGoesBeforeItsPopRunsAgain(t *testing.T) {
	t.Parallel()
	a := runningAgain(t, bridge.Options{Exclusive: true})
	a.filled("again-1")
	sub, err := a.SubscribeSync(a.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	a.way.next.Store(&rerun{before: func() { a.leave([]*nats.Subscription{sub}) }})
	if err := a.PublishRequest("pq.again-1.pop.min", sub.Subject, nil); err != nil {
		t.Fatal(err)
	}
	testenv.Await(t, "the pop has ended", func() bool { return a.endedPops() == 1 })
	if i := a.info("again-1"); i.Ready != 3 || a.gonePops() != 1 {
		t.Errorf("%d of 3 items are left, and %g pops were dropped", i.Ready, a.gonePops())
	}
}

// A tenant's quota is not taken twice by a transaction that runs again: because of a conflict, or because the part of another tenant
// fails.
func TestQuotasOfTransactionsThatRunAgain(t *testing.T) {
	t.Parallel()
	began, looks := time.Now(), atomic.Int64{}
	now := func() time.Time { return began.Add(time.Duration(looks.Add(1))) } // so slow that nothing is counted a second time
	o := bridge.Options{Exclusive: true, Tenants: func(string) bridge.Quotas { return bridge.Quotas{Items: 10, Bytes: 10_000} }}
	a := runningAgain(t, bridge.Timed(now, o))
	a.tenant = "other."
	a.ask("pq.one.again-1.admin.schedule.s", `{"spec":"0 12 1 1 *","item":{"payload":"`+strings.Repeat("x", 4000)+`"}}`)
	a.way.next.Store(&rerun{})
	a.acknowledged(a.ask("pq.one.again-1.admin.schedule.s.run", ""))
	bundle := asking{subject: "pq.two.again-1.push", body: strings.Repeat(frame("x"), 8), header: h("PQ-Bundle", "8")}
	answer := a.sharing(bundle, func(queue string) asking { return asking{subject: "pq.three." + queue + ".push", body: "x"} })()
	if strings.Contains(answer, "error") {
		t.Errorf("a bundle of a tenant that has room is answered by %s", answer)
	}
}

// within runs a test within a test.
func (a *again) within(t *testing.T, name string, test func()) {
	t.Run(name, func(t *testing.T) {
		outer := a.client
		defer func() { a.client = outer }()
		a.client = outer.in(t)
		test()
	})
}

// deleted deletes the queue of a request, past the bridge.
func (a *again) deleted(r asking) {
	session := a.past.Session()
	defer session.Release()
	err := session.Update(context.Background(), func(tx kv.Tx) error {
		_, err := a.past.Queue(strings.TrimSuffix(r.queue(), "-next")).Delete(tx)
		return err
	})
	if err != nil {
		a.Error(err)
	}
}

// leasedAt leases an item, and returns where to settle it.
func (a *again) leasedAt(queue string, header ...string) string {
	a.Helper()
	a.push("pq."+queue+".push.5", "leased", header...)
	return a.pop("pq."+queue+".pop.min", "", "PQ-Lease", "1h").Reply
}

// filled pushes three items.
func (a *again) filled(queue string) {
	a.Helper()
	for i := range 3 {
		a.push(fmt.Sprintf("pq.%s.push.%d", queue, i), fmt.Sprint(i), "PQ-Key", fmt.Sprint("k", i%2))
	}
}

// tooLargeAt pushes an item that no answer can carry.
func (a *again) tooLargeAt(queue, priority string) {
	a.Helper()
	item := fdbpq.NewItem{HasPriority: true, Payload: make([]byte, 2<<20)}
	if priority == "last" {
		item.Priority = 9
	}
	a.pushPastTo(queue, item)
}

// on is a request at a queue that has three items.
func on(verb, body string, header ...string) func(a *again, queue string) asking {
	return func(a *again, queue string) asking {
		a.filled(queue)
		return asking{subject: "pq." + queue + "." + verb, body: body, header: h(header...)}
	}
}

// settling is a settlement of a lease.
func settling(body string, pushed ...string) func(a *again, queue string) asking {
	return func(a *again, queue string) asking {
		at := a.leasedAt(queue, pushed...)
		a.filled(queue)
		return asking{subject: at, body: body}
	}
}

// editing is an edit of an item.
func editing(verb, behind, body string) func(a *again, queue string) asking {
	return func(a *again, queue string) asking {
		a.filled(queue)
		return asking{subject: "pq." + queue + "." + verb + "." + a.push("pq."+queue+".push.1", "x").ID + behind, body: body}
	}
}

const farSchedule = `{"spec":"0 12 1 1 *","zone":"Europe/Berlin","item":{"payload":"work"}}`

// scheduled is a request about a schedule.
func scheduled(verb, body string) func(a *again, queue string) asking {
	return func(a *again, queue string) asking {
		a.ask("pq."+queue+".admin.schedule.s", farSchedule)
		return asking{subject: "pq." + queue + ".admin.schedule.s" + verb, body: body}
	}
}

// linked is a request about a link.
func linked(verb, body string) func(a *again, queue string) asking {
	return func(a *again, queue string) asking {
		a.filled(queue)
		a.ask("pq."+queue+".admin.link.l", `{"to":"taker"}`)
		return asking{subject: "pq." + queue + "." + verb, body: body}
	}
}

// runAgain are requests of each kind of part that changes something, at a queue that is prepared for them.
var runAgain = map[string]func(a *again, queue string) asking{
	"push":             on("push.7", "x", "PQ-Key", "k", "PQ-Unique", "u", "Nats-Msg-Id", "1", "PQ-TTL", "1h"),
	"push of a bundle": on("push", frame("a")+frame("b"), "PQ-Bundle", "2"),
	"push of each":     on("push", frame("a")+frame("b", "PQ-Priority", "high"), "PQ-Bundle", "2", "PQ-Each", "true"),
	"push, repeated": func(a *again, queue string) asking {
		a.push("pq."+queue+".push", "x", "Nats-Msg-Id", "1")
		return asking{subject: "pq." + queue + ".push", body: "x", header: h("Nats-Msg-Id", "1")}
	},
	"push of a bundle to a full queue": func(a *again, queue string) asking {
		a.ask("pq."+queue+".admin.config", `{"max_length":1}`)
		return asking{subject: "pq." + queue + ".push", body: frame("a") + frame("b"), header: h("PQ-Bundle", "2"), fails: true}
	},
	"push that hands over": func(a *again, queue string) asking {
		a.ask("pq."+queue+".admin.config", `{"hand_over":"*"}`)
		return asking{subject: "pq." + queue + "-next.push", body: "x", header: h("PQ-Settle", a.leasedAt(queue))}
	},

	"pop":                 on("pop.min", ""),
	"pop of the last":     on("pop.max", "", "PQ-Lease", "1h"),
	"pop with an id":      on("pop.min", "", "Nats-Msg-Id", "1"),
	"pop in two steps":    on("pop.min", "", "PQ-Confirm", "1h"),
	"pop of a bundle":     on("pop.min", "", "PQ-Bundle", "2", "PQ-Lease", "1h", "PQ-Holder", "worker"),
	"pop of a band":       on("pop.min", "", "PQ-Band", "2..", "PQ-Wait", "10ms"),
	"pop of nothing":      on("pop.min", "", "PQ-Band", "5.."),
	"peek that may wait":  on("peek.min", "", "PQ-Wait", "10ms"),
	"pop of a link":       linked("link.l", `{"taker":"taker","done":0,"max":2}`),
	"pop of another link": on("link.l", `{"taker":"taker","done":0,"max":2}`),
	"pop of a batch": func(a *again, queue string) asking {
		a.filled(queue)
		return asking{subject: "pq." + queue + ".pop.min", body: "2", many: true}
	},
	"pop for nobody": func(a *again, queue string) asking {
		a.filled(queue)
		return asking{subject: "pq." + queue + ".pop.min", nobody: true}
	},
	"pop of a bundle for nobody": func(a *again, queue string) asking {
		a.filled(queue)
		return asking{subject: "pq." + queue + ".pop.min", header: h("PQ-Bundle", "3"), nobody: true}
	},
	"pop, repeated": func(a *again, queue string) asking {
		a.filled(queue)
		a.pop("pq."+queue+".pop.min", "", "Nats-Msg-Id", "1", "PQ-Lease", "1h")
		return asking{subject: "pq." + queue + ".pop.min", header: h("Nats-Msg-Id", "1", "PQ-Lease", "1h")}
	},
	"pop, repeated too late": func(a *again, queue string) asking {
		a.filled(queue)
		a.accepted(a.raw(a.pop("pq."+queue+".pop.min", "", "Nats-Msg-Id", "1", "PQ-Lease", "1h").Reply, "+ACK"))
		return asking{subject: "pq." + queue + ".pop.min", header: h("Nats-Msg-Id", "1", "PQ-Lease", "1h"), fails: true}
	},
	"pop of what no answer carries": func(a *again, queue string) asking {
		a.tooLargeAt(queue, "first")
		return asking{subject: "pq." + queue + ".pop.min", fails: true}
	},
	"pop of a bundle before what no answer carries": func(a *again, queue string) asking {
		a.filled(queue)
		a.tooLargeAt(queue, "last")
		return asking{subject: "pq." + queue + ".pop.min", header: h("PQ-Bundle", "9", "PQ-Lease", "1h"), fails: true}
	},

	"ack":               settling("+ACK"),
	"ack with a result": settling("+ACK result", "PQ-Result-TTL", "1h"),
	"ack and next":      settling("+NXT"),
	"ack of no lease": func(a *again, queue string) asking {
		at := a.leasedAt(queue)
		a.accepted(a.raw(at, "+ACK"))
		return asking{subject: at, body: "+ACK"}
	},
	"nak":     settling(`-NAK {"delay":3600000000000}`),
	"back":    settling("+BACK"),
	"term":    settling("+TERM no use"),
	"in work": settling("+WPI"),
	"cancel":  editing("cancel", "", `{"reason":"r"}`),
	"no cancel": func(a *again, queue string) asking {
		a.leasedAt(queue)
		id := object[struct{ Items []struct{ ID string } }](a.client, "pq."+queue+".list", `{"state":"leased"}`).Items[0].ID
		return asking{subject: "pq." + queue + ".cancel." + id, body: `{"leased":false}`, fails: true}
	},
	"remove":    editing("remove", "", ""),
	"move":      editing("move", ".9", ""),
	"no revoke": editing("revoke", "", ""),
	"revoke": func(a *again, queue string) asking {
		a.leasedAt(queue)
		id := object[struct{ Items []struct{ ID string } }](a.client, "pq."+queue+".list", `{"state":"leased"}`).Items[0].ID
		return asking{subject: "pq." + queue + ".revoke." + id}
	},
	"requeue": func(a *again, queue string) asking {
		a.accepted(a.raw(a.leasedAt(queue), "+TERM no use"))
		return asking{subject: "pq." + queue + "-dead.requeue." + a.pop("pq."+queue+"-dead.peek.max", "").Header.Get("PQ-Id")}
	},
	"config":          on("admin.config", `{"max_length":9}`),
	"purge":           on("admin.purge", ""),
	"pause":           on("admin.pause", ""),
	"delete":          on("admin.delete", ""),
	"key":             on("admin.key.k0", `{"limit":3}`),
	"schedule":        on("admin.schedule.s", farSchedule),
	"schedule pause":  scheduled(".pause", ""),
	"schedule resume": scheduled(".resume", ""),
	"schedule delete": scheduled(".delete", ""),
	"schedule run":    scheduled(".run", ""),
	"link":            on("admin.link.l", `{"to":"taker"}`),
	"link pause":      linked("admin.link.l.pause", ""),
	"link delete":     linked("admin.link.l.delete", ""),
	"import":          on("import", "x", "PQ-Unique", "u"),
	"import of an item": func(a *again, queue string) asking {
		a.filled(queue)
		id := a.push("pq."+queue+".push", "x").ID
		item := a.ask("pq."+queue+".get."+id, "")
		a.ask("pq."+queue+".remove."+id, "")
		return asking{subject: "pq." + queue + ".import", body: "x", header: item.Header}
	},
}
