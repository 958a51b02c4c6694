package bridge_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/internal/testkit/expense"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
	"github.com/pqbridge/pqbridge/testenv"
)

// Whatever a client puts into one message costs what its bytes cost, ends no connection, and holds up nobody:
// the largest, the deepest, the longest and the most repeated of all that a parser takes.

// longest sends the messages of a test.
type longest struct {
	*client
	neighbour *client
	to        answers
	inbox     string
	sent      int
	leases    []string
	bodies    map[int]map[string]string // the worst, by their size
}

func newLongest(t *testing.T) *longest {
	c := serve(t)
	l := &longest{client: c, neighbour: c.another(), inbox: c.NewInbox(), bodies: make(map[int]map[string]string)}
	l.to = c.hearUpTo(1<<12, l.inbox+".*")
	return l
}

// begin sends a message.
func (l *longest) begin(m *nats.Msg) {
	l.Helper()
	l.sent++
	m.Reply = l.inbox + "." + strconv.Itoa(l.sent)
	if err := l.PublishMsg(m); err != nil {
		l.Fatalf("%s: %v", m.Subject, err)
	}
}

// end returns how many bytes a message counts for together with its answer.
func (l *longest) end(m *nats.Msg) int {
	l.Helper()
	for {
		if answer := l.next(l.to); answer.Subject == m.Reply { // others are of a batch
			bundled, err := strconv.Atoi(m.Header.Get(protocol.HeaderBundle))
			if err != nil || bundled > protocol.MaxBundle {
				bundled = 0
			}
			return m.Size() + answer.Size() + bundled*expense.Bundled
		}
	}
}

// filled has leases where the body of a message says that there are some. Each message gets items of its own: those of
// an earlier attempt know of that attempt, and cost more.
func (l *longest) filled(body string) []byte {
	l.Helper()
	if strings.Contains(body, aLease) {
		l.ask("pq.jobs.admin.purge", "")
		l.leases = nil
	}
	var filled []byte
	for {
		before, behind, found := strings.Cut(body, aLease)
		filled = append(filled, before...)
		if !found {
			return filled
		}
		filled, body = append(filled, l.lease()...), behind
	}
}

// lives checks that the connection of the client is as it was, and that another one is served.
func (l *longest) lives(after string) {
	l.Helper()
	if err := l.LastError(); err != nil || !l.IsConnected() || l.Stats().Reconnects > 0 {
		l.Fatalf("after %s: the connection of the client: %v", after, err)
	}
	l.neighbour.push("pq.neighbour.push", "x")
	l.neighbour.pop("pq.neighbour.pop.min", "")
}

// lease returns the ack subject of an item that is leased.
func (l *longest) lease() string {
	l.Helper()
	if len(l.leases) == 0 {
		l.leases = l.client.leases(500)
	}
	ack := l.leases[0]
	l.leases = l.leases[1:]
	return ack
}

// requests are subjects of all verbs.
func (l *longest) requests() map[subjects.Verb]string {
	l.Helper()
	grammar, err := subjects.New("pq")
	if err != nil {
		l.Fatal(err)
	}
	all := testenv.Requests(l, grammar, "jobs")
	for v := subjects.Push; v < subjects.Verbs; v++ {
		if all[v] == "" {
			all[v] = "pq." + v.String()
		}
	}
	all[subjects.Event] = "pq.jobs.event.dead"
	return all
}

// each prepares and sends all messages of all verbs.
func (l *longest) each(send func(v subjects.Verb, m *message, msg func() *nats.Msg)) {
	l.Helper()
	all := l.requests()
	for _, v := range slices.Sorted(maps.Keys(all)) {
		if _, known := own[v]; !known {
			l.Errorf("%s has no entry: expected the largest messages that it takes", v)
		}
		for _, m := range l.messages(v, all[v]) {
			send(v, &m, func() *nats.Msg {
				subject := m.subject
				if v == subjects.Ack && (subject == "" || subject == all[v]) {
					subject = l.lease()
				}
				return &nats.Msg{Subject: subject, Data: l.filled(m.body), Header: m.header}
			})
		}
		l.lives(v.String())
		l.ask("pq.jobs.admin.purge", "")
	}
}

