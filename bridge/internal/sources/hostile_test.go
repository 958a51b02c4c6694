package sources_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/sources"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/source"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// times is a time that passes where a test says so. Pauses are noted, and take none.
type times struct {
	mu     sync.Mutex
	at     time.Time
	pauses []time.Duration
}

func (t *times) now() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at
}

func (t *times) pass(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.at = t.at.Add(d)
}

func (t *times) after(d time.Duration) <-chan time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pauses = append(t.pauses, d)
	over := make(chan time.Time, 1)
	over <- t.at
	return over
}

// paused fails unless there were these pauses.
func (t *times) paused(tb testing.TB, want ...time.Duration) {
	tb.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.Equal(t.pauses, want) {
		tb.Errorf("pauses %v, expected %v", t.pauses, want)
	}
}

// giver answers the requests of a link as a test likes, and is asked no more when it has no answer left.
type giver struct {
	*testing.T
	times
	store  *fdbpq.Store
	of     *source.Sources
	ask    protocol.LinkTake // the last one
	events chan protocol.SourceEvent
}

// asked runs a source whose giver has these answers. It returns when the next request has come, or the source has stopped.
func asked(t *testing.T, answers ...func(*giver) *nats.Msg) *giver {
	t.Helper()
	server := testenv.NATS(t)
	g := &giver{T: t, store: testenv.Store(t), events: make(chan protocol.SourceEvent, 16)}
	g.of = source.New(g.store)
	nc, done := server.Connect(t), make(chan struct{})
	if _, err := nc.Subscribe("edge7.orders.link.hub", func(m *nats.Msg) {
		if len(answers) == 0 {
			close(done)
			return
		}
		if err := json.Unmarshal(m.Data, &g.ask); err != nil {
			t.Error(err)
		}
		answer := answers[0](g)
		answers = answers[1:]
		if err := m.RespondMsg(answer); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := nc.FlushTimeout(testenv.Patience()); err != nil {
		t.Fatal(err)
	}
	session := g.store.Session()
	defer session.Release()
	if err := session.Update(t.Context(), func(tx kv.Tx) error {
		_, err := g.of.Set(tx, g.store.Queue("jobs"), "edge", []byte(`{"remote":"edge","queue":"edge7.orders","link":"hub"}`), func(source.Config) error { return nil })
		return err
	}); err != nil {
		t.Fatal(err)
	}
	wire, err := codec.New("pq", g.store.Secret(), nc.MaxPayload)
	if err != nil {
		t.Fatal(err)
	}
	runners := sources.Clocked(sources.New(sources.Options{
		Store: g.store, Sources: g.of, Wire: wire, Bridge: "a", Alone: true, Log: slog.New(slog.DiscardHandler),
		Remotes: func() map[string]sources.Remote {
			return map[string]sources.Remote{"edge": {
				Connect: func(o ...nats.Option) (*nats.Conn, error) { return nats.Connect(server.URL(), o...) },
				Take:    map[string][]string{"edge7.orders": {"jobs"}},
			}}
		},
		Room:   func(string, int, int) (func(), error) { return func() {}, nil },
		Fed:    func(string, int, *source.Fed) {},
		Event:  func(e protocol.SourceEvent) { g.events <- e },
		Failed: func(err error) { t.Error(err) },
	}), g.now, g.after)
	runners.Start()
	defer runners.Stop()
	select {
	case <-done:
	case <-g.events:
	case <-testenv.Late():
		t.Fatalf("the giver is not asked %d times more", len(answers))
	}
	return g
}

// nothing is a giver's answer that it has nothing, which takes so long.
func nothing(code string, takes time.Duration) func(*giver) *nats.Msg {
	return func(g *giver) *nats.Msg {
		g.pass(takes)
		return &nats.Msg{Header: nats.Header{"Status": {code}}}
	}
}

// A giver of a link that does not wait for items before it answers that there are none is asked after pauses that grow. They
// end when it waits, or gives items.
func TestGiverThatDoesNotWait(t *testing.T) {
	t.Parallel()
	soon := nothing("404", 0)
	batch := func(g *giver) *nats.Msg {
		return &nats.Msg{
			Header: nats.Header{"PQ-Link-Giver": {"g"}, "PQ-Link-Batch": {"1 b " + g.ask.Batch}, "PQ-Bundle": {"1"}},
			Data:   protocol.AppendFrame(nil, []byte("PQ-Id: 1-a\r\nPQ-Priority: 0\r\n"), []byte("a book")),
		}
	}
	g := asked(t,
		soon, soon, nothing("408", 900*time.Millisecond), soon, soon, soon, soon, soon,
		nothing("408", 5*time.Second), nothing("408", time.Second), soon, soon, soon,
		batch, soon, soon)
	ms := time.Millisecond
	g.paused(t, 250*ms, 500*ms, time.Second, 2*time.Second, 4*time.Second, 5*time.Second, 5*time.Second, 250*ms, 500*ms, 250*ms)
}

// A giver whose batches have no items is asked after the same pauses. A purge may empty one.
func TestGiverOfEmptyBatches(t *testing.T) {
	t.Parallel()
	number := 0
	batch := func(takes time.Duration, items ...string) func(*giver) *nats.Msg {
		return func(g *giver) *nats.Msg {
			g.pass(takes)
			number++
			m := &nats.Msg{Header: nats.Header{
				"PQ-Link-Giver": {"g"}, "PQ-Link-Batch": {fmt.Sprintf("%d b%d %s", number, number, g.ask.Batch)}, "PQ-Bundle": {fmt.Sprint(len(items))},
			}}
			for _, item := range items {
				m.Data = protocol.AppendFrame(m.Data, []byte("PQ-Id: 1-"+item+"\r\nPQ-Priority: 0\r\n"), []byte(item))
			}
			return m
		}
	}
	empty := batch(0)
	g := asked(t,
		empty, batch(0, "a"), empty, empty, nothing("404", 0), empty,
		batch(5*time.Second), empty, empty, batch(0, "b"), empty)
	ms := time.Millisecond
	g.paused(t, 250*ms, 500*ms, time.Second, 250*ms)
}

// A server that ends requests for messages at once is asked after the same pauses.
func TestStreamThatDoesNotWait(t *testing.T) {
	t.Parallel()
	for _, answer := range []nats.Header{
		{"Status": {"404"}, "Nats-Pending-Messages": {"10"}},
		{"Status": {"408"}, "Nats-Pending-Messages": {"10"}},
		{"Status": {"409"}, "Description": {"Batch Completed"}, "Nats-Pending-Messages": {"10"}},
		{"Status": {"409"}, "Description": {"Message Size Exceeds MaxBytes"}, "Nats-Pending-Messages": {"10"}},
	} {
		t.Run(fmt.Sprint(answer), func(t *testing.T) {
			t.Parallel()
			server := testenv.NATS(t)
			nc := server.Connect(t)
			left := 9
			if _, err := nc.Subscribe("$JS.API.CONSUMER.MSG.NEXT.ORDERS.c", func(m *nats.Msg) {
				if left--; left == 0 {
					answer = nats.Header{"Status": {"500"}}
				}
				if left < 0 { // of two requests under way
					return
				}
				if err := m.RespondMsg(&nats.Msg{Header: answer}); err != nil {
					t.Error(err)
				}
			}); err != nil {
				t.Fatal(err)
			}
			if err := nc.FlushTimeout(testenv.Patience()); err != nil {
				t.Fatal(err)
			}
			var clock times
			if err := sources.Pull(t.Context(), server.Connect(t), clock.now, clock.after); err == nil || !strings.Contains(err.Error(), "500") {
				t.Error(err)
			}
			if n := len(clock.pauses); n < 5 || clock.pauses[0] != 250*time.Millisecond || clock.pauses[n-1] != 5*time.Second {
				t.Errorf("pauses %v, expected 250ms to 5s", clock.pauses)
			}
		})
	}
}

// Texts of a remote are kept short, and without control characters.
func TestTextsOfAGiver(t *testing.T) {
	t.Parallel()
	g := asked(t, func(*giver) *nats.Msg {
		return &nats.Msg{Header: nats.Header{"Nats-Service-Error-Code": {"409"}, "PQ-Reason": {"giver_behind"}, "Nats-Service-Error": {"lost\x1b[2J" + strings.Repeat("é", 30_000)}}}
	})
	var stop source.Stop
	if err := g.store.View(t.Context(), func(r kv.Reader) error {
		s, err := g.of.Get(r, g.store.Queue("jobs"), "edge")
		stop = s.Position.Stop
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if want := "lost [2J" + strings.Repeat("é", 146); stop.Reason != source.StopGiverBehind || stop.Text != want {
		t.Errorf("stopped with %s and %q, expected %q", stop.Reason, stop.Text, want)
	}
}
