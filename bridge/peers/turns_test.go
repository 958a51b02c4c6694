package peers_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/peers"
	"github.com/pqbridge/pqbridge/testenv"
)

const patience = testenv.Patience

// turns is a server with bridges on one store that take turns, and a client that hears
// all their messages and may publish any.
type turns struct {
	*testing.T
	server  *testenv.Server
	clock   atomic.Int64 // store time
	spy     *nats.Conn
	said    chan *nats.Msg
	bridges map[string]bridge
}

type bridge struct {
	*peers.Turns
	nc *nats.Conn
}

const storeID = "store"

func newTurns(t *testing.T) *turns {
	w := &turns{T: t, server: testenv.NATS(t), said: make(chan *nats.Msg, 1<<12), bridges: make(map[string]bridge)}
	w.clock.Store(int64(time.Hour))
	w.spy = w.server.Connect(t)
	if _, err := w.spy.ChanSubscribe(peers.Inbox(storeID)+".>", w.said); err != nil {
		t.Fatal(err)
	}
	return w
}

// bridge starts a bridge that has lost a conflict at the queue jobs. It waits up to an
// hour for others, longer than any test lasts.
func (w *turns) bridge(id, secret string) bridge {
	w.Helper()
	store := peers.Store{Secret: []byte(secret), Time: func() time.Duration { return time.Duration(w.clock.Load()) }}
	nc := w.server.Connect(w, nats.NoEcho())
	b := bridge{peers.NewTurns(nc, peers.Identity{ID: id, StoreID: storeID}, store, slog.New(slog.DiscardHandler)), nc}
	b.Patience = time.Hour
	b.Lost("jobs")
	w.Cleanup(b.Stop)
	w.bridges[id] = b
	w.heard()
	return b
}

// heard returns when every bridge has received the earlier messages.
func (w *turns) heard() {
	w.Helper()
	for _, b := range w.bridges {
		w.flush(b.nc)
	}
	w.flush(w.spy)
	for _, b := range w.bridges {
		w.flush(b.nc)
		done := make(chan struct{})
		if err := b.nc.Barrier(func() { close(done) }); err != nil {
			w.Fatal(err)
		}
		<-done
	}
}

func (w *turns) flush(nc *nats.Conn) {
	w.Helper()
	if err := nc.FlushTimeout(patience); err != nil {
		w.Fatal(err)
	}
}

// next returns the next message.
func (w *turns) next() *nats.Msg {
	w.Helper()
	select {
	case m := <-w.said:
		return m
	case <-time.After(patience):
		w.Fatal("nothing was said")
		return nil
	}
}

// say publishes a message, and returns when all bridges have received it.
func (w *turns) say(subject string, data []byte) {
	w.Helper()
	if err := w.spy.Publish(subject, data); err != nil {
		w.Fatal(err)
	}
	if m := w.next(); string(m.Data) != string(data) {
		w.Fatalf("heard %q, expected what was said just now", m.Data)
	}
	w.heard()
}

// await has a bridge wait for its turn. The channel is closed when it comes.
func (w *turns) await(b bridge) <-chan struct{} {
	w.Helper()
	came, _ := w.wants(b)
	return came
}

// wants is await, and also returns the bridge's first message.
func (w *turns) wants(b bridge) (<-chan struct{}, *nats.Msg) {
	w.Helper()
	came := make(chan struct{})
	go func() {
		defer close(came)
		b.Await("jobs")
	}()
	want := w.next()
	w.heard()
	return came, want
}

// comes fails unless the bridge gets its turn.
func (w *turns) comes(came <-chan struct{}) {
	w.Helper()
	select {
	case <-came:
	case <-time.After(patience):
		w.Fatal("the turn did not come")
	}
}

// waits fails if the bridge has its turn already.
func (w *turns) waits(came <-chan struct{}) {
	w.Helper()
	select {
	case <-came:
		w.Fatal("took before it was its turn")
	default:
	}
}

