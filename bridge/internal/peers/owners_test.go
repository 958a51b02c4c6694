package peers_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/peers"
	"github.com/pqbridge/pqbridge/testenv"
)

// owners is a server with bridges on one store, and a client that hears all their messages
// and may publish any.
type owners struct {
	*testing.T
	server  *testenv.Server
	clock   atomic.Int64 // store time
	spy     *nats.Conn
	said    chan *nats.Msg
	spying  *nats.Subscription
	bridges []*bridge
}

// bridge is one of the bridges, with the requests that it is to serve.
type bridge struct {
	*peers.Owners
	id     string
	nc     *nats.Conn
	served chan *nats.Msg
	unsure chan *nats.Msg // requests of which it says that nobody knows
	gate   sync.Mutex     // held while it serves nothing
	log    *syncBuffer
}

const (
	storeID = "store"
	between = "_INBOX." + storeID + ".pq" // prefix of the subjects between bridges
)

func newOwners(t *testing.T, changes ...func(*server.Options)) *owners {
	w := &owners{T: t, server: testenv.NATS(t, changes...), said: make(chan *nats.Msg, 1<<14)}
	w.clock.Store(int64(time.Hour))
	w.spy = w.server.Connect(t)
	var err error
	if w.spying, err = w.spy.ChanSubscribe(peers.Inbox(storeID)+".>", w.said); err != nil {
		t.Fatal(err)
	}
	w.flush(w.spy)
	return w
}

// silent starts a bridge that listens and does not say that it is there.
func (w *owners) silent(id, secret string) *bridge {
	w.Helper()
	return w.begin("pq", id, secret, (*peers.Owners).Listen)
}

// started starts a bridge that says again and again that it is there.
func (w *owners) started(id string) *bridge {
	w.Helper()
	return w.begin("pq", id, "secret", (*peers.Owners).Start)
}

func (w *owners) begin(prefix, id, secret string, begin func(*peers.Owners) error, options ...nats.Option) *bridge {
	w.Helper()
	b := &bridge{id: id, nc: w.server.Connect(w, options...), served: make(chan *nats.Msg, 1<<14), unsure: make(chan *nats.Msg, 1<<14), log: &syncBuffer{}}
	store := peers.Store{Secret: []byte(secret), Time: func() time.Duration { return time.Duration(w.clock.Load()) }}
	b.Owners = peers.NewOwners(b.nc, peers.Identity{ID: id, Prefix: prefix, StoreID: storeID}, store, slog.New(slog.NewTextHandler(b.log, nil)),
		peers.Handlers{
			Serve: func(m *nats.Msg) {
				b.gate.Lock()
				defer b.gate.Unlock()
				b.served <- m
			},
			Unknown: func(m *nats.Msg) { b.unsure <- m },
		})
	if err := begin(b.Owners); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(b.Stop)
	w.bridges = append(w.bridges, b)
	w.heard()
	return b
}

// bridge starts a bridge that says that it is there.
func (w *owners) bridge(id string) *bridge {
	w.Helper()
	b := w.silent(id, "secret")
	b.Announce()
	w.heard()
	return b
}

// several starts bridges that know each other, and returns the owner of the queue jobs, which
// they contest, before the others.
func (w *owners) several(n int) (owner *bridge, others []*bridge) {
	w.Helper()
	var all []*bridge
	for i := range n {
		all = append(all, w.bridge(fmt.Sprint("bridge-", i)))
	}
	for _, b := range all {
		b.Announce()
	}
	w.heard()
	all[0].Lost("jobs")
	w.heard()
	for _, b := range all {
		if b.Pops("jobs") {
			if owner != nil {
				w.Fatal("a queue has two owners")
			}
			owner = b
		} else {
			others = append(others, b)
		}
	}
	if owner == nil {
		w.Fatal("a queue has no owner")
	}
	return owner, others
}

// heard returns when every bridge has received the earlier messages.
func (w *owners) heard() {
	w.Helper()
	for _, b := range w.bridges {
		w.flush(b.nc)
	}
	w.flush(w.spy)
	for _, b := range w.bridges {
		if b.nc.IsClosed() {
			continue
		}
		w.flush(b.nc)
		done := make(chan struct{})
		if err := b.nc.Barrier(func() { close(done) }); err != nil {
			w.Fatal(err)
		}
		<-done
	}
}