func TestLongest(t *testing.T) {
	l := newLongest(t)
	type worst struct {
		part             float64 // of the bound of the bytes
		processor        time.Duration
		bytes, processed string
	}
	rows := make(map[subjects.Verb]*worst)
	l.each(func(v subjects.Verb, m *message, msg func() *nats.Msg) {
		var ready *nats.Msg
		size := 0
		spent, beyond := expense.Least(func() { ready = msg() }, func() int {
			l.begin(ready)
			size = l.end(ready)
			return size
		})
		if beyond != "" {
			t.Errorf("%s, %s: %s", v, m.what, beyond)
		}
		row := rows[v]
		if row == nil {
			row = new(worst)
			rows[v] = row
		}
		if part := spent.Part(size); part > row.part {
			row.part, row.bytes = part, fmt.Sprintf("%s: %d bytes for %d", m.what, spent.Bytes, size)
		}
		if spent.Processor > row.processor {
			row.processor, row.processed = spent.Processor, m.what
		}
	})
	for _, v := range slices.Sorted(maps.Keys(rows)) {
		row := rows[v]
		t.Logf("%-22s %3.0f%% of the bytes, %s; %5.1f ms, %s", v, 100*row.part, row.bytes, row.processor.Seconds()*1000, row.processed)
	}
}

// A body that is nested deep, with long names, costs another client's read nothing. Before, one of these took
// two gigabytes and seconds of a processor.
func TestNestedBodies(t *testing.T) {
	l := newLongest(t)
	l.neighbour.push("pq.neighbour.push", "x")
	body := []byte(worstBodies(450_000)["long path"])
	for _, subject := range []string{"pq.jobs.list", "pq.jobs.schedule.s", "pq.jobs.admin.config"} {
		_, beyond := expense.Least(func() {}, func() (bytes int) {
			var sent []*nats.Msg
			for range 5 {
				m := &nats.Msg{Subject: subject, Data: body}
				l.begin(m)
				sent = append(sent, m)
			}
			if n := l.neighbour.info("neighbour").Ready; n != 1 {
				t.Errorf("the neighbour has %d items", n)
			}
			for _, m := range sent {
				bytes += l.end(m)
			}
			return bytes
		})
		if beyond != "" {
			t.Errorf("%s: %s", subject, beyond)
		}
	}
}

// What a role may send is among the messages.
func TestLongestOfRoles(t *testing.T) {
	t.Parallel()
	grammar, err := subjects.New("pq")
	if err != nil {
		t.Fatal(err)
	}
	all := (&longest{client: &client{TB: t}}).requests()
	all[subjects.Verbs] = "pq.jobs.push.5" // beside the push whose priority is no part of its subject
	for role, of := range map[string]func(string) (subjects.Permissions, error){
		"producer": grammar.Producer, "importer": grammar.Importer, "consumer": grammar.Consumer, "taker": grammar.Taker,
		"requeuer": grammar.Requeuer, "viewer": grammar.Viewer, "admin": grammar.Admin, "caller": grammar.Caller,
	} {
		may, err := of("jobs")
		if err != nil {
			t.Fatal(err)
		}
		for _, pattern := range may.Publish {
			sent := slices.ContainsFunc(slices.Collect(maps.Values(all)), func(subject string) bool {
				return subjects.Covers(strings.Replace(pattern, "jobs-dead", "jobs", 1), subject)
			})
			if !sent {
				t.Errorf("%s may publish %s, which no message is sent to", role, pattern)
			}
		}
	}
}

// Beside each message another client's push waits no longer than it takes to read it.
func TestLongestBesideNeighbour(t *testing.T) {
	nightly.Only(t, "TestLongest bounds what each message costs")
	l := newLongest(t)
	worst, what := make(map[subjects.Verb]time.Duration), make(map[subjects.Verb]string)
	l.each(func(v subjects.Verb, m *message, msg func() *nats.Msg) {
		ready := msg()
		began := time.Now()
		l.begin(ready)
		l.neighbour.push("pq.neighbour.push", "x")
		wait := time.Since(began)
		l.end(ready)
		l.neighbour.pop("pq.neighbour.pop.min", "")
		if wait > worst[v] {
			worst[v], what[v] = wait, m.what
		}
		if most := testenv.Times(2 * time.Second); wait > most {
			t.Errorf("beside %s, %s: a push waited for %s, expected up to %s", v, m.what, wait, most)
		}
	})
	for _, v := range slices.Sorted(maps.Keys(worst)) {
		t.Logf("%-22s %8s  %s", v, worst[v].Round(time.Millisecond/10), what[v])
	}
}