// Bridges get their turns one after the other, in the order in which they asked.
func TestTurns(t *testing.T) {
	t.Parallel()
	w := newTurns(t)
	a, b, c := w.bridge("a", "secret"), w.bridge("b", "secret"), w.bridge("c", "secret")
	w.comes(w.await(b))
	first, second := w.await(c), w.await(a)
	w.waits(first)
	b.Done("jobs")
	w.comes(first)
	w.heard()
	w.waits(second)
	c.Done("jobs")
	w.comes(second)
	a.Done("jobs")
	for range 3 {
		w.next()
	}
	w.comes(w.await(b))
	next := w.await(a)
	w.waits(next)
	w.comes(w.await(b)) // gave up, and comes again behind the other
	w.comes(next)
}

// A bridge without a recent conflict neither waits nor publishes.
func TestNoTurns(t *testing.T) {
	t.Parallel()
	w := newTurns(t)
	a, b := w.bridge("a", "secret"), w.bridge("b", "secret")
	w.comes(w.await(b))
	a.Await("mail")
	a.Done("mail")
	w.clock.Add(int64(2 * time.Second))
	a.Await("jobs")
	for i := range 1024 {
		a.Lost(fmt.Sprint(i))
	}
	a.Lost("one-too-many")
	a.Await("one-too-many")
	a.Stop()
	a.Lost("mail")
	a.Await("mail")
	if w.heard(); len(w.said) > 0 {
		t.Errorf("said %q", (<-w.said).Data)
	}
}

// A bridge waits once for others that wanted their turn and then fell silent. Bridges
// that came behind it keep their places.
func TestTurnOfABridgeThatHasGone(t *testing.T) {
	t.Parallel()
	w := newTurns(t)
	gone, too, a, b := w.bridge("gone", "secret"), w.bridge("too", "secret"), w.bridge("a", "secret"), w.bridge("b", "secret")
	too.Patience, a.Patience, b.Patience = time.Millisecond, time.Millisecond, time.Millisecond
	w.comes(w.await(gone))
	w.comes(w.await(too))
	w.comes(w.await(a))
	w.comes(w.await(b))
	a.Done("jobs")
	w.next()
	w.heard()
	a.Patience = time.Hour
	behind := w.await(a)
	w.waits(behind)
	b.Done("jobs")
	w.next()
	w.comes(behind)
}

// A line lasts for a second after the last message of another bridge, or after the last
// transaction that was lost, and while this bridge waits in it. Then there is room
// for another one.
func TestLinesEnd(t *testing.T) {
	t.Parallel()
	const part = 600 * time.Millisecond
	for _, tc := range []struct {
		what string
		news func(w *turns, a, b bridge)
	}{
		{"a message", func(w *turns, a, b bridge) { w.comes(w.await(b)) }},
		{"a loss", func(w *turns, a, b bridge) { a.Lost("jobs") }},
	} {
		t.Run(tc.what, func(t *testing.T) {
			t.Parallel()
			w := newTurns(t)
			a, b := w.bridge("a", "secret"), w.bridge("b", "secret")
			w.clock.Add(int64(part))
			tc.news(w, a, b)
			w.clock.Add(int64(part))
			w.await(a) // and says that it wants to pop
		})
	}

	w := newTurns(t)
	a, b := w.bridge("a", "secret"), w.bridge("b", "secret")
	for i := range 1023 {
		a.Lost(fmt.Sprint(i))
	}
	w.comes(w.await(b))
	came := w.await(a)
	w.clock.Add(int64(2 * time.Second))
	a.Lost("mail")
	a.Await("mail")
	if m := w.next(); !strings.HasSuffix(m.Subject, ".mail") {
		t.Errorf("said something on %s", m.Subject)
	}
	b.Done("jobs")
	w.comes(came)
}

