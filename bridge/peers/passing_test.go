package peers_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/peers"
)

// A bridge serves the requests itself that its owner can no longer get, and passes no more on.
func TestOwnerThatDies(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	owner, others := w.several(2)
	if err := w.spying.Unsubscribe(); err != nil { // the server would take it for the owner
		t.Fatal(err)
	}
	owner.nc.Close()
	for late := time.Now().Add(patience); ; { // what is on its way until the server notices is lost
		_, err := w.spy.Request(between+".to."+owner.id, nil, 100*time.Millisecond)
		if errors.Is(err, nats.ErrNoResponders) {
			break
		} else if time.Now().After(late) {
			t.Fatal("the server does not notice that a bridge has gone")
		}
	}
	w.passes(others[0], "a")
	w.passes(others[0], "b")
	w.serves(others[0], "a")
	w.serves(others[0], "b")
	w.keeps(others[0], "the owner has gone")
	w.settled(others...)
}

// A bridge that says nothing for a second and a half owns nothing.
func TestOwnerThatIsSilent(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	owner, others := w.several(3)
	w.clock.Add(int64(1400 * time.Millisecond))
	w.passes(others[0], "x")
	w.serves(owner, "x")
	for _, b := range others {
		b.Announce()
	}
	w.heard()
	w.clock.Add(int64(200 * time.Millisecond))
	if others[0].Pops("jobs") == others[1].Pops("jobs") {
		t.Error("expected one of the two others to own the queue")
	}
	owner.Announce()
	w.heard()
	w.passes(others[0], "y")
	w.serves(owner, "y")
}

// A bridge that leaves takes no more requests. Others serve what nobody receives.
func TestOwnerThatLeaves(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	owner, others := w.several(2)
	w.passes(others[0], "before")
	w.serves(owner, "before")
	w.settled(others...)
	w.unspied()
	w.leaves(owner)
	w.heard()
	w.keeps(others[0], "the owner leaves")
	owner.Announce() // as if the other one had not heard yet
	w.heard()
	w.passes(others[0], "after")
	w.serves(others[0], "after")
	w.settled(others...)
	w.keeps(others[0], "the owner has gone")
	w.idle(owner)
	if passed, _ := others[0].Counts(); passed != 1 {
		t.Errorf("%d requests are counted that were passed on, expected 1", passed)
	}
}

// A bridge serves the requests that another one declines.
func TestDeclinedRequests(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	asker := w.bridge("asker")
	queue, deaf := w.deaf(asker)
	for _, body := range []string{"a", "b"} {
		w.passesOf(asker, queue, pop(body))
		if err := deaf.nc.Publish(w.message(between+".to.deaf").Reply, []byte("-")); err != nil {
			t.Fatal(err)
		}
		w.serves(asker, body)
		w.settled(asker)
	}
	if passed, _ := asker.Counts(); passed != 0 {
		t.Errorf("%d requests are counted that were passed on, expected none", passed)
	}
}