func (w *owners) flush(nc *nats.Conn) {
	w.Helper()
	if nc.IsClosed() {
		return
	}
	if err := nc.FlushTimeout(testenv.Patience()); err != nil {
		w.Fatal(err)
	}
}

// message returns the next message on a subject with the prefix.
func (w *owners) message(prefix string) *nats.Msg {
	w.Helper()
	late := testenv.Late()
	for {
		select {
		case m := <-w.said:
			if strings.HasPrefix(m.Subject, prefix) {
				return m
			}
		case <-late:
			w.Fatalf("nothing was said on %s", prefix)
		}
	}
}

// passes has a bridge pass on a request.
func (w *owners) passes(b *bridge, body string) {
	w.Helper()
	w.passesOf(b, "jobs", pop(body))
}

// passesOf is passes for any queue and message.
func (w *owners) passesOf(b *bridge, queue string, m *nats.Msg) {
	w.Helper()
	if !b.Pass(queue, m) {
		w.Fatalf("%s does not pass %.20s on", b.id, m.Data)
	}
}

// keeps fails if a bridge passes a request on.
func (w *owners) keeps(b *bridge, why string) {
	w.Helper()
	if b.Pass("jobs", pop(why)) {
		w.Fatalf("%s passes a request on, although %s", b.id, why)
	}
}

// serves returns the request that a bridge serves next.
func (w *owners) serves(b *bridge, body string) *nats.Msg {
	w.Helper()
	select {
	case m := <-b.served:
		if string(m.Data) != body {
			w.Fatalf("%s serves %q, expected %q", b.id, m.Data, body)
		}
		return m
	case <-testenv.Late():
		w.Fatalf("%s does not serve %q", b.id, body)
		return nil
	}
}

// idle fails if a bridge serves more.
func (w *owners) idle(bridges ...*bridge) {
	w.Helper()
	w.heard()
	for _, b := range bridges {
		if len(b.served) > 0 {
			w.Fatalf("%s serves %q", b.id, (<-b.served).Data)
		}
	}
}

func pop(body string) *nats.Msg {
	return &nats.Msg{Subject: "pq.jobs.pop.min", Reply: "_INBOX.client", Data: []byte(body)}
}

// syncBuffer keeps a log.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// The owner of a queue gets the requests of the other bridges as they came, and in their order.
func TestOwner(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	owner, others := w.several(3)
	w.keeps(owner, "it owns the queue")
	if others[0].Pass("mail", pop("mail")) {
		t.Error("a request for a queue that nobody contests is passed on")
	}
	for _, m := range []*nats.Msg{
		pop(""),
		{Subject: "pq.jobs.pop.max", Reply: "_INBOX.a.b", Data: []byte{0, 255, '\r', '\n'}},
		{Subject: "pq.jobs.pop.min", Header: nats.Header{"PQ-Wait": {"5s"}, "Twice": {"a", ""}, "Empty": {""}}},
		{Subject: strings.Repeat("s", 300), Reply: strings.Repeat("r", 300), Data: bytes.Repeat([]byte("x"), 8000)},
	} {
		w.passesOf(others[1], "jobs", m)
		got := w.serves(owner, string(m.Data))
		if got.Subject != m.Subject || got.Reply != m.Reply || !reflect.DeepEqual(got.Header, m.Header) {
			t.Errorf("%v arrives as %v", m, got)
		}
	}
	const n = 5000
	for _, b := range others {
		for i := range n {
			w.passes(b, fmt.Sprint(b.id, " ", i))
		}
	}
	next := make(map[string]int)
	for range 2 * n {
		m := <-owner.served
		of, _, _ := strings.Cut(string(m.Data), " ")
		if want := fmt.Sprint(of, " ", next[of]); string(m.Data) != want {
			t.Fatalf("serves %q, expected %q", m.Data, want)
		}
		next[of]++
	}
	w.settled(others...)
	w.idle(append(others, owner)...)
	if passed, _ := others[0].Counts(); passed != n {
		t.Errorf("%d requests are counted that were passed on, expected %d", passed, n)
	}
	if _, taken := owner.Counts(); taken != 2*n+4 {
		t.Errorf("%d requests are counted that were taken, expected %d", taken, 2*n+4)
	}
}