// Messages of others have no effect: forged ones, those of a bridge on another store, and
// copies of genuine ones.
func TestForgedMessages(t *testing.T) {
	t.Parallel()
	w := newTurns(t)
	a, b := w.bridge("a", "secret"), w.bridge("b", "secret")
	came, want := w.wants(b)
	w.comes(came)
	jobs := want.Subject

	// A bridge that waits goes on waiting.
	waiting, own := w.wants(a)
	for i := range want.Data {
		forged := slices.Clone(want.Data)
		forged[i] ^= '+' ^ '-'
		w.say(jobs, forged)
	}
	w.say(jobs, []byte("-b"))
	w.say(jobs, own.Data)
	w.waits(waiting)
	b.Done("jobs")
	done := w.next()
	w.comes(waiting)
	a.Done("jobs")
	w.next()

	// A bridge that need not wait does not.
	other := w.bridge("b", "another secret")
	for what, data := range map[string][]byte{
		"nothing":                    nil,
		"a word without a seal":      []byte("+b"),
		"a word cut short":           want.Data[:len(want.Data)-1],
		"a word with more behind it": append(slices.Clone(want.Data), 'x'),
		"a word that is too long":    make([]byte, 1<<16),
		"a copy":                     want.Data,
		"a copy of another word":     done.Data,
		"a copy of its own word":     own.Data,
	} {
		t.Logf("hears %s", what)
		w.say(jobs, data)
		w.comes(w.await(a))
		a.Done("jobs")
		w.next()
	}
	w.comes(w.await(other))
	w.comes(w.await(a))
}

// A copy of a bridge's own message does not move it behind others in its line, where both
// would wait for each other.
func TestCopyOfOwnMessage(t *testing.T) {
	t.Parallel()
	w := newTurns(t)
	a, b, c := w.bridge("a", "secret"), w.bridge("b", "secret"), w.bridge("c", "secret")
	w.comes(w.await(b))
	waiting, own := w.wants(a)
	behind := w.await(c)
	w.say(own.Subject, own.Data)
	b.Done("jobs")
	w.comes(waiting)
	a.Done("jobs")
	w.comes(behind)
}

// A bridge whose id is too long for one is not heard.
func TestLongID(t *testing.T) {
	t.Parallel()
	w := newTurns(t)
	a, long := w.bridge("a", "secret"), w.bridge(strings.Repeat("x", 65), "secret")
	w.comes(w.await(long))
	w.comes(w.await(a))
}

// After its end a bridge listens to no others, whatever conflicts it still has.
func TestStopTurns(t *testing.T) {
	t.Parallel()
	w := newTurns(t)
	a := w.bridge("a", "secret")
	for range 2 {
		a.Stop()
		a.Lost("mail")
		if n := a.nc.NumSubscriptions(); n != 0 {
			t.Errorf("%d subscriptions are left", n)
		}
	}
}

// A message counts for its queue only.
func TestMessageForAnotherQueue(t *testing.T) {
	t.Parallel()
	w := newTurns(t)
	_, want := w.wants(w.bridge("b", "secret"))
	a := w.bridge("a", "secret") // has not heard it yet
	a.Lost("mail")
	w.say(strings.Replace(want.Subject, "jobs", "mail", 1), want.Data)
	came := make(chan struct{})
	go func() {
		defer close(came)
		a.Await("mail")
	}()
	w.comes(came)
}

// A message is too old, or too new, when it is some seconds of store time away, also for
// a bridge that receives it for the first time.
func TestOldMessages(t *testing.T) {
	t.Parallel()
	w := newTurns(t)
	_, want := w.wants(w.bridge("b", "secret"))
	a := w.bridge("a", "secret")
	for _, by := range []time.Duration{11 * time.Second, -22 * time.Second} {
		w.clock.Add(int64(by))
		a.Lost("jobs")
		w.say(want.Subject, want.Data)
		w.comes(w.await(a))
		a.Done("jobs")
		w.next()
	}
}

// A bounded number of bridges is remembered, and new ones are heard when old ones have
// gone.
func TestManyBridges(t *testing.T) {
	t.Parallel()
	m := peers.NewMemory()
	for i := range 1000 {
		m.Hears(fmt.Sprint(i), time.Hour, time.Hour)
	}
	if n := m.Len(); n != 256 {
		t.Errorf("%d bridges are remembered, expected 256", n)
	}
	if m.Hears("new", time.Hour, time.Hour) {
		t.Error("a bridge beyond those that can be remembered is heard")
	}
	if later := time.Hour + 11*time.Second; !m.Hears("new", later, later) || m.Len() != 1 {
		t.Errorf("%d bridges are remembered, expected the new one alone", m.Len())
	}
	if at := time.Hour + 11*time.Second; m.Hears("new", at, at) || !m.Hears("new", at+1, at) {
		t.Error("expected words in the order of their times alone")
	}
}