// A bridge does not end before it knows what became of its requests.
func TestSettleWaitsForAnswers(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	asker := w.bridge("asker")
	queue, deaf := w.deaf(asker)
	w.passesOf(asker, queue, pop("x"))
	sent := w.message(between + ".to.deaf")
	settled := make(chan error, 1)
	go func() { settled <- asker.Settle(t.Context()) }()
	w.waits(settled, "settles before its request is answered")
	if err := deaf.nc.Publish(sent.Reply, nil); err != nil {
		t.Fatal(err)
	}
	if err := <-settled; err != nil {
		t.Error(err)
	}
	if passed, _ := asker.Counts(); passed != 1 {
		t.Errorf("%d requests are counted that were passed on, expected 1", passed)
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

// unspied ends the client's subscription, which the server would take for that of a bridge.
func (w *owners) unspied() {
	w.Helper()
	if err := w.spying.Unsubscribe(); err != nil {
		w.Fatal(err)
	}
	w.flush(w.spy)
}

// waits fails if a bridge has done by now what it has to wait with.
func (w *owners) waits(done <-chan error, what string) {
	w.Helper()
	select {
	case err := <-done:
		w.Errorf("a bridge %s: %v", what, err)
	case <-time.After(50 * time.Millisecond):
	}
}

// leaves has a bridge leave.
func (w *owners) leaves(b *bridge) {
	w.Helper()
	if err := b.Leave(w.Context()); err != nil {
		w.Fatal(err)
	}
}

// A bridge that starts tells others of itself, again and again, and stops that with Leave.
func TestBridgesTellOfThemselves(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	a, b := w.started("a"), w.started("b")
	words := between + ".word._sys"
	for range 6 {
		w.message(words)
	}
	a.Lost("jobs")
	w.heard()
	if a.Pops("jobs") == b.Pops("jobs") {
		t.Error("expected one of two bridges to own the queue")
	}
	w.leaves(a)
	w.heard()
	if !b.Pops("jobs") {
		t.Error("a bridge that has left owns a queue")
	}
	w.leaves(b)
	w.heard()
	for len(w.said) > 0 {
		<-w.said
	}
	for _, o := range []*bridge{a, b} {
		for range 2 {
			o.Stop()
		}
		if n := o.nc.NumSubscriptions(); n != 0 {
			t.Errorf("%d subscriptions are left", n)
		}
	}
}

// Forged messages, changed ones and copies have no effect: neither is a request served, nor does
// a bridge publish where somebody else asks it to.
func TestForgedRequests(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	owner, others := w.several(3)
	w.passes(others[0], "x")
	w.serves(owner, "x")
	sent := w.message(between + ".to.")
	if bytes.Contains(sent.Data, []byte("pop.min")) || bytes.Contains(sent.Data, []byte("_INBOX")) {
		t.Error("requests are passed on in the clear")
	}
	stranger := w.silent("stranger", "another secret")
	stranger.Lost("jobs")
	heard, err := w.spy.SubscribeSync("spy.>")
	if err != nil {
		t.Fatal(err)
	}
	say := func(subject string, data []byte) {
		t.Helper()
		if err := w.spy.PublishRequest(subject, "spy.here", data); err != nil {
			t.Fatal(err)
		}
		w.idle(append(others, owner, stranger)...)
	}
	say(sent.Subject, sent.Data) // a copy
	say(sent.Subject, stranger.Sealed(owner.id, w.clock.Load(), pop("of another store")))
	for i := range sent.Data {
		forged := slices.Clone(sent.Data)
		forged[i] ^= 1
		say(sent.Subject, forged)
	}
	for n := range len(sent.Data) {
		say(sent.Subject, sent.Data[:n])
	}
	say(sent.Subject, append(slices.Clone(sent.Data), 0))
	say(sent.Subject, bytes.Repeat([]byte{255}, 100))
	for _, other := range []*bridge{others[0], others[1], stranger} {
		say(strings.Replace(sent.Subject, owner.id, other.id, 1), sent.Data)
	}
	w.flush(w.spy)
	if m, err := heard.NextMsg(time.Nanosecond); err == nil {
		t.Errorf("a bridge answers %q on the subject in a forged message", m.Data)
	}
	w.passes(others[0], "y") // and goes on
	w.serves(owner, "y")
}

// A message that is some seconds old is no longer taken; its requests are served where they
// came from.
func TestOldRequests(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	owner, others := w.several(2)
	sealed := others[0].Sealed(owner.id, w.clock.Load()-int64(11*time.Second), pop("old"))
	if err := w.spy.Publish(between+".to."+owner.id, sealed); err != nil {
		t.Fatal(err)
	}
	if m := w.message(between + ".answer." + others[0].id); string(m.Data) != "-" {
		t.Errorf("an old message is answered %q", m.Data)
	}
	w.idle(owner)
}

// Answers that do not belong to a message change nothing. An answer counts once.
func TestForgedAnswers(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	owner, others := w.several(2)
	answers := between + ".answer." + others[0].id
	for range 2 {
		w.passes(others[0], "x")
		w.serves(owner, "x")
		w.settled(others...)
		for _, subject := range []string{w.message(answers).Subject, answers + ".x"} {
			for _, body := range []string{"-", ""} {
				if err := w.spy.Publish(subject, []byte(body)); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.spy.PublishMsg(&nats.Msg{Subject: subject, Header: nats.Header{"Status": {"503"}}}); err != nil {
				t.Fatal(err)
			}
		}
		w.idle(owner, others[0])
		w.message(answers + ".x")
	}
}

// A request that is too large for a message is not passed on. Neither is one for a bridge
// that does not answer, when much waits for it; after two seconds that is forgotten.
func TestOwnerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	asker := w.bridge("asker")
	asker.Lost("jobs")
	queue, deaf := w.deaf(asker)
	if asker.Pass(queue, pop(strings.Repeat("x", 17<<10))) {
		t.Error("a large request is passed on")
	}
	passed := 0
	for asker.Pass(queue, pop(strings.Repeat("x", 1000))) {
		passed++
	}
	if passed < 900 || passed > 1048 {
		t.Errorf("%d requests of 1,000 bytes are passed on to a bridge that does not answer, expected about a megabyte", passed)
	}
	w.message(between + ".to.deaf")
	w.clock.Add(int64(2100 * time.Millisecond))
	asker.Announce()
	if !strings.Contains(asker.log.String(), "does not say whether it has taken requests") {
		t.Errorf("the log has %q", asker.log)
	}
	deaf.Announce()
	w.heard()
	if !asker.Pass(queue, pop("x")) {
		t.Error("what a bridge did not answer takes up room for ever")
	}
	w.idle(asker) // it may have been served
}

// deaf starts a bridge that takes no requests and answers none, and returns a queue of which
// it is the owner.
func (w *owners) deaf(asker *bridge) (queue string, deaf *bridge) {
	w.Helper()
	deaf = w.bridge("deaf")
	deaf.Stop()
	if _, err := deaf.nc.Subscribe(between+".to.deaf", func(*nats.Msg) {}); err != nil {
		w.Fatal(err)
	}
	w.heard()
	for i := 0; ; i++ {
		if queue = fmt.Sprint("queue-", i); peers.OwnerOf(queue, "asker", "deaf") == "deaf" {
			asker.Lost(queue)
			return queue, deaf
		}
	}
}

// Requests that arrive while one is on its way go in few messages, none of which is too large.
func TestRequestsArePassedTogether(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	asker := w.bridge("asker")
	queue, deaf := w.deaf(asker)
	const n, size = 500, 200
	for range n {
		w.passesOf(asker, queue, pop(strings.Repeat("x", size)))
	}
	w.heard()
	messages := 0
	for got := 0; got < n; messages++ {
		m := w.message(between + ".to.deaf")
		if len(m.Data) > 80<<10 {
			t.Errorf("a message has %d bytes", len(m.Data))
		}
		got += deaf.Opened(m.Data)
		if err := deaf.nc.Publish(m.Reply, nil); err != nil {
			t.Fatal(err)
		}
	}
	if messages > 4 {
		t.Errorf("%d requests of %d bytes are passed on in %d messages", n, size, messages)
	}
	w.settled(asker)
}
