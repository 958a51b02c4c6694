package receiver_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/receiver"
	"github.com/pqbridge/pqbridge/testenv"
)

// station is a receiver on a server of its own, and a client of it.
type station struct {
	*receiver.Receiver
	t          *testing.T
	server     *testenv.Server
	nc         *nats.Conn // of the receiver
	client     *nats.Conn
	held       chan chan struct{} // when not nil: requests and settlements wait here
	refusal    chan chan struct{} // when not nil: refused pushes wait here
	signal     chan chan struct{} // when not nil: signals wait here
	connect    []nats.Option      // of the receiver's connection
	serverFull chan struct{}      // gets a value when the server holds too much
	log        slog.Handler
	remote     bool // it has a second front, far.q
	begin      int  // this front begins on standby; 0: none

	mu      sync.Mutex
	handled []string // bodies
	refused []string
	signals []string // subjects
}

func start(t *testing.T, change ...func(*station)) *station {
	t.Helper()
	s := &station{t: t, server: testenv.NATS(t), log: slog.DiscardHandler}
	for _, c := range change {
		c(s)
	}
	s.nc, s.client = s.server.Connect(t, s.connect...), s.server.Connect(t)
	fronts := []receiver.Subjects{{
		Requests: "q.>", Settlements: "q.*.ack.>", Signals: "q.*.ack.here.>", Pushes: []string{"q.*.push", "q.*.push.*"},
	}}
	if s.remote {
		fronts = append(fronts, receiver.Subjects{
			Requests: "far.q.>", Settlements: "far.q.*.ack.>", Signals: "far.q.*.ack.here.>", Pushes: []string{"far.q.*.push", "far.q.*.push.*"},
		})
	}
	s.Receiver = receiver.New(s.nc, receiver.Options{
		Fronts: fronts,
		Group:  "q",
		Handlers: receiver.Handlers{
			Request: func(m *nats.Msg) { s.handle(m, s.held, &s.handled) },
			Refuse:  func(m *nats.Msg) { s.handle(m, s.refusal, &s.refused) },
			Signal:  func(m *nats.Msg) { s.note(m.Subject, s.signal, &s.signals) },
		},
		Backlog: s.serverFull,
		Logger:  slog.New(s.log),
	})
	if s.begin > 0 {
		if err := s.Pause(t.Context(), s.begin); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func (s *station) handle(m *nats.Msg, hold chan chan struct{}, to *[]string) {
	body, _, _ := strings.Cut(string(m.Data), " ")
	s.note(body, hold, to)
	if m.Reply != "" {
		if err := s.nc.Publish(m.Reply, m.Data); err != nil {
			s.t.Error(err)
		}
	}
}

// note holds a message, if it is to be held, and adds a text to a list.
func (s *station) note(text string, hold chan chan struct{}, to *[]string) {
	if hold != nil {
		released := make(chan struct{})
		hold <- released
		<-released
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	*to = append(*to, text)
}

func (s *station) seen(of *[]string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(*of)
}

func (s *station) publish(subject, body string) {
	s.t.Helper()
	if err := s.client.Publish(subject, []byte(body)); err != nil {
		s.t.Fatal(err)
	}
}

// delivered returns when the receiver's connection has received what was published.
func (s *station) delivered() {
	s.t.Helper()
	for _, nc := range []*nats.Conn{s.client, s.nc} {
		if err := nc.FlushTimeout(testenv.Patience()); err != nil {
			s.t.Fatal(err)
		}
	}
}

// answered reports whether the receiver answers on a subject. Otherwise the server does.
func (s *station) answered(subject string) bool {
	s.t.Helper()
	_, err := s.client.Request(subject, []byte("asked"), testenv.Patience())
	if err != nil && !errors.Is(err, nats.ErrNoResponders) {
		s.t.Fatal(err)
	}
	return err == nil
}

// subscribed reports whether the server has a subscription to exactly this subject. The
// server's own count of an account's interest may end at the first match.
func (s *station) subscribed(subject string) bool {
	s.t.Helper()
	connections, err := s.server.Server().Connz(&server.ConnzOptions{Subscriptions: true})
	if err != nil {
		s.t.Fatal(err)
	}
	return slices.ContainsFunc(connections.Conns, func(c *server.ConnInfo) bool { return slices.Contains(c.Subs, subject) })
}

// until returns when a condition holds.
func (s *station) until(what string, holds func() bool) {
	s.t.Helper()
	late, ticker := testenv.Late(), time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ticker.C:
		case <-late:
			s.t.Fatalf("not in time: %s", what)
		}
	}
}

// next returns a function that releases the next blocked message.
func (s *station) next(from chan chan struct{}) (release func()) {
	s.t.Helper()
	select {
	case released := <-from:
		return func() { close(released) }
	case <-testenv.Late():
		s.t.Fatal("no message was handled")
		return nil
	}
}

// releaseAll releases all messages until the test ends.
func (s *station) releaseAll(from chan chan struct{}) {
	done := make(chan struct{})
	s.t.Cleanup(func() { close(done) })
	go func() {
		for {
			select {
			case released := <-from:
				close(released)
			case <-done:
				return
			}
		}
	}()
}

// Requests and settlements are handled once each, in one order. Signals have a handler of
// their own.
func TestReceivesInOrder(t *testing.T) {
	t.Parallel()
	s := start(t)
	var want []string
	for i := range 300 {
		subject := []string{"q.jobs.push", "q.jobs.ack.here.1", "q.jobs.ack.there.1"}[i%3]
		want = append(want, strconv.Itoa(i))
		s.publish(subject, strconv.Itoa(i))
	}
	s.until("all are handled", func() bool { return len(s.seen(&s.handled)) == len(want) })
	if got := s.seen(&s.handled); !slices.Equal(got, want) {
		t.Errorf("handled %v", got)
	}
	s.until("all signals are seen", func() bool { return len(s.seen(&s.signals)) == 100 })
	if messages, bytes, err := receiver.Signals(s.Receiver).PendingLimits(); err != nil || messages != -1 || bytes != 256<<20 {
		t.Errorf("%d signals of %d bytes may wait, %v", messages, bytes, err)
	}
	if got := s.seen(&s.signals); slices.ContainsFunc(got, func(subject string) bool { return subject != "q.jobs.ack.here.1" }) {
		t.Errorf("signals on %v", got)
	}
}

// Pause handles the messages that have arrived and unsubscribes. After Resume the
// receiver serves again.
func TestPause(t *testing.T) {
	t.Parallel()
	s := start(t, func(s *station) { s.held = make(chan chan struct{}) })
	s.publish("q.jobs.push", "1")
	s.publish("q.jobs.ack.here.1", "2")
	release := s.next(s.held)
	s.delivered()
	paused := make(chan error, 1)
	go func() { paused <- s.Pause(context.Background(), 0) }()
	s.until("there is no subscription", func() bool { return s.server.Server().GlobalAccount().Interest("q.jobs.push") == 0 })
	select {
	case err := <-paused:
		t.Fatalf("paused before the messages that had arrived were handled: %v", err)
	default:
	}
	release()
	s.releaseAll(s.held)
	if err := <-paused; err != nil {
		t.Fatal(err)
	}
	if got := s.seen(&s.handled); !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("handled %v", got)
	}
	for range 2 { // a pause of a paused receiver changes nothing
		for _, subject := range []string{"q.jobs.push", "q.jobs.ack.here.1", "q.jobs.ack.there.1"} {
			if s.answered(subject) {
				t.Errorf("%s is answered during a pause", subject)
			}
		}
		if err := s.Pause(context.Background(), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Resume(0); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"q.jobs.push", "q.jobs.ack.here.1", "q.jobs.ack.there.1"} {
		if !s.answered(subject) {
			t.Errorf("%s is not answered after a pause", subject)
		}
	}
}

// Signals that have arrived are handled before their subscription has ended.
func TestPauseWaitsForSignals(t *testing.T) {
	t.Parallel()
	s := start(t, func(s *station) { s.signal = make(chan chan struct{}) })
	s.publish("q.jobs.ack.here.1", "1")
	release := s.next(s.signal)
	paused := make(chan error, 1)
	go func() { paused <- s.Pause(context.Background(), 0) }()
	s.until("signals are not received", func() bool { return !s.subscribed("q.*.ack.here.>") })
	if len(paused) > 0 {
		t.Error("paused before the signal was handled")
	}
	if s.answered("q.jobs.push") {
		t.Error("requests are received")
	}
	if !s.answered("q.jobs.ack.here.1") {
		t.Error("settlements end before signals")
	}
	release()
	if err := <-paused; err != nil {
		t.Fatal(err)
	}
	if got := s.seen(&s.signals); len(got) != 1 {
		t.Errorf("signals on %v", got)
	}
}

// Draining ends with settlements: they are received after requests have ended, until
// they are drained too.
func TestDrain(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, step := range []struct {
		drain                 func(context.Context) error
		requests, settlements bool
	}{
		{func(context.Context) error { return nil }, true, true},
		{s.DrainRequests, false, true},
		{s.DrainSettlements, false, false},
		{s.DrainSettlements, false, false},
	} {
		if err := step.drain(context.Background()); err != nil {
			t.Fatal(err)
		}
		if got := s.answered("q.jobs.push"); got != step.requests {
			t.Errorf("a request is answered: %t", got)
		}
		if got := s.answered("q.jobs.ack.here.1"); got != step.settlements {
			t.Errorf("a settlement is answered: %t", got)
		}
	}
}

// A drain that runs out of time reports the messages that are not handled.
func TestDrainOutOfTime(t *testing.T) {
	t.Parallel()
	s := start(t, func(s *station) { s.held = make(chan chan struct{}) })
	s.publish("q.jobs.push", "1")
	release := s.next(s.held)
	ctx, cancel := context.WithCancel(context.Background())
	drained := make(chan error, 1)
	go func() { drained <- s.DrainRequests(ctx) }()
	s.until("requests are not received", func() bool { return s.server.Server().GlobalAccount().Interest("q.jobs.push") == 0 })
	cancel()
	if err := <-drained; err == nil || !strings.Contains(err.Error(), "drain q.>") || !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	release()
}

// Without a server, draining ends at once.
func TestDrainWithoutServer(t *testing.T) {
	t.Parallel()
	s := start(t)
	down := s.nc.StatusChanged(nats.RECONNECTING)
	s.server.Shutdown()
	<-down
	if err := errors.Join(s.DrainRequests(context.Background()), s.DrainSettlements(context.Background())); err != nil {
		t.Error(err)
	}
}

// shedCheck is the number of messages from one check for overload to the next.
const shedCheck = 256

// backlog has requests arrive faster than they are handled. The handler holds the first.
func (s *station) backlog() (n int, release func()) {
	s.t.Helper()
	const size = 64 << 10
	n = 1 + shedCheck + (17<<20)/size
	padding := strings.Repeat("x", size)
	for i := range n {
		s.publish("q.jobs.push", strconv.Itoa(i)+" "+padding)
	}
	release = s.next(s.held)
	s.until("all have arrived", func() bool { return receiver.Pending(s.Receiver) == n })
	return n, release
}

// overload has requests arrive until the receiver sheds load. The handler holds the last
// one that it knows.
func (s *station) overload() (n int, release func()) {
	s.t.Helper()
	n, release = s.backlog()
	return n, s.shed(release)
}

// shed lets the handler go on until the receiver sheds load.
func (s *station) shed(release func()) func() {
	s.t.Helper()
	for range shedCheck {
		release()
		release = s.next(s.held)
	}
	s.until("load is shed", func() bool {
		requests, _ := s.Sheddings()
		return requests == 1
	})
	return release
}

// While load is shed, the server refuses requests, and the bridge refuses pushes unread,
// so none is lost silently. Requests that have arrived are handled in order, before new
// ones.
func TestShedsLoad(t *testing.T) {
	t.Parallel()
	s := start(t, func(s *station) { s.held = make(chan chan struct{}) })
	n, release := s.overload()
	if s.answered("q.jobs.pop") {
		t.Error("a request is answered while load is shed")
	}
	for _, subject := range []string{"q.jobs.push", "q.jobs.push.5"} {
		if !s.answered(subject) {
			t.Errorf("nothing refuses %s", subject)
		}
	}
	if got := s.seen(&s.refused); !slices.Equal(got, []string{"asked", "asked"}) {
		t.Errorf("refused %v", got)
	}
	release()
	s.releaseAll(s.held)
	s.until("requests are received again", func() bool { return s.answered("q.jobs.pop") })
	got := s.seen(&s.handled)
	for i := range n {
		if got[i] != strconv.Itoa(i) {
			t.Fatalf("handled %s as number %d", got[i], i)
		}
	}
	if requests, pushes := s.Sheddings(); requests != 1 || pushes != 0 {
		t.Errorf("shed load %d times, of pushes %d times", requests, pushes)
	}
	s.until("a push is read again", func() bool { // the subscription that refuses pushes ends after pops are answered
		s.publish("q.jobs.push", "last")
		got := s.seen(&s.handled)
		return got[len(got)-1] == "last"
	})
}

// When pushes arrive faster than they can be refused, their subscription ends until
// the load is shed.
func TestShedsPushes(t *testing.T) {
	t.Parallel()
	s := start(t, func(s *station) { s.held, s.refusal = make(chan chan struct{}), make(chan chan struct{}) })
	_, release := s.overload()
	padding := strings.Repeat("x", 64<<10)
	for range 256 + (17<<20)/len(padding) { // a check is due within the first 256
		s.publish("q.jobs.push", padding)
	}
	refuse := s.next(s.refusal)
	s.delivered()
	refuse()
	s.releaseAll(s.refusal)
	s.until("pushes are shed", func() bool {
		_, pushes := s.Sheddings()
		return pushes > 0
	})
	s.until("there is no subscription to pushes", func() bool { return !s.answered("q.jobs.push") })
	release()
	s.releaseAll(s.held)
	s.until("pushes are received again", func() bool { return s.answered("q.jobs.push") })
}

// A receiver that sheds load drains without waiting until it has shed it.
func TestDrainWhileShedding(t *testing.T) {
	t.Parallel()
	s := start(t, func(s *station) { s.held = make(chan chan struct{}) })
	n, release := s.overload()
	drained := make(chan error, 1)
	go func() { drained <- s.DrainRequests(context.Background()) }()
	s.until("pushes are not refused any more", func() bool { return !s.answered("q.jobs.push") })
	release()
	s.releaseAll(s.held)
	if err := <-drained; err != nil {
		t.Fatal(err)
	}
	if got := len(s.seen(&s.handled)); got != n {
		t.Errorf("handled %d requests, %d have arrived", got, n)
	}
	if s.answered("q.jobs.push") {
		t.Error("a request is answered after the drain")
	}
	if err := s.Pause(context.Background(), 0); err != nil { // settlements alone are left
		t.Fatal(err)
	}
}