// settled waits until nothing is under way.
func (w *owners) settled(bridges ...*bridge) {
	w.Helper()
	for _, b := range bridges {
		if err := b.Settle(w.Context()); err != nil {
			w.Fatal(err)
		}
	}
}

// Queues are shared out among bridges, and all bridges agree who has which. When one comes,
// others lose queues to it alone.
func TestShares(t *testing.T) {
	t.Parallel()
	const n, queues = 4, 1000
	ids := []string{"a", "b", "c", "d"}
	count := make(map[string]int)
	for q := range queues {
		queue := fmt.Sprint("queue-", q)
		owner := peers.OwnerOf(queue, ids...)
		for i := range ids {
			if other := peers.OwnerOf(queue, append(slices.Clone(ids[i:]), ids[:i]...)...); other != owner {
				t.Fatalf("%s has the owners %s and %s", queue, owner, other)
			}
		}
		if before := peers.OwnerOf(queue, ids[:3]...); before != owner && owner != "d" {
			t.Errorf("%s moves from %s to %s when d comes", queue, before, owner)
		}
		count[owner]++
	}
	for _, id := range ids {
		if count[id] < queues/n*7/10 || count[id] > queues/n*13/10 {
			t.Errorf("%s has %d of %d queues", id, count[id], queues)
		}
	}
}

// A queue has an owner for ten seconds after its last pop.
func TestContestEnds(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	owner, others := w.several(2)
	for range 4 {
		w.clock.Add(int64(8 * time.Second))
		w.again()
		w.passes(others[0], "x")
		w.serves(owner, "x")
	}
	w.clock.Add(int64(11 * time.Second))
	w.again()
	w.keeps(others[0], "nobody has popped for a while")
	owner.Lost("jobs")
	w.heard()
	w.passes(others[0], "y")
	w.serves(owner, "y")
}

// again has all bridges say that they are there.
func (w *owners) again() {
	w.Helper()
	for _, b := range w.bridges {
		b.Announce()
	}
	w.heard()
}

// Bridges that come later hear of a contest when a bridge loses again, at most once a second.
func TestContestIsToldAgain(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	a := w.bridge("a")
	for range 3 {
		a.Lost("jobs")
	}
	w.clock.Add(int64(1100 * time.Millisecond))
	a.Lost("jobs")
	w.heard()
	told := 0
	for len(w.said) > 0 {
		if m := <-w.said; m.Subject == between+".word.jobs" {
			told++
		}
	}
	if told != 2 {
		t.Errorf("four losses are told %d times, expected 2", told)
	}
}

// There is a bound for queues with owners, and room again when contests have ended.
func TestManyContests(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	a, b := w.bridge("a"), w.bridge("b")
	w.again()
	contested := func(queue string) bool { return a.Pops(queue) != b.Pops(queue) }
	for i := range 4096 {
		a.Lost(fmt.Sprint(i))
	}
	a.Lost("one-more")
	w.heard()
	if contested("one-more") {
		t.Error("there is no bound for queues with owners")
	}
	if !contested("1") {
		t.Error("a contested queue has no owner, or two")
	}
	w.clock.Add(int64(11 * time.Second))
	w.again()
	a.Lost("one-more")
	w.heard()
	if !contested("one-more") {
		t.Error("contests that have ended take up room")
	}
}

// Bridges that serve other subjects cannot read the requests, so they are not asked.
func TestBridgesOfAnotherPrefix(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	a := w.bridge("a")
	for i := range 20 { // among so many, one would own the queue
		w.begin("app", fmt.Sprint("other-", i), "secret", (*peers.Owners).Listen).Announce()
	}
	w.heard()
	a.Lost("jobs")
	w.owns(a, true, "words of bridges with another prefix")
	w.keeps(a, "the others have another prefix")
}

// A bridge that leaves takes no more requests.
func TestOwnerThatLeaves(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	owner, others := w.several(2)
	w.passes(others[0], "before")
	w.serves(owner, "before")
	w.settled(others...)
	w.leaves(owner)
	w.keeps(others[0], "the owner leaves")
	w.idle(owner)
	if passed, _ := others[0].Counts(); passed != 1 {
		t.Errorf("%d requests are counted that were passed on, expected 1", passed)
	}
}

// A bridge that leaves goes on taking requests until the others have none under way to it. They
// serve what they have not sent yet.
func TestLeavingWaitsForOthers(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	owner, others := w.several(3)
	owner.gate.Lock()
	w.passes(others[1], "first")
	w.message(between + ".to.")
	w.settled(others[1]) // it is taken, and those behind it are not looked at yet
	w.passes(others[0], "sent")
	w.message(between + ".to.")
	w.passes(others[0], "waits")
	left := make(chan error, 1)
	go func() { left <- owner.Leave(t.Context()) }()
	w.serves(others[0], "waits")
	w.waits(left, "leaves while a request is under way to it")
	owner.gate.Unlock()
	if err := <-left; err != nil {
		t.Error(err)
	}
	w.serves(owner, "first")
	w.serves(owner, "sent")
	w.settled(others...)
	w.idle(others...)
	if len(others[0].unsure) > 0 {
		t.Error("a request is unknown that was taken")
	}
}

// A bridge that is silent, or says nothing of its requests, keeps none from leaving.
func TestLeavingDoesNotWaitForTheDead(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	owner, others := w.several(2)
	others[0].nc.Close()
	left := make(chan error, 1)
	go func() { left <- owner.Leave(t.Context()) }()
	w.message(words + "_sys")
	w.waits(left, "leaves without those that were there a moment ago")
	w.clock.Add(int64(1600 * time.Millisecond))
	if err := <-left; err != nil {
		t.Error(err)
	}
}

// A bridge whose server is away leaves at once.
func TestLeavingWithoutServer(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	alone := w.started("a")
	down := alone.nc.StatusChanged(nats.RECONNECTING)
	w.server.Shutdown()
	<-down
	atOnce, cancel := context.WithCancel(t.Context())
	cancel()
	if err := alone.Leave(atOnce); err != nil {
		t.Error(err)
	}
}

// A bridge that leaves while requests come serves all that it receives.
func TestLeavingLosesNothing(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	owner, others := w.several(2)
	w.unspied()
	const n = 2000
	left := make(chan error, 1)
	passed := 0
	for i := range n {
		if i == n/2 {
			go func() { left <- owner.Leave(t.Context()) }()
		}
		if others[0].Pass("jobs", pop("x")) {
			passed++
		}
	}
	if err := <-left; err != nil {
		t.Fatal(err)
	}
	w.settled(others...)
	if n := len(owner.served) + len(others[0].served); n != passed {
		t.Errorf("of %d requests that were passed on %d are served", passed, n)
	}
}

// A bridge that leaves serves what it has received, also what waits behind other requests.
func TestLeavingServesWhatWaits(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	owner, others := w.several(3)
	owner.gate.Lock()
	for _, b := range others {
		w.passes(b, b.id)
	}
	w.message(between + ".to.")
	w.message(between + ".to.")
	w.flush(owner.nc)
	for len(w.said) > 0 {
		<-w.said
	}
	left := make(chan error, 1)
	go func() { left <- owner.Leave(t.Context()) }()
	w.message(words + "_sys") // that it goes
	w.waits(left, "leaves while requests wait")
	owner.gate.Unlock()
	if err := <-left; err != nil {
		t.Error(err)
	}
	if len(owner.served) != 2 {
		t.Errorf("%d requests are served of 2 that have arrived", len(owner.served))
	}
	w.settled(others...)
}

// unspied ends the client's subscription, which the server would take for the subscription of a bridge.
func (w *owners) unspied() {
	w.Helper()
	if err := w.spying.Unsubscribe(); err != nil {
		w.Fatal(err)
	}
	w.flush(w.spy)
}

// leaves has a bridge leave.
func (w *owners) leaves(b *bridge) {
	w.Helper()
	if err := b.Leave(w.Context()); err != nil {
		w.Fatal(err)
	}
}
